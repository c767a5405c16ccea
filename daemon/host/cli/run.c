/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `run`: starts the processes that need root's rights, gives these up, and runs one daemon after the other
 * until no reload is wanted.
 */

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/sandbox/confine.h"
#include "core/base/sandbox/zygotes.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/base/util/short-turns.h"
#include "host/cli/cli.h"
#include "host/service/limits/group-limit.h"
#include "host/service/recorder/recorder.h"
#include "host/service/watch/watch.h"
#include "host/sampling/unwind/tables/row-cache.h"
#include "host/service/run/daemon.h"
#include "host/service/run/demotion.h"
#include "host/service/control/self.h"

enum { ZYGOTE_WAIT_MS = 5000 };        /* a zygote takes some ten */

#define WORKER_LEAST_BYTES (UINT64_C(16) << 20)         /* for libraries, stacks, and a table of some MiB */

typedef struct Run {
        Cli *cli;
        Config next;                    /* for the daemon after this one */
        bool reloads;
        DaemonTotals totals;
} Run;

/* For SIGHUP. Return: 0 = run.next holds a good configuration. */
static int reload(void *userdata) {
        Run *run = userdata;
        Config next;

        log_info("reading the configuration anew");
        if (!cli_reload(run->cli, &next)) {
                config_deinit(&run->next);      /* configuration of a reload that is still under way */
                run->next = next;
                return 0;
        }
        stat_add(COUNTER_RELOADS_REFUSED, 1);
        log_write_event(LOG_LEVEL_ERROR, LOG_EVENT_CONFIG_REFUSED, "reload",
                        "the new configuration is wrong: the old one stays in force");
        return 1;
}

static int run_once(Run *run) {
        _cleanup_(daemon_freep) Daemon *daemon = NULL;
        int level, r;

        if (!log_level_parse(run->cli->config.daemon.log_level, &level))
                log_set_level(level);
        r = daemon_new(&daemon, &run->cli->config, &run->totals, NULL);
        if (r)
                return r;
        if (run->reloads)
                daemon_set_reload(daemon, reload, run);
        short_turns_take();      /* the ring fills while others compute */
        return daemon_run(daemon);
}

/*
 * A daemon for each configuration, one after the other: whatever an option reaches, a reload applies it. The
 * kernel may still refuse what the parser took (a file that is not there, a port that is taken): then the one
 * before comes back.
 */
static int run_all(Run *run) {
        int r = run_once(run);

        while (r == DAEMON_E_RELOAD) {
                _cleanup_(config_deinit) Config before = run->cli->config;

                run->cli->config = run->next;
                run->next = (Config){ 0 };
                run->totals.is_reload = true;
                r = run_once(run);
                run->totals.is_reload = false;
                if (r != DAEMON_E_UNUSABLE && r != DAEMON_E_NO_TARGET)
                        continue;
                stat_add(COUNTER_RELOADS_REFUSED, 1);
                log_write_event(LOG_LEVEL_ERROR, LOG_EVENT_CONFIG_REFUSED, "start",
                                "the new configuration cannot be used: the old one comes back");
                config_deinit(&run->cli->config);
                run->cli->config = before;
                before = (Config){ 0 };
                r = run_once(run);
        }
        return r;
}

/* A terminal that hangs up sends SIGHUP too, and means the end. */
static bool has_terminal(void) {
        return isatty(STDIN_FILENO) || isatty(STDOUT_FILENO) || isatty(STDERR_FILENO);
}

/*
 * Workers take over our soft limit of data, and keep it. In a small control group that is part of what is
 * left: a worker that reads a huge file gives up, and the kernel need not kill it.
 */
static int make_zygotes(Zygotes **zygotesp) {
        _cleanup_(group_limit_deinit) GroupLimit group = { 0 };
        struct rlimit before, small;
        uint64_t spare;
        int r;

        group_limit_read(&group, "/proc/self");
        spare = MAX(group_limit_spare(&group), WORKER_LEAST_BYTES);
        if (getrlimit(RLIMIT_DATA, &before))
                return error_origin(-errno);
        small = (struct rlimit){ MIN(before.rlim_cur, (rlim_t)spare), before.rlim_max };
        setrlimit(RLIMIT_DATA, &small);
        r = zygotes_new(zygotesp);
        setrlimit(RLIMIT_DATA, &before);
        return error_fold(r);
}

