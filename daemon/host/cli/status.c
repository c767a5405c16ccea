/* SPDX-License-Identifier: Apache-2.0 */

/* `status`, `watch`, `pause`, `resume` and `boost`: questions to the daemon that runs. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file/outfile.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/text.h"
#include "host/cli/cli.h"
#include "host/service/control/control.h"

static int explain(const char *path) {
        if (errno == ENOENT || errno == ECONNREFUSED)
                log_error(
                        "no spanprof runs here: nobody listens on %s (`systemctl status spanprof` may say why)",
                        path);
        else if (errno == EACCES)
                log_error("%s is for root and the group of the daemon: use sudo", path);
        else
                log_error("no answer on %s: %s", path,
                          errno == EAGAIN ? "the daemon does not answer" : strerror(errno));
        return STATUS_FAILURE;
}

static int ask(Cli *cli, const char *method, const char *page, Text *answer) {
        const char *path = config_control(&cli->config);
        int status, r = control_ask(path, method, page, &status, answer);

        if (r == CONTROL_E_UNREACHABLE)
                return explain(path);
        if (!r && status == 200)
                return STATUS_OK;
        log_error("the daemon says: %d %s", status, answer->data ? answer->data : "");
        return STATUS_FAILURE;
}

static const char *page_of(const Config *config) {
        if (!strcmp(config->command.probe, "health"))
                return "/healthz";
        if (!strcmp(config->command.probe, "ready"))
                return "/readyz";
        return config->command.json ? "/status.json" : "/status";
}

static int show(Cli *cli, const char *page) {
        _cleanup_(text_deinit) Text answer = { 0 };
        int r = ask(cli, "GET", page, &answer);

        if (!r && cli->config.command.json)
                fputs(answer.data ? answer.data : "", stdout);
        else if (!r)
                text_print_lines(answer.data ? answer.data : "", stdout);
        return r;
}

static int run_status(Cli *cli) {
        return show(cli, page_of(&cli->config));
}

/* Return: STATUS_OK, STATUS_FAILURE after a message. */
static int write_page(const char *path, const Text *page) {
        const OutfileOptions options = { .mode = 0600, .for_caller = true };
        Outfile file = OUTFILE_NONE;
        int r = outfile_open(&file, path, &options);

        if (!r)
                r = outfile_write(&file, page->data, page->size);
        if (!r)
                r = outfile_finish(&file);
        outfile_deinit(&file);
        if (r)
                log_error("%s: cannot be written: %s", path, outfile_problem(r));
        return r ? STATUS_FAILURE : STATUS_OK;
}

static int run_watch(Cli *cli) {
        const char *output = cli->config.command.output;
        const bool json = cli->config.command.json;
        _cleanup_(text_deinit) Text page = { 0 };

        if (!*output)
                return show(cli, json ? "/watch.json" : "/watch");
        return ask(cli, "GET", json ? "/watch.json" : "/watch.html", &page) ?: write_page(output, &page);
}

static int run_pause(Cli *cli) {
        _cleanup_(text_deinit) Text answer = { 0 };

        return ask(cli, "POST", "/pause", &answer);
}

static int run_resume(Cli *cli) {
        _cleanup_(text_deinit) Text answer = { 0 };
        int r = ask(cli, "POST", "/resume", &answer);

        if (r || !answer.data || !strcmp(answer.data, "sampling\n"))
                return r;
        log_error("still paused: %.*s", (int)strcspn(answer.data, "\n"), answer.data);
        return STATUS_FAILURE;
}

/* Files and the environment have these for the daemon, not for us. */
static bool is_asked(const Cli *cli, const char *name) {
        return config_origin(&cli->config, name)->level == CONFIG_COMMAND_LINE;
}

