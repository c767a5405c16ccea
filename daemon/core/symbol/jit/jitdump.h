/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Jitdump
 *
 * Reads the bytes of jit-PID.dump (Linux, tools/perf/Documentation/jitdump-specification.txt): a header, then
 * records of code that was loaded or moved, each with a time. Bytes in, code ranges out: it opens no file.
 * The file grows while it is read, so the bytes come in pieces, and a record counts once its needed part is
 * there. The machine code is not needed: jitdump_skip() says how many bytes of the file need not be read.
 *
 * Times are CLOCK_MONOTONIC, or those of the processor's own counter, as the header tells. The latter cannot
 * be compared with ours: such ranges have no time, and the later one of two counts.
 *
 * The writer is not trusted. A record that contradicts itself is counted and skipped by its size. An
 * impossible size is the end, since the next record cannot be found.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/symbol/jit/code.h"

enum {
        _JITDUMP_E_SUCCESS,
        /* no jitdump, of the other byte order or another version, or a size that cannot be */
        JITDUMP_E_BROKEN,
        JITDUMP_E_CLOSED,               /* the writer said that nothing follows */
        JITDUMP_MAX_MOVED = 4096,       /* ranges that may be moved by index; the latest ones */
};

enum {
        JITDUMP_HEAD = 16 + 40,         /* prefix and fixed fields of a loaded code */
        JITDUMP_MAX_RECORD = JITDUMP_HEAD + CODE_MAX_NAME + 1,
};

/* State of the reading between two pieces: plain bytes, so that another process may go on with it. */
typedef struct JitdumpReader {
        uint8_t record[JITDUMP_MAX_RECORD];     /* beginning of a record that is not whole yet */
        size_t size;
        uint64_t skip;                  /* bytes that come next and say nothing */
        bool has_header, has_cpu_clock;
        int end;                        /* JITDUMP_E_*: nothing more is taken */
        uint64_t n_records;             /* records of every kind */
        uint64_t n_malformed;
} JitdumpReader;

/* The next piece, as jitdump_feed(); a move is handed on as it is, without a name. */
int jitdump_read(JitdumpReader *reader, const void *data, size_t size, CodeRecordSink sink, void *userdata);

/* Loaded code that a move may refer to. */
typedef struct JitdumpCode {
        uint64_t index, start, size;
        char *name;                     /* owned */
        size_t name_size;
} JitdumpCode;

typedef struct JitdumpCodes {
        JitdumpCode *codes;             /* by index modulo JITDUMP_MAX_MOVED; made for the first one */
        uint64_t n_unknown;             /* moves of what was not there */
} JitdumpCodes;

/*
 * Turns a record into a range: loaded code is remembered, moved code gets its name. Return: 0, -ENOMEM, the
 * sink's.
 */
int jitdump_resolve(JitdumpCodes *codes, const CodeRecord *record, CodeSink sink, void *userdata);

typedef struct Jitdump {
        JitdumpReader reader;
        JitdumpCodes codes;
        uint64_t n_records, n_malformed;
} Jitdump;

/* @jitdump starts as zeroes. */
void jitdump_deinit(Jitdump *jitdump);

/*
 * The next piece. Return: 0, JITDUMP_E_*, -ENOMEM, or what @sink returned (not 1 or 2), which ends it: feed
 * nothing more after anything but 0.
 */
int jitdump_feed(Jitdump *jitdump, const void *data, size_t size, CodeSink sink, void *userdata);

/* How many bytes the reader may pass over instead of feeding them; they are taken as passed over. */
uint64_t jitdump_skip(JitdumpReader *reader);
