/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/trace/trace-read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/util/error.h"
#include "coro/trace/trace-db.h"

enum { READ_SIZE = 1 << 20, LINE_MAX_BYTES = 64 << 10 };

typedef struct Reader {
        TraceForm form;
        TraceColumns columns;
        bool has_header, skip;          /* skip: leave out the rest of a line that was too long */
        TraceEventFunc func;
        void *userdata;
        TraceReadCounts *counts;
} Reader;

static int give(Reader *reader, const CoroEvent *event) {
        TraceReadCounts *counts = reader->counts;

        counts->n_events++;
        counts->any_payload |= event->has_payload;
        counts->any_extra |= event->station || event->number || event->birth_ns || event->n_lost ||
                event->pid;
        return reader->func ? reader->func(reader->userdata, event) : 0;
}

static int take_line(Reader *reader, const char *line, size_t size) {
        CoroEvent event;
        int r;

        if (!size || (size == 1 && *line == '\r'))
                return 0;
        if (reader->form == TRACE_CSV && !reader->has_header) {
                reader->has_header = true;
                r = trace_parse_csv_header(line, size, &reader->columns);
                if (r)
                        reader->columns.n = 0;
                reader->counts->n_malformed += r != 0;
                return 0;
        }
        r = reader->form == TRACE_CSV
                ? (reader->columns.n ? trace_parse_csv(&reader->columns, line, size, &event)
                                     : TRACE_PARSE_E_MALFORMED)
                : trace_parse_jsonl(line, size, &event);
        reader->counts->n_malformed += r != 0;
        return r ? 0 : give(reader, &event);
}

/* Takes the whole lines of @data. Return: as take_line(); *usedp: their bytes. */
static int take_lines(Reader *reader, const char *data, size_t size, size_t *usedp) {
        const char *at = data, *end = data + size, *newline;
        int r = 0;

        while (!r && (newline = memchr(at, '\n', (size_t)(end - at)))) {
                r = reader->skip ? 0 : take_line(reader, at, (size_t)(newline - at));
                reader->skip = false;
                at = newline + 1;
        }
        *usedp = (size_t)(at - data);
        return r;
}

/*
 * The last line, without a newline. Braces tell whether JSON is whole; a number of CSV may have lost digits.
 */
static int take_last(Reader *reader, const char *line, size_t size) {
        if (reader->form != TRACE_CSV || !reader->has_header || !size)
                return take_line(reader, line, size);
        reader->counts->cut = true;
        reader->counts->n_malformed++;
        return 0;
}

static int read_lines(Reader *reader, int fd, char *buffer) {
        size_t size = 0, used;
        int r;

        for (;;) {
                ssize_t n = read(fd, buffer + size, READ_SIZE - size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return TRACE_E_FAILED;
                if (n == 0)
                        return reader->skip ? 0 : take_last(reader, buffer, size);
                size += (size_t)n;
                r = take_lines(reader, buffer, size, &used);
                if (r)
                        return r;
                size -= used;
                memmove(buffer, buffer + used, size);
                if (size > LINE_MAX_BYTES) {
                        /* no line of a trace is so long: the rest of it is left out, too */
                        reader->counts->n_malformed += !reader->skip;
                        reader->skip = true;
                        size = 0;
                }
        }
}

static int read_event(void *userdata, const CoroEvent *event) {
        return give(userdata, event);
}

void trace_read_tell(const TraceReadCounts *counts, Text *problem) {
        if (counts->n_malformed)
                text_printf(problem, "%s%" PRIu64 " lines are no events and were left out%s",
                            problem->size ? "; " : "", counts->n_malformed,
                            counts->cut ? ", of which the last one is cut" : "");
}

int trace_read(const char *path, TraceForm form, TraceEventFunc func, void *userdata,
               TraceReadCounts *counts) {
        Reader reader = { .form = form, .func = func, .userdata = userdata, .counts = counts };
        _cleanup_(closep) int fd = -1;
        _cleanup_(freep) char *buffer = NULL;

        *counts = (TraceReadCounts){ 0 };
        if (form == TRACE_SQLITE)
                return trace_db_read(path, read_event, &reader, &counts->n_malformed);
        fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
                return TRACE_E_FAILED;
        buffer = malloc(READ_SIZE);
        return buffer ? read_lines(&reader, fd, buffer) : error_origin(-ENOMEM);
}

bool trace_mentions_payload(const char *path) {
        static const char word[] = "payload";
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        _cleanup_(freep) char *buffer = malloc(READ_SIZE);
        size_t kept = 0;
        ssize_t n;

        if (fd < 0 || !buffer)
                return false;
        while ((n = read(fd, buffer + kept, READ_SIZE - kept)) > 0) {
                size_t size = kept + (size_t)n;

                if (memmem(buffer, size, word, sizeof(word) - 1))
                        return true;
                kept = MIN(size, sizeof(word) - 2);     /* it may lie across the border */
                memmove(buffer, buffer + size - kept, kept);
        }
        return false;
}