/* While we still may start a program. */
static Zygotes *start_zygotes(void) {
        Zygotes *zygotes = NULL;
        int r = make_zygotes(&zygotes);

        if (!r)
                r = zygotes_wait(zygotes, ZYGOTE_WAIT_MS);
        if (!r)
                return zygotes;
        log_notice(
                "the daemon reads the files of targets itself: there is no process without rights for it (%s)",
                strerror(-r));
        return zygotes_free(zygotes);
}

/* While we still hold what it keeps. Without it the kernel half says what the kernel forbids. */
static EventOpener *start_opener(void) {
        EventOpener *opener = NULL;
        int r = event_opener_is_wanted() ? event_opener_new(&opener) : 0;

        if (r)
                log_notice("there is no process that opens events with CAP_SYS_ADMIN: %s", strerror(-r));
        return opener;
}

/* As who we are now. */
static int run_confined(Cli *cli, EventOpener *opener) {
        _cleanup_(zygotes_freep) Zygotes *zygotes = start_zygotes();
        _cleanup_(control_servers_freep) ControlServers *servers = control_servers_new();
        Run run = { .cli = cli, .reloads = !has_terminal(),
                    .totals = { .zygotes = zygotes, .opener = opener, .servers = servers } };
        int r;

        if (!servers) {
                log_error("out of memory");
                return STATUS_FAILURE;
        }
        self_raise_descriptor_limit();
        log_never_wait();
        r = confine();
        if (r < 0)
                log_notice("the daemon may call what it does not need: no filter of system calls (%s)",
                           strerror(-r));
        r = run_all(&run);
        recorder_free(run.totals.recorder);
        watch_free(run.totals.watch);
        row_cache_free(run.totals.rows);
        free(run.totals.rows_path);
        if (r == DAEMON_E_UNUSABLE)
                return STATUS_CONFIG;
        if (r < 0)
                log_error("stopped by an error: %s", strerror(-r));
        return r ? STATUS_FAILURE : STATUS_OK;
}

static int run(Cli *cli) {
        _cleanup_(event_opener_freep) EventOpener *opener = start_opener();
        Demotion demotion;
        int status, r = demotion_enter(&demotion, &cli->config);

        if (r < 0)
                log_error("cannot give up the rights of root: %s", strerror(-r));
        status = r ? r > 0 ? STATUS_CONFIG : STATUS_FAILURE : run_confined(cli, opener);
        demotion_end(&demotion);
        return status;
}

const Verb verb_run = {
        .name = "run",
        .bit = VERB_RUN,
        .arguments = "",
        .reads_files = true,
        .summary = "profile services in production and ship OTLP profiles (the daemon)",
        .description =
                "Runs in the foreground until SIGTERM or SIGINT, as a service manager expects, and sends the last window\n"
                "then. Another one a second later or more does not wait for that. Without a selector it profiles every\n"
                "process that publishes a trace context; those of the section \"Targets\" choose others: a process is\n"
                "profiled if any of them fits and no --exclude does.\n"
                "SIGHUP reads the configuration anew, and keeps the one in force if the new one is wrong; of a daemon on\n"
                "a terminal it is the end.\n"
                "Needs root, or CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE. Root's daemon becomes the user of --run-as\n"
                "with those capabilities alone that it needs, once it has opened its sockets.\n"
                "\n"
                "  spanprof run                                   profile what publishes spans, ship to localhost:4318\n"
                "  spanprof run -C 'nginx*' -d 30s                profile nginx for half a minute\n"
                "  spanprof run -p 812 --endpoint http://collector:4318\n",
        .refusal =
                "`run` starts no program: `spanprof record -- ./app` does, or start it yourself, then `spanprof run --pid PID`",
        .run = run,
};
