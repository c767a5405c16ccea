/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `stacks`: samples what runs for a moment, looks at all threads that wait, and lists both by place.
 */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/log.h"
#include "core/profile/merge.h"
#include "desk/cli/inputs.h"
#include "desk/cli/line-options.h"
#include "desk/cli/outputs.h"
#include "desk/cli/remote-symbols.h"
#include "desk/convert/convert.h"
#include "desk/live/goroutine-list.h"
#include "desk/live/session.h"
#include "desk/live/thread-list.h"
#include "host/cli/cli.h"
#include "host/service/config/config-selector.h"
#include "host/service/config/option.h"
#include "host/service/run/daemon.h"

enum { MOST_GOROUTINES = 10000 };               /* of a process: of more, some stand for all */

#define RUNNING_NS (250 * NS_PER_MS)            /* in which threads that run are sampled */

typedef struct Stacks {
        Cli *cli;
        ConvertOptions options;
        Convert convert;                /* its window has all waits and samples */
        Session session;
        RemoteSymbols remote;
        ThreadWaits threads;
        GoroutinesSeen goroutines;
        Outputs outputs;
        const ConvertWriter *writer;    /* NULL = text or JSON, to standard output */
        uint64_t begin_ns;              /* REALTIME */
} Stacks;

/* ---- whom ---- */

/* A process id may stand alone. */
static int take_arguments(Cli *cli) {
        const Option *pid = option_find("pid", 3);

        for (int i = 0; i < cli->n_arguments; i++) {
                Text problem = { 0 };
                int r = option_set(pid, &cli->config, cli->arguments[i],
                                   i > 0 || cli->config.targets.pids.n_items, &problem);

                if (r)
                        log_error("stacks: %s is no process id", cli->arguments[i]);
                text_deinit(&problem);
                if (r)
                        return r < 0 ? r : STATUS_USAGE;
        }
        if (config_chooses(&cli->config.targets))
                return 0;
        log_error("stacks of whom? a process id, or -C NAME, -u UNIT, -a for everything (`spanprof stacks --help`)");
        return STATUS_USAGE;
}

static int check_output(Stacks *stacks) {
        const Config *config = &stacks->cli->config;

        if (!*config->command.output)
                return 0;
        /* it says what runs on the machine */
        stacks->outputs = (Outputs){ .path = config->command.output, .mode = 0600, .file = OUTFILE_NONE };
        stacks->writer = outputs_find_writer(config->command.output, config->command.format);
        return stacks->writer ? 0 : STATUS_USAGE;
}

/* ---- the look ---- */

static bool any_runs(const ThreadWaits *threads) {
        for (size_t i = 0; i < threads->n; i++)
                if (!threads->threads[i].was_added)
                        return true;
        return false;
}

static bool any_waits(const ThreadWaits *threads) {
        for (size_t i = 0; i < threads->n; i++)
                if (threads->threads[i].was_added)
                        return true;
        return false;
}

static int on_started(void *userdata, Daemon *daemon) {
        Stacks *stacks = userdata;
        int r;

        stacks->begin_ns = clock_read_ns(CLOCK_REALTIME);
        r = daemon_look_at_threads(daemon, &stacks->threads);
        if (!r)
                r = daemon_look_at_goroutines(daemon, &stacks->goroutines);
        return r || any_runs(&stacks->threads) ? r : session_end(&stacks->session);
}

static int on_window(void *userdata, const Window *window, uint64_t *n_lostp) {
        Stacks *stacks = userdata;

        return window_merge(stacks->convert.window, window, n_lostp);
}

/* ---- what came out ---- */

static int name_late(Window *window, void *userdata) {
        Stacks *stacks = userdata;
        uint32_t n;

        return daemon_name_late(stacks->session.daemon, window, &n);
}

/* Other forms have one type of samples: that of the threads that hang. */
static bool holds_all_types(const ConvertWriter *writer) {
        return writer == &convert_write_html || writer == &convert_write_otlp ||
                writer == &convert_write_json;
}

static int close_window(Stacks *stacks) {
        static char *const type[] = { (char *)"off_cpu" };
        const FilterWords waits = { type, 1 };
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = NULL;
        SymbolizerOptions options = { 0 };
        int r;

        line_options_put(&stacks->cli->config, false, &options);
        remote_symbols_put(&stacks->remote, &options);
        r = symbolizer_new(&symbolizer, &options);
        if (r)
                return r;
        stacks->options.symbolizer = symbolizer;
        stacks->options.closed = name_late;
        stacks->options.userdata = stacks;
        if (stacks->writer && !holds_all_types(stacks->writer) && any_waits(&stacks->threads))
                stacks->options.filter.types = waits;
        convert_cover(&stacks->convert, stacks->begin_ns, clock_read_ns(CLOCK_REALTIME));
        r = convert_close(&stacks->convert);
        line_options_say_missing(&stacks->cli->config, symbolizer);
        stacks->options.symbolizer = NULL;
        return r;
}