/* Return: 0, STATUS_USAGE. */
static int make_page(const Cli *cli, Text *page) {
        const Config *config = &cli->config;
        const bool has_unit = is_asked(cli, "unit"), has_process = config->filter.processes.n_items;
        uint64_t pid;

        if (has_unit == has_process || (has_unit && config->targets.units.n_items != 1) ||
            (has_process && (config->filter.processes.n_items != 1 ||
                             text_u64(config->filter.processes.items[0], INT32_MAX, &pid)))) {
                log_error("boost what? one --unit NAME, or one --process PID (`spanprof boost --help`)");
                return STATUS_USAGE;
        }
        if (!is_asked(cli, "frequency")) {
                log_error("how often? --frequency HZ, as 499 (`spanprof boost --help`)");
                return STATUS_USAGE;
        }
        text_printf(page, has_unit ? "/boost/unit/" : "/boost/process/");
        text_append_escaped(page,
                            has_unit ? config->targets.units.items[0] : config->filter.processes.items[0],
                            "-_.:@*");
        text_printf(page, "/frequency/%" PRIu64 "/for/%" PRIu64, config->sampling.frequency,
                    config->command.boost_ns / NS_PER_SEC);
        return page->failed ? error_origin(-ENOMEM) : 0;
}

static int run_boost(Cli *cli) {
        _cleanup_(text_deinit) Text page = { 0 }, answer = { 0 };
        int r = make_page(cli, &page);

        if (!r)
                r = ask(cli, "POST", page.data, &answer);
        if (!r)
                text_print_lines(answer.data ? answer.data : "", stdout);
        return r < 0 ? STATUS_FAILURE : r;
}

const Verb verb_status = {
        .name = "status",
        .bit = VERB_STATUS,
        .arguments = "",
        .reads_files = true,
        .summary = "what the daemon that runs does, has delivered and lost",
        .description =
                "Asks the daemon by its control socket. Fails if none runs, or does not answer within 5 s.\n"
                "\n"
                "For health checks (`exec` in Kubernetes, HealthCmd= of Podman): --probe health fails unless its loop turns,\n"
                "--probe ready also while the kernel half is not attached or mappings are not current. They need no port,\n"
                "so that nobody on the network can make them fail.",
        .run = run_status,
};

const Verb verb_watch = {
        .name = "watch",
        .bit = VERB_WATCH,
        .arguments = "",
        .reads_files = true,
        .summary = "which functions the newest build of a service made slower",
        .description =
                "Asks the daemon that runs with --watch-builds 30m what it knows of builds. A service is a user, a\n"
                "control group (or what owns the pod), service.name and the program; a build is the build id of the\n"
                "program's file, with service.version. Once both builds have run for that time, the shares that\n"
                "functions have of the CPU time, without what they call, are compared.\n"
                "\n"
                "A function is listed if its share has grown by more than chance and the usual changes of load explain: at\n"
                "most one of 1,000 comparisons of equal builds has one. The interval holds for all functions together.\n"
                "Names match without arguments of templates, numbers of lambdas and Rust's hashes.\n"
                "\n"
                "  spanprof watch -o builds.html\n",
        .run = run_watch,
};

const Verb verb_pause = {
        .name = "pause",
        .bit = VERB_STATUS,
        .arguments = "",
        .reads_files = true,
        .summary = "stop sampling, and keep the daemon",
        .description =
                "Takes the samplers off until `spanprof resume`, a restart of the daemon, or of the machine; what has been\n"
                "sampled is still sent. To keep it off over restarts: touch /etc/spanprof/disabled.",
        .run = run_pause,
};

const Verb verb_resume = {
        .name = "resume",
        .bit = VERB_STATUS,
        .arguments = "",
        .reads_files = true,
        .summary = "go on sampling after `pause`",
        .description =
                "Fails if something else keeps sampling off: /etc/spanprof/disabled, or the limit on memory.",
        .run = run_resume,
};

const Verb verb_boost = {
        .name = "boost",
        .bit = VERB_BOOST,
        .arguments = "",
        .reads_files = true,
        .summary = "sample some processes more often for a while",
        .description =
                "Asks the daemon that runs, by its control socket. The processes of a unit (its later ones, too), or one, are\n"
                "sampled at --frequency, 1000 Hz at most, for 10 minutes at most. All others are sampled as before. Each\n"
                "profile has the period of its own samples, so shares of CPU time stay right. Four boosts at a time have one\n"
                "rate, the highest; with a flight recorder it is at least that of the recorder.\n"
                "\n"
                "A boost ends by itself, with a reload, and before max-cpu or max-export-rate lower the frequency of all.\n"
                "`spanprof status` shows what is boosted, and until when. One more of the same unit or process replaces it.\n"
                "\n"
                "  spanprof boost --unit shop --frequency 499 --for 60s\n"
                "  spanprof boost --process 812 --frequency 499\n",
        .run = run_boost,
};
