/* SPDX-License-Identifier: Apache-2.0 */

/* `convert` between the forms of a trace of coroutines, which are lists of events and no profiles. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/util/file.h"
#include "base/util/log.h"
#include "cli/cli.h"
#include "cli/convert-trace.h"
#include "cli/inputs.h"
#include "coro/trace/side-file.h"
#include "coro/trace/trace-read.h"
#include "coro/trace/trace-side-files.h"
#include "coro/trace/trace-writer.h"

enum { SAMPLE_EVENTS = 1000 };          /* of each input, to see which columns it has */

bool convert_is_trace(const char *path) {
        TraceForm form;

        return strcmp(path, "-") && !trace_form_of(path, &form);
}

/* By its first bytes: names are not to be trusted with what is given as input. */
static bool find_form(const char *path, TraceForm *formp, OutfileReaders *readers) {
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        char start[256] = { 0 };
        ssize_t n = fd < 0 ? -1 : file_pread(fd, start, sizeof(start) - 1, 0);
        struct stat status;

        if (n < 0 || fstat(fd, &status) < 0) {
                log_error("%s: cannot be read: %s", path, strerror(errno));
                return false;
        }
        outfile_note_input(readers, &status);
        side_file_note(path, readers);
        if (!memcmp(start, "SQLite format 3", 16))
                *formp = TRACE_SQLITE;
        else if (start[strspn(start, " \t\r\n")] == '{')
                *formp = TRACE_JSONL;
        else if (strstr(start, "probe_id"))
                *formp = TRACE_CSV;
        else {
                log_error("%s: is no trace of coroutines (JSON lines, CSV or SQLite), and the output is one",
                          path);
                return false;
        }
        return true;
}

static int sample_some(void *userdata, const CoroEvent *event) {
        TraceSample *sample = userdata;
        int r = trace_sample_add(sample, event);

        return r ? r : sample->n_events >= SAMPLE_EVENTS;
}

static int is_with_payload(void *userdata, const CoroEvent *event) {
        return event->has_payload;
}

/* In a database, the word is there in any case: it has that column. */
static bool has_payload(const char *path, TraceForm form) {
        TraceReadCounts counts;

        return form == TRACE_SQLITE
                ? trace_read(path, form, is_with_payload, NULL, &counts) > 0 && counts.any_payload
                : trace_mentions_payload(path);
}

/* Finds the columns that the output must have; adds the first coroutines of the input to @sample. */
static void look_at_columns(const char *path, TraceForm form, TraceOptions *options, TraceSample *sample) {
        TraceReadCounts counts;

        sample->n_events = 0;
        if (trace_read(path, form, sample_some, sample, &counts) >= 0)
                options->extra |= counts.any_extra || counts.any_payload;
        options->payload_column = options->payload_column || options->extra || has_payload(path, form);
}

/* One input on its way. */
typedef struct Copying {
        TraceWriter *writer;
        TraceSample sample;
        /* coroutine → number of the input that it was in last, as a pointer; NULL = there is one input */
        Hashmap *owners;
        uintptr_t number;               /* of this one, from 1 */
        uint64_t n_shared;              /* its coroutines that an earlier one had, too */
} Copying;

static int note_owner(Copying *copying, const CoroEvent *event) {
        uint64_t key = trace_key(event->pid, event->station, event->birth_ns, event->probe_id);
        uintptr_t owner = (uintptr_t)hashmap_get(copying->owners, key);

        copying->n_shared += owner && owner != copying->number;
        return owner == copying->number ? 0 : hashmap_put(copying->owners, key, (void *)copying->number);
}

static int put_event(void *userdata, const CoroEvent *event) {
        Copying *copying = userdata;
        int r = copying->owners ? note_owner(copying, event) : 0;

        trace_writer_event(copying->writer, event);
        return r ? r : trace_sample_event(&copying->sample, event);
}

/* What stations said at their end. */
static int put_station(void *userdata, const TraceStationEnd *end) {
        Copying *copying = userdata;
        StationState state = { .probe_id = end->probe_id,
                               .birth_ns = end->birth_ns,
                               .dead = end->dead,
                               .torn = end->torn,
                               .corrupt = end->corrupt,
                               .n_read = end->n_read,
                               .n_lost = end->n_lost,
                               .n_rejected = end->n_rejected,
                               .n_skipped = end->n_skipped,
                               .last_ns = end->last_ns,
                               .last_tid = end->last_tid,
                               .last_address = end->last_address,
                               .active = end->active };

        /* Older traces do not say until when they looked: until its last event. */
        trace_writer_station(copying->writer,
                             &(TraceStation){ .pid = (uint32_t)end->pid,
                                              .index = (uint32_t)end->station,
                                              .state = &state,
                                              .until_ns = MAX(MAX(end->until_ns, end->last_ns), UINT64_C(1)),
                                              .code = end->code });
        return 0;
}