/* Return: enum status, -ENOMEM. */
static int print(const Stacks *stacks) {
        _cleanup_(goroutine_list_freep) GoroutineList *goroutines = NULL;
        _cleanup_(thread_list_freep) ThreadList *list = NULL;
        int r = thread_list_new(&list, stacks->convert.window, &stacks->threads);

        if (!r)
                r = goroutine_list_new(&goroutines, stacks->convert.window, &stacks->goroutines);
        if (r)
                return r;
        if (stacks->cli->config.command.json) {
                r = thread_list_json(list, goroutines, stdout);
        } else {
                thread_list_print(list, stdout);
                goroutine_list_print(goroutines, stdout);
        }
        fflush(stdout);
        return r;
}

/* Return: enum status, -errno. */
static int show(Stacks *stacks) {
        if (!stacks->threads.n) {
                log_error("no thread: none of the processes that run is chosen");
                return STATUS_FAILURE;
        }
        return stacks->writer ? outputs_write(&stacks->outputs, stacks->writer, &stacks->convert)
                              : print(stacks);
}

/* In a thread of its own. */
static void give_up(void *userdata) {
        const Stacks *stacks = userdata;

        log_warning("stopped once more: the stacks of %zu threads are given up, and not written", stacks->threads.n);
        outfile_abandon(&stacks->outputs.file);
}

static int run_session(Stacks *stacks) {
        int r = session_run(&stacks->session);

        if (r == DAEMON_E_UNUSABLE)
                return STATUS_CONFIG;
        if (r)
                return r < 0 ? r : STATUS_FAILURE;
        session_watch_signals(&stacks->session);
        r = close_window(stacks);
        if (!r)
                r = show(stacks);
        session_unwatch_signals(&stacks->session);
        return r;
}

static int run_stacks(Stacks *stacks) {
        const SessionOptions options = { .config = &stacks->cli->config,
                                         .interval_ns = 3600 * NS_PER_SEC,
                                         .window = on_window,
                                         .started = on_started,
                                         .give_up = give_up,
                                         .userdata = stacks };
        int r;

        stacks->cli->config.sampling.goroutines = MOST_GOROUTINES;
        stacks->cli->config.daemon.duration_ns = stacks->cli->config.daemon.duration_ns ?: RUNNING_NS;
        stacks->options = (ConvertOptions){ .end_ns = UINT64_MAX,
                                            .filter = { .end_ns = UINT64_MAX },
                                            .version = SPANPROF_VERSION };
        r = convert_init(&stacks->convert, &stacks->options);
        if (!r)
                r = session_init(&stacks->session, &options);
        if (!r)
                r = run_session(stacks);
        session_deinit(&stacks->session);
        if (r < 0)
                log_error("stopped by an error: %s", strerror(-r));
        return r < 0 ? STATUS_FAILURE : r;
}

static int run(Cli *cli) {
        Stacks stacks = { .cli = cli };
        const char *obstacle = session_obstacle();
        int r = take_arguments(cli);

        if (!r)
                r = check_output(&stacks);
        if (!r && obstacle) {
                log_error("%s", obstacle);
                r = STATUS_CONFIG;
        }
        if (!r) {
                if (!inputs_is_set(&cli->config, "log-level"))
                        log_set_level(LOG_LEVEL_WARNING);
                r = remote_symbols_init(&stacks.remote, &cli->config);
                if (!r)
                        r = run_stacks(&stacks);
                remote_symbols_deinit(&stacks.remote);
        }
        convert_deinit(&stacks.convert);
        thread_waits_deinit(&stacks.threads);
        return r < 0 ? STATUS_FAILURE : r;
}

const Verb verb_stacks = {
        .name = "stacks",
        .bit = VERB_STACKS,
        .arguments = "[PID…]",
        .max_arguments = INT_MAX,
        .summary = "show what each thread of a process does now, and what it waits for",
        .description =
                "Looks once at all threads of the processes that are chosen, without stopping or waking any: the first thing\n"
                "to type when a program hangs. Of a thread that waits it says the stack, the span, what it waits for and for\n"
                "how long at most: since it was given a CPU last. Of a mutex of glibc, a monitor or lock of Java and an RLock\n"
                "of Python it names the thread that has it, and calls a deadlock what is one. Threads that run are sampled for\n"
                "a quarter of a second, and the stack with the most samples is shown. Threads that do the same in the same\n"
                "place stand together.\n"
                "\n"
                "Of a program of Go it also says where its goroutines wait, and on what, with their labels and spans, those\n"
                "that do the same in the same place together. The numbers are exact up to 10,000 of a process.\n"
                "\n"
                "Stacks are walked by the rules of `record`, with functions of Java and Python. With -o they go to a file, in a\n"
                "form of `record`: in a page or a flame graph, waits are as wide as they are long.\n"
                "\n"
                "  spanprof stacks 4711                           all threads of a process\n"
                "  spanprof stacks -u shop                        of all processes of a unit\n"
                "  spanprof stacks 4711 --json                    for programs\n"
                "  spanprof stacks 4711 -o hang.html              to look at, or to send\n",
        .run = run,
};
