/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `keep`: gets what the flight recorder of the running daemon has, and writes it as `convert` would.
 *
 *     POST /recorder/close ─▶ GET /recorder/list/trace/… ─▶ GET /recorder/get/N, one after the other
 *                                      ─▶ a file without a name, framed ─▶ convert: filter, names, writer
 *
 * Without -o the daemon itself ships it: POST /recorder/keep/trace/… With --slower-than what it has is read
 * here first, as with -o, for the traces that are meant, and it ships each of these.
 *
 * The daemon knows which windows have a trace; which samples of them are meant is decided here, by the
 * filters that `report` and `convert` have. A window that goes while it is asked for is counted and said.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/file/gzip.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "desk/cli/inputs.h"
#include "desk/cli/time-option.h"
#include "desk/convert/library.h"
#include "host/cli/cli.h"
#include "host/service/control/control.h"
#include "host/service/recorder/recorder-ask.h"

enum {
        GONE = 410,                     /* HTTP */
        BUSY = 503,
        PAGE_MAX = 192,
        SIZE_BYTES = 4,                 /* before each framed request, big endian */
        FD_PATH_SIZE = sizeof("/proc/self/fd/") + 16,
        TRACE_BYTES = 16,
        SHIP_TRACES = 32,
        SHIP_TRIES = 20,                /* a second each */
};

typedef struct Keep {
        const Config *config;
        const char *socket;
        int fd;                         /* answers that came, in frames */
        uint32_t n, n_gone;             /* requests */
} Keep;

static int unreachable(const Keep *keep) {
        if (errno == ENOENT || errno == ECONNREFUSED)
                log_error("no spanprof runs here: nobody listens on %s", keep->socket);
        else
                log_error("no answer on %s: %s", keep->socket, strerror(errno));
        return STATUS_FAILURE;
}

static int judge(int status, const Text *answer) {
        if (status == 200 || status == GONE)
                return 0;
        log_error("the daemon says: %d %s", status, answer->data ? answer->data : "");
        return STATUS_FAILURE;
}

/* Return: 0 with *statusp; STATUS_FAILURE after a message; -ENOMEM. */
static int ask(const Keep *keep, const char *method, const char *page, int *statusp, Text *answer) {
        int r = control_ask(keep->socket, method, page, statusp, answer);

        if (r == CONTROL_E_UNREACHABLE)
                return unreachable(keep);
        return r ? r : judge(*statusp, answer);
}

static int close_window(const Keep *keep) {
        _cleanup_(text_deinit) Text answer = { 0 };
        int status;

        return ask(keep, "POST", "/recorder/close", &status, &answer);
}

static int add_time(const char *option, const char *text, const char *word, Text *page) {
        bool is_relative;
        uint64_t ns = 0;
        int r = *text ? time_option_parse(option, text, &ns, &is_relative) : 0;

        /* counted from the recording's start: the filter judges it */
        if (!r && *text && !is_relative)
                text_printf(page, "/%s/%" PRIu64, word, ns);
        return r;
}

/* Windows that cannot have it need not come. @is_all: whatever is meant is told, as nobody else filters. */
static int ask_page(const Keep *keep, const char *start, bool is_all, Text *page) {
        const ConfigFilter *filter = &keep->config->filter;
        int r;

        text_printf(page, "%s", start);
        if (filter->trace_ids.n_items == 1)
                text_printf(page, "/trace/%s", filter->trace_ids.items[0]);
        if (filter->span_ids.n_items && is_all)
                text_printf(page, "/span/%s", filter->span_ids.items[0]);
        if (filter->processes.n_items && is_all)
                text_printf(page, "/process/%s", filter->processes.items[0]);
        r = add_time("start", filter->start, "start", page);
        if (!r)
                r = add_time("end", filter->end, "end", page);
        return r ? r : page->failed ? error_origin(-ENOMEM) : 0;
}

static int put_frame(Keep *keep, const void *data, size_t size) {
        const uint8_t head[SIZE_BYTES] = { (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8),
                                           (uint8_t)size };
        int r = file_write(keep->fd, head, sizeof(head));

        return r ? r : file_write(keep->fd, data, size);
}

/* A file of frames is known by its first one, which is not packed. */
static int put_first(Keep *keep, const Text *packed) {
        _cleanup_(freep) uint8_t *data = NULL;
        size_t size;
        int r = gzip_expand(packed->data, packed->size, RECORDER_REQUEST_BYTES, &data, &size);

        if (r > 0) {
                log_error("what the daemon says is no request");
                return STATUS_FAILURE;
        }
        return r ? r : put_frame(keep, data, size);
}

