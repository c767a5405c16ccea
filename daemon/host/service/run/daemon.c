/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes the stages (stages.c) and starts them, logs what was found at the start, and reports at the end.
 * daemon-flow.c has the way between the stages, daemon-window.c what leaves them, daemon-loop.c its times,
 * daemon-govern.c its limits.
 */

#include "host/service/run/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "core/base/file/outfile.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/symbol/object/remote-files.h"
#include "host/sampling/sample/machine.h"
#include "host/service/control/control.h"
#include "host/service/control/self.h"
#include "host/service/control/summary.h"
#include "host/service/run/daemon-flow.h"
#include "host/service/run/daemon-govern.h"
#include "host/service/run/daemon-loop.h"
#include "host/service/run/own-helpers.h"
#include "host/service/run/stages.h"

/*
 * Mappings are read with each drain (250 ms at most), counters once a second: older values are not current.
 */
#define CURRENT_NS (5 * NS_PER_SEC)
#define LATE_NAMES_NS (2 * NS_PER_SEC)          /* at most, for what targets said of their code at the end */

/* ---- making it ---- */

static int check_summary(const char *path) {
        int r = *path ? summary_check(path) : 0;

        if (!r)
                return 0;
        log_error("cannot write the summary %s: %s", path, outfile_problem(r));
        return DAEMON_E_UNUSABLE;
}

/* Zygotes know workers that have ended, too. @userdata: Zygotes; NULL = none. */
static bool is_ours(const void *userdata, uint32_t pid, const char *comm) {
        return (userdata && zygotes_is_ours(userdata, pid, comm)) || own_helper_is(pid, comm);
}

int daemon_new(Daemon **daemonp, const Config *config, DaemonTotals *totals, const DaemonSink *sink) {
        _cleanup_(daemon_freep) Daemon *daemon = calloc(1, sizeof(*daemon));
        int r;

        if (!daemon)
                return error_origin(-ENOMEM);
        daemon->config = config;
        daemon->totals = totals;
        daemon->sink = sink;
        daemon->start_ns = clock_monotonic_ns();
        if (!totals->start_ns) {
                totals->start_ns = daemon->start_ns;
                coverage_clock_read(&totals->clock);
        }
        r = group_limit_read(&daemon->limits.group, "/proc/self");
        if (r)
                return error_fold(r);
        remote_files_limit(group_limit_spare(&daemon->limits.group) / 2);
        r = config_selector_init(&daemon->selection, &config->targets);
        daemon->selector = &daemon->selection.selector;
        daemon->selection.selector.is_ours = is_ours;
        daemon->selection.selector.userdata = totals->zygotes;
        if (!r)
                r = check_summary(config->daemon.summary);
        if (!r)
                r = daemon_make_loop(daemon);
        if (!r)
                r = stages_make(daemon);
        if (r)
                return r;
        *daemonp = take(daemon);
        return 0;
}

Daemon *daemon_free(Daemon *daemon) {
        if (!daemon)
                return NULL;
        daemon_remove_timers(daemon);
        control_free(daemon->control);
        stages_release(daemon);
        sd_event_source_disable_unref(daemon->loop.turn);
        clock_watch_free(daemon->loop.clock_watch);
        sd_event_unref(daemon->loop.event);
        config_selector_deinit(&daemon->selection);
        group_limit_deinit(&daemon->limits.group);
        free(daemon);
        return NULL;
}

/* ---- running ---- */

static void log_targets(Daemon *daemon) {
        size_t n = targets_count(daemon->stages.targets), n_all = targets_count_all(daemon->stages.targets);

        if (n)
                log_info("profiling %zu process%s of %zu", n, n == 1 ? "" : "es", n_all);
        else if (selector_takes_publishers(daemon->selector))
                log_info(
                        "no process publishes a trace context yet; `--all` would profile %zu processes; --pid, --comm, "
                        "--unit and others choose some: see `spanprof targets`",
                        n_all);
        else
                log_info("no process matches yet; `--all` would profile %zu processes", n_all);
}

