/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reader
 *
 * Bytes of a file through one small window that moves. A target chose the file:
 * it may be sparse and huge, and it may shrink while it is read, so nothing is
 * ever mapped (a page beyond the end would be SIGBUS) and no size is trusted; what
 * is not there is simply not there. The same reader over memory serves the vdso,
 * the tests and the fuzzer.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        READER_WINDOW_MIN = 4096,       /* first fill after a jump */
        READER_WINDOW_MAX = 65536,      /* reached by doubling while reads are in sequence */
};

typedef struct Reader {
        int fd;                         /* borrowed; -1 = over memory */
        const uint8_t *memory;          /* borrowed */
        size_t memory_size;
        uint8_t *buffer;                /* READER_WINDOW_MAX bytes, owned */
        uint64_t at;                    /* offset of the window in the file */
        size_t size;                    /* bytes in it */
        size_t next_fill;
        bool has_no_uncached;           /* the filesystem has no RWF_DONTCACHE (reader.c) */
        uint64_t n_reads;               /* number of reads, for tests of the cost */
} Reader;

/* Return: 0, -ENOMEM. */
int reader_init_file(Reader *reader, int fd);
void reader_init_memory(Reader *reader, const void *data, size_t size);
void reader_deinit(Reader *reader);

/*
 * Reads @size bytes at @offset, @size ≤ READER_WINDOW_MAX. Return: the bytes, valid until the next call, or
 * NULL = the file does not have them.
 */
const uint8_t *reader_bytes(Reader *reader, uint64_t offset, size_t size);
