/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events become lines in a buffer of 32 KiB, by the thread that scans:
 *
 *      event ─▶ line in the buffer ─ full, or 1 ms old ─▶ write()       by this thread, or
 *                                                      └▶ sink.c        `behind`: by a thread of its own
 *      event ─▶ row of a statement ─ 100 ms old ────────▶ commit        a database
 *
 * So a reader of the file sees whole lines, at most that old, and a killed engine leaves them. Rows of
 * stations and mappings come behind all events. With a limit of bytes, events beyond it are dropped and
 * counted, as are all events after a failed write.
 */

#include "desk/coro/trace/trace-writer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "desk/coro/trace/sink.h"
#include "desk/coro/trace/trace-db.h"
#include "desk/coro/trace/trace-line.h"

enum {
        BUFFER = SINK_BLOCK,
        N_PARTS = 2048,                 /* stations whose parts are kept; further ones take turns */
};

/* How long events wait for a flush: a transaction costs more than a write(). */
#define FLUSH_FILE_NS NS_PER_MS
#define FLUSH_DB_NS (100 * NS_PER_MS)
enum { BUSY_FACTOR = 10 };              /* while events come */

struct TraceWriter {
        TraceForm form;
        TraceOptions options;
        Outfile file;                   /* file of lines; unused for a database */
        TraceDb *db;
        uint64_t n_bytes, n_dropped;
        uint64_t pending_ns;            /* when the first flush saw events that wait; 0 = none did */
        uint64_t until_ns;              /* time of the last look at stations */
        bool pending, full;
        int error;                      /* errno of the first failure */
        int refusal;                    /* OUTFILE_E_* instead, with any error; 0 = none */
        Sink *sink;                     /* NULL = the caller's thread writes */
        size_t n_buffered;
        char *buffer;                   /* a block of the sink or, without one, of the writer */
        TraceParts *parts;              /* by station; pages are touched as far as there are stations */
};

static void drain(TraceWriter *writer) {
        if (writer->sink && writer->n_buffered) {
                writer->buffer = sink_swap(writer->sink, writer->n_buffered);
                writer->error = writer->error ? writer->error : sink_error(writer->sink);
        } else if (!writer->error && writer->n_buffered &&
                   outfile_write(&writer->file, writer->buffer, writer->n_buffered)) {
                writer->error = errno ? errno : EIO;
        }
        writer->n_buffered = 0;
}

/* Readers follow a trace while it grows, unless it is made of another one. */
static OutfileOptions file_options(const TraceOptions *options) {
        return (OutfileOptions){ .mode = options->mode,
                                 .readers = options->readers,
                                 .live = !options->whole,
                                 .append = options->append };
}

static int refuse(const char *path, int r) {
        if (r == -ENOMEM)
                return r;
        log_error("%s: cannot be written: %s", path, outfile_problem(r));
        return TRACE_E_REFUSED;
}

static int open_lines(TraceWriter *writer, const char *path) {
        const TraceOptions *options = &writer->options;
        const OutfileOptions file = file_options(options);
        const char *header = trace_csv_header(options->payload_column);
        int r;

        r = outfile_open(&writer->file, path, &file);
        if (r)
                return refuse(path, r);
        writer->parts = calloc(N_PARTS, sizeof(*writer->parts));
        if (!writer->parts)
                return error_origin(-ENOMEM);
        if (options->behind)
                r = sink_new(&writer->sink, writer->file.fd, &writer->buffer);
        else
                r = (writer->buffer = malloc(BUFFER)) ? 0 : error_origin(-ENOMEM);
        if (r)
                return r;
        if (writer->form == TRACE_CSV)
                writer->n_bytes = writer->n_buffered = strlen(strcpy(writer->buffer, header));
        writer->pending = writer->form == TRACE_CSV;
        return 0;
}

int trace_writer_new(TraceWriter **writerp, const char *path, TraceForm form, const TraceOptions *options) {
        _cleanup_(trace_writer_freep) TraceWriter *writer = calloc(1, sizeof(*writer));
        const OutfileOptions file = file_options(options);
        int r;

        if (!writer)
                return error_origin(-ENOMEM);
        writer->form = form;
        writer->options = *options;
        writer->file = OUTFILE_NONE;
        r = form == TRACE_SQLITE ? trace_db_new(&writer->db, path, options->extra, &file)
                                 : open_lines(writer, path);
        if (r)
                return r;
        *writerp = take(writer);
        return 0;
}

static bool has_room(TraceWriter *writer, size_t size) {
        uint64_t max = writer->options.max_bytes;

        writer->full |= max && (writer->db ? trace_db_size(writer->db) : writer->n_bytes) + size > max;
        return !writer->full && !writer->error;
}