/* A reload says what has changed since. */
static void look_at_kernel(Daemon *daemon) {
        DaemonTotals *totals = daemon->totals;
        KernelFiles files;

        kernel_files_look(&files, daemon->config->sampling.kernel_stacks);
        kernel_files_log(&files, totals->has_files ? &totals->files : NULL);
        totals->files = files;
        totals->has_files = true;
}

/* A capability is worth nothing where a sandbox covers what it opens: the log does not say `all` then. */
static void log_start(Daemon *daemon) {
        struct utsname name;
        char lost[512];
        bool whole;

        uname(&name);
        machine_lost_features(lost, sizeof(lost));
        whole = !*lost && kernel_files_are_read(&daemon->totals->files);
        log_info("spanprof %s on Linux %s with BTF%s: %u CPUs at %" PRIu64 " Hz, BPF maps take %zu KiB",
                 SPANPROF_VERSION, name.release, whole ? " and all capabilities" : "", daemon->window.n_cpus,
                 daemon->config->sampling.frequency, sampler_map_bytes(daemon->stages.sampler) >> 10);
        if (*lost)
                log_write_event(LOG_LEVEL_NOTICE, LOG_EVENT_CAPABILITIES_MISSING, "capabilities",
                                "capabilities that are missing, and what that costs: %s", lost);
        log_targets(daemon);
        if (!daemon->sink)
                log_write_event(LOG_LEVEL_INFO, LOG_EVENT_READY, "start", "profiles go to %s",
                                daemon->config->delivery.shown_url);
}

static int start_sampling(Daemon *daemon) {
        DaemonWalks *walks = &daemon->walks;
        int r = daemon->config->waits.off_cpu ? early_waits_note(&walks->early, &walks->stages) : 0;

        if (r)
                return error_fold(r);
        r = sampler_start(daemon->stages.sampler);
        if (r)
                return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
        daemon->sampling_ns = daemon->window.start_ns = clock_monotonic_ns();
        targets_begin_cpu_time(daemon->stages.targets);
        daemon->window.n_entries = sampler_entries(daemon->stages.sampler);
        daemon->window.programmed = sampler_programmed(daemon->stages.sampler);
        daemon->window.n_cpus = sampler_n_cpus(daemon->stages.sampler);
        daemon->window.n_boosted = stat_get(COUNTER_BOOST_TICKS);
        return 0;
}

/* ---- what control asks ---- */

static const char *unready(const Daemon *daemon, uint64_t now_ns) {
        if (daemon->stop.time_ns)
                return "stopping";
        if (now_ns - daemon->loop.drained_ns > CURRENT_NS)
                return "the rings of the kernel half are read late: mappings are not current";
        return !daemon->pause.is_on && !sampler_n_cpus(daemon->stages.sampler) ? "no CPU has a sampling timer"
                                                                               : NULL;
}

static void read_metrics(void *userdata, Metrics *metrics) {
        uint64_t now_ns = clock_monotonic_ns();
        Daemon *daemon = userdata;

        *metrics = (Metrics){
                .pid = (uint32_t)getpid(),
                .age_ns = now_ns - daemon->totals->start_ns,
                .frequency = daemon_frequency(daemon),
                .nominal_frequency = daemon->limits.governor.nominal,
                .pause = daemon_pause_reason(daemon),
                .waits_lack = daemon_waits_lack(daemon),
                .wait_limit = daemon->limits.switches.step,
                .unready = unready(daemon, now_ns),
                .exported_ns = daemon->totals->exported_ns ? now_ns - daemon->totals->exported_ns
                                                           : UINT64_MAX,
                .url = daemon->config->delivery.shown_url,
                .coverage = daemon->coverage,
                .has_exemplars = strcmp(daemon->config->form.links, "off") != 0,
                .config = daemon->config,
                .files = daemon->totals->has_files ? &daemon->totals->files : NULL,
        };
        metrics->boosts = &daemon->limits.boosts;
        metrics->tick_frequency = daemon_tick_frequency(daemon);
        metrics->is_held = daemon->limits.governor.holds_more;
        stages_describe(daemon, metrics);
        self_read(&metrics->self);
}