static int get(Keep *keep, uint64_t number) {
        _cleanup_(text_deinit) Text answer = { 0 };
        char page[PAGE_MAX];
        int status, r;

        snprintf(page, sizeof(page), "/recorder/get/%" PRIu64, number);
        r = ask(keep, "GET", page, &status, &answer);
        if (r)
                return r;
        if (status == GONE || !answer.size) {
                keep->n_gone++;
                return 0;
        }
        return keep->n++ ? put_frame(keep, answer.data, answer.size) : put_first(keep, &answer);
}

static int get_all(Keep *keep) {
        _cleanup_(text_deinit) Text page = { 0 }, list = { 0 };
        int status, r = ask_page(keep, "/recorder/list", false, &page);

        if (!r)
                r = ask(keep, "GET", page.data, &status, &list);
        for (const char *line = list.data; !r && line && *line; line = strchr(line, '\n') + 1) {
                uint64_t number;

                if (!strcmp(line, RECORDER_LIST_MORE "\n")) {
                        log_notice("there are more parts than these: ask for a shorter time");
                        break;
                }
                if (sscanf(line, "%" SCNu64, &number) != 1 || !strchr(line, '\n')) {
                        log_error("what the daemon says is no list");
                        return STATUS_FAILURE;
                }
                r = get(keep, number);
        }
        return r;
}

static int nothing(void) {
        log_error("the flight recorder has nothing of it; `spanprof status` says how far back it reaches");
        return STATUS_FAILURE;
}

/* Ends the open window, and has all that may be meant in keep->fd. */
static int fetch(Keep *keep) {
        int r = close_window(keep);

        if (!r)
                r = get_all(keep);
        if (r)
                return r;
        if (keep->n_gone)
                log_notice("%u parts went for newer ones while they were asked for", keep->n_gone);
        return keep->n ? 0 : nothing();
}

/* The command line of who reads what came. @path, @arguments: live as long. */
static Cli reading_of(const Keep *keep, const Cli *cli, char path[static FD_PATH_SIZE], char **arguments) {
        Cli reading = *cli;

        snprintf(path, FD_PATH_SIZE, "/proc/self/fd/%d", keep->fd);
        reading.arguments = arguments;
        reading.n_arguments = 1;
        return reading;
}

static int write_output(Keep *keep, const Cli *cli) {
        char path[FD_PATH_SIZE], *arguments[] = { path };
        int r = fetch(keep);
        Cli convert;

        if (r)
                return r;
        convert = reading_of(keep, cli, path, arguments);
        return verb_convert.run(&convert);
}

/* The daemon knows one trace, one span, one process by its number, and times. */
static bool is_for_daemon(const ConfigFilter *filter) {
        uint64_t pid;

        return filter->trace_ids.n_items <= 1 && filter->span_ids.n_items <= 1 &&
                filter->processes.n_items <= 1 &&
                (!filter->processes.n_items || !text_u64(filter->processes.items[0], INT32_MAX, &pid)) &&
                *filter->start != '+' && *filter->end != '+' &&
                !(filter->services.n_items || filter->hosts.n_items || filter->threads.n_items ||
                  filter->operations.n_items || filter->coroutines.n_items || filter->types.n_items);
}

/* The daemon ships a few at a time. */
static int ship_trace(const Keep *keep, const uint8_t id[static TRACE_BYTES]) {
        static const struct timespec pause = { .tv_sec = 1 };
        _cleanup_(text_deinit) Text answer = { 0 };
        char page[PAGE_MAX], hex[2 * TRACE_BYTES + 1];
        int status, r = 0;

        text_to_hex(hex, id, TRACE_BYTES);
        snprintf(page, sizeof(page), "/recorder/keep/trace/%s/reason/slower-than", hex);
        for (int i = 0; i < SHIP_TRIES; i++) {
                text_deinit(&answer);
                answer = (Text){ 0 };
                r = control_ask(keep->socket, "POST", page, &status, &answer);
                if (r || status != BUSY)
                        break;
                nanosleep(&pause, NULL);
        }
        return r == CONTROL_E_UNREACHABLE ? unreachable(keep) : r ? r : judge(status, &answer);
}

static int by_trace(const void *a, const void *b) {
        return memcmp(a, b, TRACE_BYTES);
}

