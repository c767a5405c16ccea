/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/resource.h>

#include "cli/cli.h"
#include "daemon.h"
#include "util/log.h"

/*
 * Each file with unwind rows keeps the descriptor of its table: a machine full of targets has more than the usual
 * soft limit of 1,024. The hard limit is the administrator's word.
 */
static void raise_descriptor_limit(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
                return;
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit))
                log_debug("cannot raise the limit of open files: %m");
}

static int run(Cli *cli) {
        _cleanup_(daemon_freep) Daemon *daemon = NULL;
        int level, r;

        if (!log_level_parse(cli->config.log_level, &level))
                log_set_level(level);
        raise_descriptor_limit();
        r = daemon_new(&daemon, &cli->config);
        if (!r)
                r = daemon_run(daemon);
        if (r == DAEMON_E_UNUSABLE)
                return STATUS_CONFIG;
        if (r < 0)
                log_error("stopped by an error: %s", strerror(-r));
        return r ? STATUS_FAILURE : STATUS_OK;
}

const Verb verb_run = {
        .name = "run",
        .bit = VERB_RUN,
        .arguments = "",
        .reads_files = true,
        .summary = "profile services in production and ship OTLP profiles (the daemon)",
        .description =
                "Runs in the foreground until SIGTERM or SIGINT, as a service manager expects. Without a selector it\n"
                "profiles every process that publishes a trace context; those of the section \"Targets\" choose others:\n"
                "a process is profiled if any of them fits and no --exclude does.\n"
                "Needs root, or CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE.\n"
                "\n"
                "  spanprof run                                   profile what publishes spans, ship to localhost:4318\n"
                "  spanprof run -C 'nginx*' -d 30s                profile nginx for half a minute\n"
                "  spanprof run -p 812 --endpoint http://collector:4318\n",
        .refusal = "`run` starts no program: start it yourself, then `spanprof run --pid PID`; `record -- ./app`, which will do "
                   "both, does not exist yet",
        .run = run,
};