static int pause_by_command(void *userdata, bool paused, const char **reasonp) {
        Daemon *daemon = userdata;
        int r = daemon_pause_by_command(daemon, paused);

        *reasonp = daemon_pause_reason(daemon);
        return r;
}

static int show_recorder(void *userdata, bool is_post, const char *path, Text *page, const char **typep) {
        return daemon_recorder_page(userdata, is_post, path, page, typep);
}

static int show_watch(void *userdata, ControlForm form, Text *page) {
        static void (*const prints[CONTROL_N_FORMS])(const Watch *, Text *) = {
                [CONTROL_TEXT] = watch_print,
                [CONTROL_JSON] = watch_print_json,
                [CONTROL_HTML] = watch_print_page,
        };
        const Daemon *daemon = userdata;

        if (!daemon->totals->watch) {
                text_printf(page, "no builds are watched: set watch-builds = 30m\n");
                return 404;
        }
        prints[form](daemon->totals->watch, page);
        return 200;
}

static int boost(void *userdata, const char *path, Text *page) {
        return daemon_boost(userdata, path, page);
}

/*
 * A daemon with a sink works for its own process: it tells no service manager, and has no control socket.
 */
static int open_to_others(Daemon *daemon) {
        const ControlDaemon asked = { read_metrics, pause_by_command, show_recorder, show_watch, boost,
                                      &daemon->keeps.tokens, daemon };
        int r = daemon->sink ? 0
                             : control_new(&daemon->control, daemon->loop.event, daemon->config,
                                           daemon->totals->servers, &asked);

        if (r)
                return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
        stat_add(COUNTER_RELOADS, daemon->totals->is_reload);
        look_at_kernel(daemon);
        log_start(daemon);
        if (!daemon->sink)
                sd_notify(0, "READY=1");
        return 0;
}

static int check_pids(const Daemon *daemon) {
        uint32_t missing = targets_missing_pid(daemon->stages.targets);
        size_t n_excluded = targets_n_excluded_pids(daemon->stages.targets);

        if (missing) {
                log_error("there is no process %u", missing);
                return DAEMON_E_NO_TARGET;
        }
        if (!n_excluded)
                return 0;
        if (n_excluded == daemon->selector->n_pids && daemon_has_pids_alone(daemon)) {
                log_error("nothing is left to profile: --exclude takes away every process of --pid");
                return DAEMON_E_NO_TARGET;
        }
        log_notice("--exclude takes away %zu of %zu processes of --pid", n_excluded,
                   daemon->selector->n_pids);
        return 0;
}

/*
 * The watchers start before the scan of /proc, so that no process is missed in between. Then rows are set for
 * all targets that were found.
 */
static int start(Daemon *daemon) {
        uint64_t next_ns;
        int r;

        daemon_make_governor(daemon);
        r = daemon_check_disabled(daemon);
        if (!r)
                r = sampler_watch(daemon->stages.sampler);
        if (r)
                return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
        r = targets_scan(daemon->stages.targets);
        if (!r)         /* rings that lie where most do are found in the first go */
                r = targets_work(daemon->stages.targets, clock_monotonic_ns(), &next_ns);
        if (r)
                return error_fold(r);
        r = check_pids(daemon);
        if (!r)
                r = daemon_prepare_tables(daemon);
        if (!r)
                r = start_sampling(daemon);
        if (r)
                return r;
        r = open_to_others(daemon);
        if (r)
                return r;
        daemon->loop.drained_ns = clock_monotonic_ns();
        r = daemon_add_timers(daemon);
        if (!r && daemon->sink && daemon->sink->started)
                r = daemon->sink->started(daemon->sink->userdata);
        return error_fold(r);
}

void daemon_expect(Daemon *daemon, const char *name) {
        runtimes_expect(daemon->stages.runtimes, name);
}

sd_event *daemon_loop(Daemon *daemon) {
        return daemon->loop.event;
}

const StopSignals *daemon_stop_signals(const Daemon *daemon) {
        return &daemon->stop.signals;
}