/* Prints the line into the buffer. Return: its size. */
static size_t print(TraceWriter *writer, const CoroEvent *event) {
        const TraceOptions *options = &writer->options;
        TraceParts *parts = &writer->parts[event->station % N_PARTS];
        char *line;

        if (writer->n_buffered + TRACE_LINE_MAX > BUFFER)
                drain(writer);
        line = writer->buffer + writer->n_buffered;
        return writer->form == TRACE_CSV
                ? trace_print_csv(line, event, options->payload_column, parts)
                : trace_print_jsonl(line, event, options->extra, parts);
}

void trace_writer_event(TraceWriter *writer, const CoroEvent *event) {
        size_t size = writer->db ? 0 : print(writer, event);

        if (!has_room(writer, size)) {
                writer->n_dropped++;
                return;
        }
        if (writer->db && trace_db_event(writer->db, event))
                writer->error = EIO;
        writer->n_buffered += size;
        writer->n_bytes += size;
        writer->pending = true;
}

/* All stations of a trace get one time of the last look, the end. */
static TraceStation looked_at_now(TraceWriter *writer, const TraceStation *station) {
        TraceStation now = *station;

        if (!writer->until_ns)
                writer->until_ns = clock_monotonic_ns();
        if (!now.until_ns)
                now.until_ns = writer->until_ns;
        return now;
}

/* @r: OUTFILE_E_*, -errno. The first one is told at the close. */
static void keep_error(TraceWriter *writer, int r) {
        if (!r || writer->error)
                return;
        writer->error = r < 0 ? -r : EEXIST;
        writer->refusal = MAX(r, 0);
}

/* Lines of rows are over no limit: without them the events before would say less. */
static void put_row(TraceWriter *writer, const char *line, size_t size) {
        if (writer->n_buffered + size > BUFFER)
                drain(writer);
        memcpy(writer->buffer + writer->n_buffered, line, size);
        writer->n_buffered += size;
}

static bool takes_rows(const TraceWriter *writer) {
        return writer->options.extra && writer->form != TRACE_CSV && !writer->error;
}

void trace_writer_station(TraceWriter *writer, const TraceStation *told) {
        const TraceStation now = looked_at_now(writer, told), *station = &now;
        char line[TRACE_STATION_LINE];

        if (!takes_rows(writer))
                return;
        if (!writer->db)
                put_row(writer, line, trace_station_print(line, station));
        else if (trace_db_station(writer->db, station))
                writer->error = EIO;
}

void trace_writer_mapping(TraceWriter *writer, const TraceMapping *mapping) {
        char line[TRACE_ROW_LINE];

        if (!takes_rows(writer))
                return;
        if (!writer->db)
                put_row(writer, line, trace_mapping_print(line, mapping));
        else if (trace_db_mapping(writer->db, mapping))
                writer->error = EIO;
}

void trace_writer_flush(TraceWriter *writer, uint64_t now_ns, bool busy) {
        uint64_t wait_ns = (writer->db ? FLUSH_DB_NS : FLUSH_FILE_NS) * (busy ? BUSY_FACTOR : 1);

        if (!writer->pending)
                return;
        if (!writer->pending_ns)
                writer->pending_ns = now_ns;
        if (now_ns - writer->pending_ns < wait_ns)
                return;
        if (!writer->db)
                drain(writer);
        else if (!writer->error && trace_db_commit(writer->db))
                writer->error = EIO;
        writer->pending = false;
        writer->pending_ns = 0;
}

bool trace_writer_is_pending(const TraceWriter *writer) {
        return writer->pending;
}

bool trace_writer_has_room(const TraceWriter *writer) {
        return !writer->sink || sink_has_room(writer->sink);
}

uint64_t trace_writer_n_stalls(const TraceWriter *writer) {
        return writer->sink ? sink_n_stalls(writer->sink) : 0;
}

static void finish_lines(TraceWriter *writer) {
        if (!writer->error)
                keep_error(writer, outfile_finish(&writer->file));
}

int trace_writer_close(TraceWriter *writer, uint64_t *n_droppedp, const char **problemp) {
        if (writer->db) {
                if (trace_db_close(writer->db) && !writer->error)
                        writer->error = EIO;
                writer->db = NULL;
        } else {
                drain(writer);
                if (writer->sink && sink_finish(writer->sink) && !writer->error)
                        writer->error = sink_error(writer->sink);
        }
        finish_lines(writer);
        *n_droppedp = writer->n_dropped;
        if (!writer->error)
                return 0;
        *problemp = writer->refusal ? outfile_problem(writer->refusal) : strerror(writer->error);
        return TRACE_E_FAILED;
}

TraceWriter *trace_writer_free(TraceWriter *writer) {
        if (!writer)
                return NULL;
        if (!writer->sink)
                free(writer->buffer);
        sink_free(writer->sink);
        free(writer->parts);
        outfile_deinit(&writer->file);
        trace_db_free(writer->db);
        free(writer);
        return NULL;
}
