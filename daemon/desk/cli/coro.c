/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `coro`: turns options into those of the engine, and starts it for a command or for processes that run.
 */

#include <limits.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "core/base/util/log.h"
#include "desk/coro/engine/attach.h"
#include "desk/coro/engine/engine.h"
#include "host/cli/cli.h"

#define DEFAULT_OUTPUT "coro-trace.jsonl"

enum { STATUS_ENGINE = 125 };           /* ours, not the command's: as env(1) and timeout(1) have it */

static int set_options(CoroOptions *options, const Config *config) {
        *options = (CoroOptions){
                .region_path = *config->coro.region ? config->coro.region : NULL,
                .n_stations = (uint32_t)config->coro.stations,
                .output = *config->command.output ? config->command.output : DEFAULT_OUTPUT,
                .trace = { .extra = true, .mode = 0600, .max_bytes = config->coro.max_trace_bytes },
                .address_names = config->coro.places,
                .buffer_bytes = config->coro.buffer_bytes,
                .duration_ns = config->daemon.duration_ns,
                .progress = log_level() >= LOG_NOTICE && isatty(STDERR_FILENO),
        };
        if (trace_form_of(options->output, &options->form))
                log_error("%s: the ending says the form: .jsonl, .db", options->output);
        else if (options->form == TRACE_CSV)
                log_error("%s: CSV is written no more: give .jsonl or .db; `spanprof corotracer -export csv -in FILE.jsonl` makes CSV of a trace",
                          options->output);
        else
                return 0;
        return STATUS_USAGE;
}

/* A command, or processes. */
static int check_targets(const Cli *cli) {
        if (!cli->n_arguments == !cli->config.targets.pids.n_items) {
                log_error(cli->n_arguments ? "a command and --pid cannot be used together"
                                           : "coro: needs -- COMMAND…, or --pid");
                return STATUS_ENGINE;
        }
        return 0;
}

static int trace(Cli *cli, const CoroOptions *options, CoroSummary *summary, int *statusp) {
        const ConfigPids *pids = &cli->config.targets.pids;
        int r;

        if (!pids->n_items) {
                cli->arguments[cli->n_arguments] = NULL;        /* fits: argv is longer by the options */
                return coro_run(options, cli->arguments, summary, statusp);
        }
        r = coro_attach(options, pids->items, pids->n_items, summary);
        *statusp = r ? STATUS_ENGINE : STATUS_OK;
        return r;
}

static int run(Cli *cli) {
        CoroOptions options;
        CoroSummary summary;
        int status = STATUS_ENGINE, r = check_targets(cli);

        if (!r)
                r = set_options(&options, &cli->config);
        if (r)
                return STATUS_ENGINE;
        r = trace(cli, &options, &summary, &status);
        if (r < 0)
                log_error("stopped by an error: %s", strerror(-r));
        if (r)
                return status ? status : STATUS_ENGINE;
        coro_summary_log(&summary);
        log_info("the trace is in %s", options.output);
        return status;
}

const Verb verb_coro = {
        .name = "coro",
        .bit = VERB_CORO,
        .arguments = "-- COMMAND… | --pid PID",
        .max_arguments = INT_MAX,
        .summary = "record when the coroutines of a program run and wait (cTP stations)",
        .description =
                "Runs COMMAND with a region of stations in shared memory (CTP_SHM_PATH, CTP_SOCK_PATH, CTP_MAX_STATIONS in its\n"
                "environment), in which its coroutines say when they are resumed and suspended, and writes each event to a\n"
                "file: JSON lines or SQLite, by the ending of --output (default: " DEFAULT_OUTPUT
                "; - for standard output).\n"
                "With --pid it reads the regions that running processes have mapped, under whatever name, and changes nothing.\n"
                "A database needs a directory that nobody else may change (not /tmp).\n"
                "Where the program's code lay is kept in it, so that `spanprof report` names functions (--no-places: not).\n"
                "What was overwritten before it could be read is counted exactly and named in the trace. Ends with the\n"
                "command and with its exit status; 125 is a failure of spanprof, 126 and 127 a command that does not start.\n"
                "\n"
                "Examples:\n"
                "  spanprof coro -n 10000 -o trace.jsonl -- ./server\n"
                "  spanprof coro --pid 812 -d 10s -o trace.jsonl\n"
                "  spanprof coro -o trace.db -- ./server; sqlite3 trace.db 'SELECT * FROM coro_stations WHERE NOT dead'",
        .run = run,
};