size_t daemon_n_targets(const Daemon *daemon) {
        return targets_count(daemon->stages.targets);
}

typedef struct Noted {
        Naming *naming;
        int r;
} Noted;

static void note_process(void *userdata, const Process *process, SelectorReason reason) {
        Noted *noted = userdata;

        if (!noted->r)
                noted->r = naming_note(noted->naming, process);
}

int daemon_name_late(Daemon *daemon, Window *window, uint32_t *n_namedp) {
        Noted noted = { .naming = daemon->stages.naming };

        targets_each(daemon->stages.targets, note_process, &noted);
        if (noted.r)
                return error_fold(noted.r);
        return naming_late(daemon->stages.naming, window, clock_monotonic_ns() + LATE_NAMES_NS, n_namedp);
}

void daemon_each_target(const Daemon *daemon,
                        void (*visit)(void *userdata, const Process *process, SelectorReason reason),
                        void *userdata) {
        targets_each(daemon->stages.targets, visit, userdata);
}

static uint64_t since_start(const Daemon *daemon, uint64_t time_ns) {
        return time_ns ? time_ns - daemon->totals->start_ns : 0;
}

static void add_up(Daemon *daemon) {
        DaemonTotals *totals = daemon->totals;

        totals->duration_ns += daemon->stop.time_ns - daemon->sampling_ns;
        totals->target_cpu_ns += daemon->target_cpu_ns;
        totals->sampler_entries += sampler_entries(daemon->stages.sampler);
        totals->programmed += daemon->window.sampled;
}

void daemon_summarize(const Daemon *daemon, Summary *summary) {
        const DaemonTotals *totals = daemon->totals;

        CoverageClock now;

        coverage_clock_read(&now);
        *summary = (Summary){
                .stolen = coverage_stolen(&totals->clock, &now),
                .duration_ns = totals->duration_ns,
                .frequency = (uint32_t)daemon->config->sampling.frequency,
                .n_cpus = daemon->window.n_cpus,
                .target_cpu_ns = totals->target_cpu_ns,
                .sampler_entries = totals->sampler_entries,
                .programmed = totals->programmed,
                .n_boosted = totals->n_boosted,
                .n_pending = stat_pending(),
                .first_sample_ns = since_start(daemon, totals->first_sample_ns),
                .first_delivery_ns = since_start(daemon, totals->first_delivery_ns),
                .map_bytes = sampler_map_bytes(daemon->stages.sampler) + tables_bytes(daemon->stages.tables),
                .exports = daemon->stages.exports_json.data,
        };
}

static int report(Daemon *daemon) {
        Summary summary;
        int r;

        daemon_summarize(daemon, &summary);
        summary_log(&summary);
        if (!*daemon->config->daemon.summary)
                return 0;
        r = summary_write(&summary, daemon->config->daemon.summary);
        if (!r)
                return 0;
        log_error("cannot write %s: %s", daemon->config->daemon.summary, outfile_problem(r));
        return DAEMON_E_SUMMARY;
}

void daemon_set_reload(Daemon *daemon, DaemonReload reload, void *userdata) {
        daemon->stop.reload = reload;
        daemon->stop.reload_userdata = userdata;
}

int daemon_run(Daemon *daemon) {
        int r = start(daemon), r_report;

        if (r)
                return r;
        r = sd_event_loop(daemon->loop.event);
        if (daemon->stages.exports) {
                exports_append_json(daemon->stages.exports, &daemon->stages.exports_json);
                exports_log(daemon->stages.exports);
        }
        daemon->stages.exports = exports_free(daemon->stages.exports);
        add_up(daemon);
        if (!daemon->stop.is_reload) {
                daemon->totals->recorder = daemon->stages.recorder = recorder_free(daemon->totals->recorder);
                daemon->totals->watch = watch_free(daemon->totals->watch);
        }
        if (r >= 0 && daemon->stop.is_reload)
                return DAEMON_E_RELOAD;
        r_report = report(daemon);
        return r < 0 ? r : r_report ?: daemon->stop.lost_workers ? DAEMON_E_WORKERS : 0;
}
