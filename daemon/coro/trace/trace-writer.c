/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events become lines in a buffer of 32 KiB, by the thread that scans:
 *
 *      event ─▶ line in the buffer ─ full, or 1 ms old ─▶ write()       by this thread, or
 *                                                      └▶ sink.c        `behind`: by a thread of its own
 *      event ─▶ row of a statement ─ 100 ms old ────────▶ commit        a database
 *
 * So a reader of the file sees whole lines, at most that old, and a killed engine leaves them. Rows of
 * stations and mappings come at the end only. With a limit of bytes, events beyond it are dropped and
 * counted, as are all events after a failed write.
 */

#include "coro/trace/trace-writer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/log.h"
#include "coro/trace/side-file.h"
#include "coro/trace/sink.h"
#include "coro/trace/trace-db.h"
#include "coro/trace/trace-line.h"

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
        Outfile file;                   /* of lines; a database has none here */
        TraceDb *db;
        SideFileWriter side_files[N_SIDE_FILES];
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

/* Rows of stations and mappings come at the end: until a side file is whole, an old one stays. */
static OutfileOptions side_file_options(const TraceOptions *options) {
        return (OutfileOptions){ .mode = options->mode, .readers = options->readers };
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
        const char *header = trace_csv_header(options->extra, options->payload_column);
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

static int refuse_side_file(const char *path, int r) {
        if (r != OUTFILE_E_KIND)
                return refuse(path, r);
        log_error("%s: there is a file that no trace has left; it is left alone", path);
        return TRACE_E_REFUSED;
}

static int name_side_files(TraceWriter *writer, const char *path) {
        int r = 0;

        if (!writer->options.extra || writer->form == TRACE_SQLITE)
                return 0;
        for (int i = 0; !r && i < N_SIDE_FILES; i++)
                r = side_file_name(path, i, &writer->side_files[i].name);
        return r;
}

/* First side_file_check(), then side_file_remove(): an old trace stays whole if there cannot be a new one. */
static int clear_side_files(TraceWriter *writer,
                            int (*step)(const char *name, SideFile which, const OutfileOptions *options)) {
        const OutfileOptions options = side_file_options(&writer->options);
        int r = 0;

        for (int i = 0; !r && i < N_SIDE_FILES && writer->options.fresh; i++)
                if (writer->side_files[i].name && (r = step(writer->side_files[i].name, i, &options)))
                        r = refuse_side_file(writer->side_files[i].name, r);
        return r;
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
        for (int i = 0; i < N_SIDE_FILES; i++)
                writer->side_files[i] = SIDE_FILE_WRITER_NONE;
        r = name_side_files(writer, path);
        if (!r)
                r = clear_side_files(writer, side_file_check);
        if (!r)
                r = form == TRACE_SQLITE ? trace_db_new(&writer->db, path, options->extra, &file)
                                         : open_lines(writer, path);
        if (!r)
                r = clear_side_files(writer, side_file_remove);
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
                ? trace_print_csv(line, event, options->extra, options->payload_column, parts)
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

/*
 * The side file of this kind, made when there is a row for it. Return: NULL = it cannot be made, or must not
 * be.
 */
static FILE *side_file(TraceWriter *writer, SideFile which) {
        const OutfileOptions options = side_file_options(&writer->options);
        SideFileWriter *side = &writer->side_files[which];
        int r = side->stream || !side->name ? 0 : side_file_create(side, which, &options);

        if (r) {
                refuse_side_file(side->name, r);
                keep_error(writer, r);
        }
        return side->stream;
}

void trace_writer_station(TraceWriter *writer, const TraceStation *told) {
        const TraceStation now = looked_at_now(writer, told), *station = &now;
        char line[TRACE_STATION_LINE];
        FILE *file;

        if (!writer->options.extra || writer->error)
                return;
        if (writer->db) {
                if (trace_db_station(writer->db, station))
                        writer->error = EIO;
                return;
        }
        file = side_file(writer, SIDE_FILE_STATIONS);
        if (file)
                fwrite(line, 1, trace_station_print(line, station), file);
}

void trace_writer_mapping(TraceWriter *writer, const TraceMapping *mapping) {
        char line[TRACE_MAPPING_LINE];
        size_t size;
        FILE *file;

        if (!writer->options.extra || writer->error)
                return;
        if (writer->db) {
                if (trace_db_mapping(writer->db, mapping))
                        writer->error = EIO;
                return;
        }
        size = trace_mapping_print(line, mapping);
        file = size ? side_file(writer, SIDE_FILE_MAPPINGS) : NULL;
        if (file)
                fwrite(line, 1, size, file);
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

/*
 * A failed write of events says nothing about rows that were written whole. But a `whole` trace that failed
 * gets no name, and its side files would be taken for those of an old trace that stays.
 */
static void publish_side_files(TraceWriter *writer) {
        for (int i = 0; i < N_SIDE_FILES && !(writer->options.whole && writer->error); i++)
                keep_error(writer, side_file_publish(&writer->side_files[i]));
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
        publish_side_files(writer);
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
        for (int i = 0; i < N_SIDE_FILES; i++)
                side_file_deinit(&writer->side_files[i]);
        if (!writer->sink)
                free(writer->buffer);
        sink_free(writer->sink);
        free(writer->parts);
        outfile_deinit(&writer->file);
        trace_db_free(writer->db);
        free(writer);
        return NULL;
}
