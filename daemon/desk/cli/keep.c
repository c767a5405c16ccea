/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `keep`: gets what the flight recorder of the running daemon has, and writes it as `convert` would.
 *
 *     POST /recorder/close ─▶ GET /recorder/list/trace/… ─▶ GET /recorder/get/N, one after the other
 *                                      ─▶ a file without a name, framed ─▶ convert: filter, names, writer
 *
 * Without -o the daemon itself ships it: POST /recorder/keep/trace/…
 *
 * The daemon knows which windows have a trace; which samples of them are meant is decided here, by the
 * filters that `report` and `convert` have. A window that goes while it is asked for is counted and said.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/file/gzip.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "desk/cli/time-option.h"
#include "host/cli/cli.h"
#include "host/service/control/control.h"
#include "host/service/recorder/recorder-ask.h"

enum {
        GONE = 410,                     /* HTTP */
        PAGE_MAX = 192,
        SIZE_BYTES = 4,                 /* before each framed request, big endian */
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

/* Return: 0 with *statusp; STATUS_FAILURE after a message; -ENOMEM. */
static int ask(const Keep *keep, const char *method, const char *page, int *statusp, Text *answer) {
        int r = control_ask(keep->socket, method, page, statusp, answer);

        if (r == CONTROL_E_UNREACHABLE)
                return unreachable(keep);
        if (r || *statusp == 200 || *statusp == GONE)
                return r;
        log_error("the daemon says: %d %s", *statusp, answer->data ? answer->data : "");
        return STATUS_FAILURE;
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

static int write_output(const Keep *keep, const Cli *cli) {
        char path[sizeof("/proc/self/fd/") + 16], *arguments[] = { path };
        Cli convert = *cli;

        if (keep->n_gone)
                log_notice("%u parts went for newer ones while they were asked for", keep->n_gone);
        if (!keep->n) {
                log_error("the flight recorder has nothing of it; `spanprof status` says how far back it reaches");
                return STATUS_FAILURE;
        }
        snprintf(path, sizeof(path), "/proc/self/fd/%d", keep->fd);
        convert.arguments = arguments;
        convert.n_arguments = 1;
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

static int write_file(Keep *keep, const Cli *cli) {
        _cleanup_(closep) int fd = keep->fd = memfd_create("spanprof-keep", MFD_CLOEXEC);
        int r = fd < 0 ? -errno : close_window(keep);

        if (!r)
                r = get_all(keep);
        return r ? r : write_output(keep, cli);
}

static int run(Cli *cli) {
        const char *socket = cli->config.daemon.control;
        Keep keep = { .config = &cli->config, .socket = *socket ? socket : CONTROL_DEFAULT };
        int r = *cli->config.command.output ? write_file(&keep, cli) : ship(&keep);

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
                "  spanprof keep --trace 4bf92f3577b34da6a3ce929d0e0e4736 -o slow.html\n"
                "  spanprof keep --process 812 --start -90s -o before.otlp\n"
                "  spanprof keep --trace 4bf92f3577b34da6a3ce929d0e0e4736\n",
        .run = run,
};
