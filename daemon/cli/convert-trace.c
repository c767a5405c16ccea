/* SPDX-License-Identifier: Apache-2.0 */

/* `convert` between the forms of a trace of coroutines, which are lists of events and no profiles. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/convert-trace.h"
#include "cli/inputs.h"
#include "coro/trace-mappings.h"
#include "coro/trace-read.h"
#include "coro/trace-stations.h"
#include "util/file.h"
#include "util/log.h"

enum { SAMPLE_EVENTS = 1000 };          /* of each input, to see which columns it has */

bool convert_is_trace(const char *path) {
        TraceForm form;

        return strcmp(path, "-") && !trace_form_of(path, &form);
}

/* By its first bytes: names are not to be trusted with what is given as input. */
static bool find_form(const char *path, TraceForm *formp) {
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        char start[256] = { 0 };
        ssize_t n = fd < 0 ? -1 : file_pread(fd, start, sizeof(start) - 1, 0);

        if (n < 0) {
                log_error("%s: cannot be read: %s", path, strerror(errno));
                return false;
        }
        if (!memcmp(start, "SQLite format 3", 16))
                *formp = TRACE_SQLITE;
        else if (start[strspn(start, " \t\r\n")] == '{')
                *formp = TRACE_JSONL;
        else if (strstr(start, "probe_id"))
                *formp = TRACE_CSV;
        else {
                log_error("%s: is no trace of coroutines (JSON lines, CSV or SQLite), and the output is one", path);
                return false;
        }
        return true;
}

static int count_some(void *userdata, const CoroEvent *event) {
        uint64_t *n = userdata;

        return ++*n >= SAMPLE_EVENTS;
}

/* What the columns of the output must have room for. */
static void look_at_columns(const char *path, TraceForm form, TraceOptions *options) {
        TraceReadCounts counts;
        uint64_t n = 0;

        if (trace_read(path, form, count_some, &n, &counts) >= 0)
                options->extra |= counts.any_extra || counts.any_payload;
}

static int put_event(void *userdata, const CoroEvent *event) {
        trace_writer_event(userdata, event);
        return 0;
}

static int copy(const char *path, TraceForm form, TraceWriter *writer, uint64_t *n_eventsp) {
        TraceReadCounts counts;
        int r = trace_read(path, form, put_event, writer, &counts);

        *n_eventsp += counts.n_events;
        if (r)
                log_error("%s: cannot be read: %s", path, r < 0 ? strerror(-r) : errno ? strerror(errno) : "see above");
        else if (counts.n_malformed)
                log_warning("%s: %" PRIu64 " lines are no events and were left out", path, counts.n_malformed);
        return r || counts.n_malformed ? STATUS_FAILURE : STATUS_OK;
}

/* What stations said at their end: of the last trace that speaks of one. */
static int put_station(void *userdata, const TraceStationEnd *end) {
        StationState state = { .probe_id = end->probe_id, .birth_ns = end->birth_ns, .dead = end->dead, .torn = end->torn,
                               .corrupt = end->corrupt, .n_read = end->n_read, .n_lost = end->n_lost,
                               .n_rejected = end->n_rejected, .n_skipped = end->n_skipped, .last_ns = end->last_ns,
                               .last_tid = end->last_tid, .last_address = end->last_address, .active = end->active };

        /* Older traces do not say until when they looked: until its last event. */
        trace_writer_station(userdata, &(TraceStation){ .pid = (uint32_t)end->pid, .index = (uint32_t)end->station, .state = &state,
                                                        .until_ns = MAX(MAX(end->until_ns, end->last_ns), UINT64_C(1)),
                                                        .code = end->code });
        return 0;
}

static int put_mapping(void *userdata, const TraceMapping *mapping) {
        trace_writer_mapping(userdata, mapping);
        return 0;
}

/* What stands beside the events. */
static int copy_ends(const char *path, TraceForm form, TraceWriter *writer) {
        uint64_t n_stations = 0, n_mappings = 0;
        int stations = trace_stations_read(path, form, put_station, writer, &n_stations);
        int mappings = trace_mappings_read(path, form, put_mapping, writer, &n_mappings);

        if (n_stations)
                log_warning("%s: %" PRIu64 " of its stations are malformed and were left out", path, n_stations);
        if (n_mappings)
                log_warning("%s: %" PRIu64 " of its mappings are malformed and were left out", path, n_mappings);
        return (stations && stations != TRACE_STATIONS_E_NONE) || (mappings && mappings != TRACE_MAPPINGS_E_NONE) || n_stations ||
                               n_mappings ? STATUS_FAILURE : STATUS_OK;
}

static int open_output(const char *path, const TraceOptions *options, TraceWriter **writerp) {
        TraceForm form;
        int r;

        trace_form_of(path, &form);
        r = trace_writer_new(writerp, path, form, options);
        if (r == TRACE_E_FOREIGN)
                log_error("%s: there is a file that is no database; it is left alone", path);
        else if (r)
                log_error("%s: cannot be written: %s", path, strerror(r < 0 ? -r : errno));
        return r ? STATUS_FAILURE : STATUS_OK;
}

int convert_traces(const Cli *cli) {
        _cleanup_(trace_writer_freep) TraceWriter *writer = NULL;
        const char *output = cli->config.output;
        TraceOptions options = { .mode = 0644 };
        uint64_t n_events = 0, n_dropped;
        int status = STATUS_OK;
        TraceForm form;

        for (int i = 0; i < cli->n_arguments; i++) {
                if (!find_form(cli->arguments[i], &form) || inputs_is_output(cli->arguments[i], output))
                        return STATUS_FAILURE;
                look_at_columns(cli->arguments[i], form, &options);
        }
        if (open_output(output, &options, &writer))
                return STATUS_FAILURE;
        for (int i = 0; i < cli->n_arguments; i++) {
                find_form(cli->arguments[i], &form);
                status |= copy(cli->arguments[i], form, writer, &n_events);
                status |= copy_ends(cli->arguments[i], form, writer);
        }
        if (trace_writer_close(writer, &n_dropped)) {
                log_error("%s: cannot be written: %s", output, strerror(errno));
                return STATUS_FAILURE;
        }
        log_info("%" PRIu64 " events are in %s", n_events, output);
        return status;
}