/* Each trace once, whatever number of spans it has. */
static int ship_traces(const Keep *keep, const Window *window) {
        const uint32_t n = window_n_links(window) - 1;
        _cleanup_(freep) uint8_t (*traces)[TRACE_BYTES] = calloc(n + 1u, sizeof(*traces));
        uint32_t n_shipped = 0, n_traces = 0;
        int r = traces ? 0 : error_origin(-ENOMEM);

        for (uint32_t i = 0; i < n && !r; i++)
                memcpy(traces[i], window_get_link(window, i + 1)->trace_id, TRACE_BYTES);
        if (!r)
                qsort(traces, n, TRACE_BYTES, by_trace);
        for (uint32_t i = 0; i < n && !r; i++) {
                if (i && !by_trace(traces[i], traces[i - 1]))
                        continue;
                if (n_traces++ >= SHIP_TRACES)
                        continue;
                r = ship_trace(keep, traces[i]);
                n_shipped += !r;
        }
        if (n_traces > n_shipped && !r)
                log_notice("%u more traces are not shipped: ask for a shorter time, or write a file with -o",
                           n_traces - n_shipped);
        if (!r)
                log_notice("%u traces are shipped", n_shipped);
        return r;
}

/* Reads what came, by the filters of the command line. */
static int ship_slow_of(Keep *keep, Inputs *inputs, spanprof_convert *library) {
        _cleanup_(source_deinit) Source source = { .fd = -1 };
        int r = inputs_open(inputs, 0, &source);

        if (!r)
                r = convert_library_add(library, &source);
        if (!r)
                r = spanprof_convert_finish(library);
        if (r == -ENODATA)
                return nothing();
        return r > 0 ? STATUS_FAILURE : r ? r : ship_traces(keep, convert_library_inside(library)->window);
}

static int ship_slow(Keep *keep, const Cli *cli) {
        char path[FD_PATH_SIZE], *arguments[] = { path };
        spanprof_convert *library = NULL;
        Inputs inputs;
        Cli reading;
        int r = fetch(keep);

        if (r)
                return r;
        reading = reading_of(keep, cli, path, arguments);
        r = inputs_init(&inputs, &reading);
        if (!r)
                r = convert_library_open(&library, &inputs.options);
        if (!r)
                r = ship_slow_of(keep, &inputs, library);
        spanprof_convert_close(library);
        inputs_deinit(&inputs);
        return r;
}

static int ship(const Keep *keep) {
        _cleanup_(text_deinit) Text page = { 0 }, answer = { 0 };
        int status, r;

        if (!is_for_daemon(&keep->config->filter)) {
                log_error("the daemon ships by one --trace, --span or --process PID, --start and --end alone: write "
                          "a file with -o, and send it with `spanprof convert --endpoint`");
                return STATUS_USAGE;
        }
        r = ask_page(keep, "/recorder/keep", true, &page);
        return r ? r : ask(keep, "POST", page.data, &status, &answer);
}

/* Through a file without a name. */
static int read_here(Keep *keep, const Cli *cli, int (*use)(Keep *keep, const Cli *cli)) {
        _cleanup_(closep) int fd = keep->fd = memfd_create("spanprof-keep", MFD_CLOEXEC);

        return fd < 0 ? error_origin(-errno) : use(keep, cli);
}

static int run(Cli *cli) {
        Keep keep = { .config = &cli->config, .socket = config_control(&cli->config) };
        int r;

        if (*cli->config.command.output)
                r = read_here(&keep, cli, write_output);
        else
                r = cli->config.filter.slower_ns ? read_here(&keep, cli, ship_slow) : ship(&keep);

        if (r < 0) {
                log_error("cannot keep it: %s", strerror(-r));
                return STATUS_FAILURE;
        }
        return r;
}

const Verb verb_keep = {
        .name = "keep",
        .bit = VERB_KEEP,
        .arguments = "",
        .reads_files = true,
        .summary = "write or ship what the flight recorder has of a trace, a process or a time",
        .description =
                "Asks the daemon that runs with --recorder for what it has kept in memory, and writes the part that is meant:\n"
                "samples at recorder-frequency, and waits with --off-cpu, with their times. The suffix of -o says the form:\n"
                ".html (one page), .otlp, .pb.gz (pprof), .firefox.json (in order of time) and the others of `convert`.\n"
                "It ends the daemon's open window first, once a second at most, so that all until now is there.\n"
                "\n"
                "Without -o the daemon sends it to its receivers: profiles of types that begin with kept_, whose resource\n"
                "says in profile.kept.reason what it was kept for. No sample counts twice in those that are sent anyway.\n"
                "\n"
                "--slower-than chooses whole traces, by one span of each: how long it lasted is told by its first and last\n"
                "sample or wait. So it lasted at least so long; a wait that was not recorded (--off-cpu) at its begin or end\n"
                "is not counted.\n"
                "\n"
                "  spanprof keep --trace 4bf92f3577b34da6a3ce929d0e0e4736 -o slow.html\n"
                "  spanprof keep --operation 'GET /cart*' --slower-than 500ms -o slow.html\n"
                "  spanprof keep --process 812 --start -90s -o before.otlp\n"
                "  spanprof keep --trace 4bf92f3577b34da6a3ce929d0e0e4736\n",
        .run = run,
};