static int put_mapping(void *userdata, const TraceMapping *mapping) {
        Copying *copying = userdata;

        trace_writer_mapping(copying->writer, mapping);
        return 0;
}

static int copy_all(const char *path, TraceForm form, Copying *copying, uint64_t *n_eventsp) {
        const TraceRowFuncs beside = { put_station, put_mapping, copying };
        Text problem = { 0 };
        TraceReadCounts counts;
        int r = trace_read(path, form, put_event, copying, &counts), q;

        *n_eventsp += counts.n_events;
        if (r)
                log_error("%s: cannot be read: %s", path,
                          r < 0           ? strerror(-r)
                                  : errno ? strerror(errno)
                                          : "see above");
        trace_read_tell(&counts, &problem);
        q = trace_side_files_read(path, form, &copying->sample, &beside, &problem);
        if (problem.size)
                log_warning("%s: %s", path, problem.data);
        text_deinit(&problem);
        trace_side_files_warn_shared(path, copying->n_shared);
        return r || q || counts.n_malformed ? STATUS_FAILURE : STATUS_OK;
}

static int copy_inputs(const Cli *cli, TraceWriter *writer, uint64_t *n_eventsp) {
        Hashmap owners = { 0 };
        OutfileReaders readers = { 0 };
        int status = STATUS_OK;
        TraceForm form;

        for (int i = 0; i < cli->n_arguments; i++) {
                Copying copying = { .writer = writer,
                                    .owners = cli->n_arguments > 1 ? &owners : NULL,
                                    .number = (uintptr_t)i + 1 };

                find_form(cli->arguments[i], &form, &readers);
                status |= copy_all(cli->arguments[i], form, &copying, n_eventsp);
                trace_sample_deinit(&copying.sample);
        }
        hashmap_deinit(&owners);
        return status;
}

static int open_output(const char *path, const TraceOptions *options, TraceWriter **writerp) {
        TraceForm form;
        int r;

        trace_form_of(path, &form);
        r = trace_writer_new(writerp, path, form, options);
        if (r == TRACE_E_FOREIGN)
                log_error("%s: there is a file that is no database; it is left alone", path);
        else if (r && r != TRACE_E_REFUSED)
                log_error("%s: cannot be written: %s", path, strerror(r < 0 ? -r : errno));
        return r ? STATUS_FAILURE : STATUS_OK;
}

/* An output without rows of stations and mappings has no side files, and a database has them inside. */
static bool would_replace_others(const Cli *cli, const TraceOptions *options, TraceSample *sample) {
        _cleanup_(freep) char *owner = NULL;
        TraceForm form;

        trace_form_of(cli->config.output, &form);
        if (!options->extra || form == TRACE_SQLITE ||
            trace_side_files_find_owner(cli->config.output, sample, cli->arguments, (size_t)cli->n_arguments,
                                        &owner) < 0 ||
            !owner)
                return false;
        log_error(
                "%s: its side files (.stations.csv, .mappings.csv) would replace those of %s: give another name",
                cli->config.output, owner);
        return true;
}

/* Return: whether the inputs are traces, and the output harms no file that is not its own. */
static bool check_files(const Cli *cli, TraceOptions *options) {
        TraceSample sample = { 0 };
        bool good = true;
        TraceForm form;

        for (int i = 0; i < cli->n_arguments && good; i++) {
                good = find_form(cli->arguments[i], &form, &options->readers) &&
                        !inputs_is_output(cli->arguments[i], cli->config.output);
                if (good)
                        look_at_columns(cli->arguments[i], form, options, &sample);
        }
        good = good && !would_replace_others(cli, options, &sample);
        trace_sample_deinit(&sample);
        return good;
}

int convert_traces(const Cli *cli) {
        _cleanup_(trace_writer_freep) TraceWriter *writer = NULL;
        const char *output = cli->config.output;
        TraceOptions options = { .mode = 0644, .whole = true };
        uint64_t n_events = 0, n_dropped;
        const char *problem;
        int status;

        if (!check_files(cli, &options) || open_output(output, &options, &writer))
                return STATUS_FAILURE;
        status = copy_inputs(cli, writer, &n_events);
        if (trace_writer_close(writer, &n_dropped, &problem)) {
                log_error("%s: cannot be written: %s", output, problem);
                return STATUS_FAILURE;
        }
        log_info("%" PRIu64 " events are in %s", n_events, output);
        return status;
}
