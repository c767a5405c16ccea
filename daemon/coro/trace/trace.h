/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Trace
 *
 * Events of coroutines as a file that is complete up to its last line at any time, in the forms
 * that users of stations know:
 *
 *      .jsonl          {"probe_id":94,"tid":7,"addr":"0x…","seq":2,"is_active":true,"ts":…}   one event a line
 *      .csv            probe_id,tid,addr,seq,is_active,ts
 *      .db, .sqlite    table coro_trace_events with these columns
 *
 * Behind what they know, we add: station, event (its number, from 0), birth, lost (events of this station
 * lost right before this one), pid, payload (hex; the bytes that a writer left in the epoch). What is not
 * known or zero is left out of a line. Without `extra` only a payload is added.
 *
 * What a station's end tells (dead, lost, torn …) is no event: it goes to the table coro_stations, or to a
 * second file, NAME.stations.csv. Where the code of the programs lay goes to coro_mappings, or to
 * NAME.mappings.csv.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/util/macro.h"
#include "base/util/outfile.h"
#include "coro/station/station.h"

typedef enum TraceForm {
        TRACE_JSONL,
        TRACE_CSV,
        TRACE_SQLITE,
} TraceForm;

enum { TRACE_LINE_MAX = 512 };

typedef struct TraceOptions {
        /* station, event, birth, lost, pid; what stations say at their end; mappings */
        bool extra;
        bool payload_column;            /* of CSV without `extra`, where a column too many could surprise */
        /* a thread of its own writes lines: who makes them must not wait for a disk */
        bool behind;
        /* files beside an old trace of that name go at once: this one may never be ended */
        bool fresh;
        bool append;                    /* JSON lines go behind what is there */
        mode_t mode;                    /* of files that are made */
        bool whole;                     /* lines: there is nothing before trace_writer_close() */
        OutfileReaders readers;         /* of what it is made from */
        /* of the file; what comes then is dropped and counted; 0 = no limit */
        uint64_t max_bytes;
} TraceOptions;

/* Whose a station's coroutine was, and where it goes on. Zeros = not known. */
typedef struct StationCode {
        uint64_t process;               /* TraceMapping */
        uint64_t frame, address;        /* of the coroutine's frame, and of the function that it named */
} StationCode;

typedef struct TraceStation {
        uint32_t pid, index;
        uint64_t until_ns;              /* when it was last looked at, MONOTONIC; 0 = just now */
        const StationState *state;
        StationCode code;
} TraceStation;

#define TRACE_NO_OFFSET UINT64_MAX      /* older traces do not say it */

/* A piece of a file that lay in the memory of a process, to be executed. */
typedef struct TraceMapping {
        /* when it was first seen, MONOTONIC: no two have the same, also of several traces */
        uint64_t process;
        uint32_t pid;
        uint64_t start, end;            /* addresses in the process */
        /* of the start, as the file counts: in its memory, and in bytes (TRACE_NO_OFFSET = not known) */
        uint64_t address, offset;
        const char *build_id_gnu, *build_id_go, *build_id_htlhash;      /* "" = none */
        const char *path;               /* as the process saw it */
} TraceMapping;

typedef struct TraceWriter TraceWriter;

enum {
        _TRACE_E_SUCCESS,
        TRACE_E_ENDING,                 /* no form has this ending */
        TRACE_E_FAILED,                 /* cannot be made or written: see trace_writer_problem() or errno */
        TRACE_E_FOREIGN,                /* there is a file that is no database */
        TRACE_E_REFUSED,                /* cannot be made there; a message was logged */
};

/* By its ending. Return: 0, TRACE_E_ENDING. */
int trace_form_of(const char *path, TraceForm *formp);

/* A number as text, for the next line that says it again, or one more. */
typedef struct TraceDigits {
        uint64_t value;
        uint8_t n;                      /* bytes of text; 0 = not made yet */
        char text[27];
} TraceDigits;

/*
 * What lines of a station say alike, as text. Starts as zeros, belongs to one form (with or without `extra`),
 * and is made anew by itself when an event of another station comes.
 */
typedef struct TraceParts {
        uint64_t probe_id, birth_ns;    /* of whom this is */
        uint32_t station, pid;
        uint8_t n_head, n_middle, n_tail, n_end;        /* bytes of each; n_head 0 = not made yet */
        char head[48], middle[32], tail[40], end[24];
        TraceDigits tid, seq, number;
        TraceDigits time;               /* without its last eight digits */
} TraceParts;

/*
 * One line with its newline. @to: TRACE_LINE_MAX bytes, of which those behind the line are scribbled on.
 * Return: its size.
 */
size_t trace_print_jsonl(char *to, const CoroEvent *event, bool extra, TraceParts *parts);
size_t trace_print_csv(char *to, const CoroEvent *event, bool extra, bool payload, TraceParts *parts);
const char *trace_csv_header(bool extra, bool payload);

/* `-` = JSON lines on standard output. Return: 0, TRACE_E_*, -ENOMEM. */
int trace_writer_new(TraceWriter **writerp, const char *path, TraceForm form, const TraceOptions *options);

/* A failed write is kept and said by trace_writer_close(); what comes after it is dropped. */
void trace_writer_event(TraceWriter *writer, const CoroEvent *event);
void trace_writer_station(TraceWriter *writer, const TraceStation *station);
void trace_writer_mapping(TraceWriter *writer, const TraceMapping *mapping);

/* Makes visible what was written, not more often than is good for the form. */
void trace_writer_flush(TraceWriter *writer, uint64_t now_ns);

/* Times that a trace written `behind` has waited for its file. */
uint64_t trace_writer_n_stalls(const TraceWriter *writer);

/* Ends the file. *n_droppedp: events over the limit or after a failure. Return: 0, TRACE_E_FAILED (errno). */
int trace_writer_close(TraceWriter *writer, uint64_t *n_droppedp);
TraceWriter *trace_writer_free(TraceWriter *writer);
DEFINE_CLEANUP(TraceWriter, trace_writer_free)
