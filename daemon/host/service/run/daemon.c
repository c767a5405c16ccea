/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes every stage and starts them in their order, logs what was found at the start, and reports at the end.
 * daemon-stages.c has the flow between the stages, daemon-window.c what leaves them, daemon-loop.c its times,
 * daemon-govern.c its limits.
 */

#include "host/service/run/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/utsname.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "core/base/file/outfile.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/runtime/go/go-runtime.h"
#include "host/runtime/hotspot/hotspot-runtime.h"
#include "host/runtime/jvm/other-jvm.h"
#include "host/runtime/python/python-runtime.h"
#include "host/sampling/aggregate/wait-reason.h"
#include "host/sampling/sample/machine.h"
#include "host/service/config/backend.h"
#include "host/service/control/control.h"
#include "host/service/control/self.h"
#include "host/service/control/summary.h"
#include "host/service/run/daemon-deferred.h"
#include "host/service/run/daemon-goroutines.h"
#include "host/service/run/daemon-govern.h"
#include "host/service/run/daemon-long-waits.h"
#include "host/service/run/daemon-loop.h"
#include "host/service/run/daemon-stages.h"
#include "host/service/run/daemon-threads.h"
#include "host/service/run/symbol-fetch.h"
#include "host/service/run/symbol-upload.h"

/* Files that stay known though no target maps them: the next target may. */
enum {
        UNUSED_OBJECTS = 256,
        /* of stack copies, each CPU: 1,000 small or 400 large ones; at 199 Hz never all of it */
        STACK_BYTES_PER_SECOND = 4 << 20,
        START_WAIT_SAMPLES = 9,
};

/*
 * Most programs of a settled name are gone at this age. Those that publish have none (settled-names.h), so
 * nothing that the search would find is missed by waiting.
 */
#define START_WAIT_NS (90 * NS_PER_MS)

/*
 * Mappings are read with each drain (250 ms at most), counters once a second: older values are not current.
 */
#define CURRENT_NS (5 * NS_PER_SEC)
#define LATE_NAMES_NS (2 * NS_PER_SEC)          /* at most, for what targets said of their code at the end */

/* ---- making it ---- */

static int on_tables_work(sd_event_source *source, void *userdata) {
        return daemon_step_tables(userdata);
}

static int on_tables_ready(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        return daemon_step_tables(userdata);
}

static int make_exporter(Daemon *daemon) {
        const Config *config = daemon->config;
        int r = daemon->sink ? 0 : exports_new(&daemon->stages.exports, daemon->loop.event, config);

        return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
}

/* The kernel half knows users by their ids in the first user namespace. */
static enum abi_names names_of(const Daemon *daemon) {
        enum abi_names names = selector_names(daemon->selector);

        return names == ABI_NAMES_COMM_USER && !machine_has_all_users() ? ABI_NAMES_NONE : names;
}

static int make_uploads(Daemon *daemon) {
        int r = daemon->sink ? 0 : symbol_upload_new(&daemon->stages.uploads, daemon->config,
                                                     daemon->totals->zygotes);

        if (!r && !daemon->sink)
                r = symbol_fetch_new(&daemon->stages.fetcher, daemon->config, daemon->totals->zygotes);
        return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
}

/*
 * Whether new processes say who they are with their first sample, so that it can wait. Waits are counted of
 * processes with a row alone, and each selector but --all may need what only a living process tells.
 */
static enum abi_starts starts_of(const Daemon *daemon) {
        if (!selector_is_all_alone(daemon->selector) || daemon->config->waits.off_cpu)
                return ABI_STARTS_NONE;
        return daemon->config->targets.environment ? ABI_STARTS_TEXTS : ABI_STARTS_GROUPS;
}

static int make_sampler(Daemon *daemon) {
        const Config *config = daemon->config;
        uint64_t file_calls[WAIT_FILE_CALLS_WORDS];
        SamplerConfig sampler = {
                .frequency = (uint32_t)config->sampling.frequency,
                .depth = (uint32_t)config->sampling.depth,
                .kernel_stacks = config->sampling.kernel_stacks,
                .jitter = config->sampling.jitter,
                .default_state = selector_is_by_name(daemon->selector) ? ABI_STATE_UNDECIDED
                                                                       : ABI_STATE_REJECTED,
                .names = names_of(daemon),
                .watch_targets = true, /* a chosen target may start to publish later, too */
                .watch_non_targets = selector_takes_publishers(daemon->selector),
                /* under --all a program is read at its first sample */
                .names_choose = selector_is_by_name(daemon->selector) && !daemon->selector->all,
                .starts = starts_of(daemon),
                /* each sample that waits is walked here, which costs more than a row after some of them */
                .start_wait_ns = MIN(START_WAIT_NS,
                                     START_WAIT_SAMPLES * NS_PER_SEC / (uint64_t)config->sampling.frequency),
                .self_tgid = (uint32_t)getpid(),
                .helper_comm = daemon->totals->zygotes ? ZYGOTE_COMM : NULL,
                .opener = daemon->totals->opener,
                .btf_path = getenv("SPANPROF_BTF"),
                .stack_bytes = STACK_BYTES_PER_SECOND,
                .waits = config->waits.off_cpu,
                .wait_walks = (uint32_t)config->waits.walks,
                .wait_long_ns = config->waits.long_wait_ns,
                .wait_file_calls = file_calls,
        };
        int r;

        wait_file_calls(file_calls);
        r = sampler_new(&daemon->stages.sampler, &sampler);
        if (r)
                return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
        other_profilers_init(&daemon->stages.other_profilers, sampler_processes_fd(daemon->stages.sampler));
        sampler_set_callbacks(daemon->stages.sampler, daemon_on_sample, daemon_on_notice, daemon);
        sampler_set_sideband(daemon->stages.sampler, daemon_on_mapping, daemon_on_mappings_end);
        sampler_set_stacks(daemon->stages.sampler, daemon_on_kept);
        sampler_set_waits(daemon->stages.sampler, daemon_on_wait, daemon_on_wait_sum);
        return 0;
}

static int refresh(void *userdata, Process *process) {
        Daemon *daemon = userdata;

        return targets_refresh(daemon->stages.targets, process);
}

static int see(void *userdata, const Process *process, const Mapping *mapping) {
        return uploads_see(userdata, process, mapping);
}

static int make_frames(Daemon *daemon) {
        NamingConfig config = { .see = daemon->stages.uploads ? see : NULL,
                                      .userdata = daemon->stages.uploads,
                                      .objects = backend_wants_names(daemon->config),
                                      .code = daemon->config->names.jit_symbols,
                                      .late = daemon->sink,
                                      .zygotes = daemon->totals->zygotes };
        FramesNaming hooks;
        int r = frames_new(&daemon->stages.frames);

        if (daemon->stages.fetcher)
                config.remote = debug_fetcher_remote(daemon->stages.fetcher);
        if (!r)
                r = naming_new(&daemon->stages.naming, &config);
        if (r)
                return error_fold(r);
        frames_set_refresh(daemon->stages.frames, refresh, daemon);
        hooks = naming_hooks(daemon->stages.naming);
        frames_set_naming(daemon->stages.frames, &hooks);
        return 0;
}

static enum runtimes_walk want_runtimes(void *userdata, const RuntimeOps *ops) {
        Daemon *daemon = userdata;

        sampler_add_runtime(daemon->stages.sampler, ops->bit);
        switch (sampler_want_runtimes(daemon->stages.sampler)) {
        case RUNTIME_WALK_ON:
                return RUNTIMES_WALK_ON;
        case RUNTIME_WALK_REFUSED:
                return RUNTIMES_WALK_REFUSED;
        default:
                return RUNTIMES_WALK_LOADING;
        }
}

/* Here and nowhere else is said which runtimes there are. */
static int make_runtimes(Daemon *daemon) {
        DaemonStages *stages = &daemon->stages;
        int r = runtimes_new(&stages->runtimes, want_runtimes, daemon);

        if (!r && daemon->config->sampling.java_signatures)
                runtimes_show_signatures(stages->runtimes);
        if (!r && daemon->totals->zygotes)
                r = reader_links_new(&stages->readers, daemon->totals->zygotes);
        if (!r && stages->readers)
                r = hotspot_links_new(&stages->jvms, stages->readers);
        if (!r && stages->readers)
                r = python_links_new(&stages->pythons, stages->readers);
        if (!r && config_has_runtime(daemon->config, hotspot_runtime.name))
                r = runtimes_register(stages->runtimes, &hotspot_runtime,
                                      sampler_hotspot_fd(stages->sampler), stages->jvms);
        if (!r && config_has_runtime(daemon->config, go_runtime.name))
                r = runtimes_register(stages->runtimes, &go_runtime, sampler_go_fd(stages->sampler),
                                      daemon->config->sampling.goroutines ? daemon : NULL);
        if (!r && config_has_runtime(daemon->config, python_runtime.name))
                r = runtimes_register(stages->runtimes, &python_runtime, sampler_python_fd(stages->sampler),
                                      stages->pythons);
        if (!r && config_has_runtime(daemon->config, other_jvm_runtime.name))
                r = runtimes_register(stages->runtimes, &other_jvm_runtime, -1, NULL);
        if (!r)
                frames_set_runtimes(stages->frames, stages->runtimes);
        return error_fold(r);
}

/* Table jobs have the lowest priority: samples, windows and the exporter go first. */
static int make_tables(Daemon *daemon) {
        TablesConfig tables = {
                .array_fd = sampler_row_tables_fd(daemon->stages.sampler),
                .nodes_fd = sampler_row_nodes_fd(daemon->stages.sampler),
                .versionp = sampler_rows_version(daemon->stages.sampler),
                .zygotes = daemon->totals->zygotes,
        };
        int r = tables_new(&daemon->stages.tables, &tables);

        if (r)
                return error_fold(r);
        r = sd_event_add_defer(daemon->loop.event, &daemon->loop.tables_work, on_tables_work, daemon);
        if (r >= 0)
                r = sd_event_source_set_enabled(daemon->loop.tables_work, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_source_set_priority(daemon->loop.tables_work, SD_EVENT_PRIORITY_IDLE);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(daemon->loop.tables_work, true);
        if (r >= 0)
                r = sd_event_add_io(daemon->loop.event, &daemon->loop.tables_ready,
                                    tables_fd(daemon->stages.tables), EPOLLIN, on_tables_ready, daemon);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(daemon->loop.tables_ready, true);
        return r < 0 ? error_origin(r) : 0;
}

static int on_threads_ready(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        return daemon_step_threads(userdata);
}

static int make_threads(Daemon *daemon) {
        int r = thread_reader_new(&daemon->stages.threads, daemon->totals->zygotes);

        if (r)
                return error_fold(r);
        object_cache_set_ask(daemon->stages.objects, thread_reader_ask, daemon->stages.threads);
        r = sd_event_add_io(daemon->loop.event, &daemon->loop.threads_ready,
                            thread_reader_fd(daemon->stages.threads), EPOLLIN, on_threads_ready, daemon);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(daemon->loop.threads_ready, true);
        return r < 0 ? error_origin(r) : 0;
}

static int make_targets(Daemon *daemon) {
        TargetsConfig targets = {
                .selector = daemon->selector,
                .environment = daemon->config->targets.environment,
                .names = names_of(daemon),
                .callbacks = { .row_set = daemon_set_row,
                               .row_remove = daemon_remove_row,
                               .adopt = daemon_adopt,
                               .mapped = daemon_on_mapped,
                               .looked = daemon_on_looked,
                               .waits = daemon_on_waits,
                               .stations = daemon_on_stations,
                               .reject_name = daemon_on_rejected_name,
                               .userdata = daemon },
        };
        int r = object_cache_new(&daemon->stages.objects, UNUSED_OBJECTS);

        if (r)
                return error_fold(r);
        if (starts_of(daemon))
                targets.callbacks.settle_name = daemon_on_settled_name;
        targets.objects = daemon->stages.objects;
        r = targets_new(&daemon->stages.targets, &targets);
        if (!r && daemon->totals->zygotes)
                r = make_threads(daemon);
        return error_fold(r);
}

static LabelHostId host_id_of(const Config *config) {
        if (!strcmp(config->resource.host_id, "machine"))
                return LABEL_HOST_MACHINE;
        return strcmp(config->resource.host_id, "none") ? LABEL_HOST_HASHED : LABEL_HOST_NONE;
}

/* What the configuration says of each resource. A sum over the fleet is to be divided by the share. */
static int read_own_attributes(Daemon *daemon) {
        const Config *config = daemon->config;
        _cleanup_(freep) char *text = NULL;
        size_t size = strcspn(config->sampling.hosts, "%");
        int r;

        if (asprintf(&text, "%s%s%.*s", config->resource.attributes,
                     size ? ",spanprof.hosts.percent=" : "", (int)size, config->sampling.hosts) < 0)
                return error_origin(-ENOMEM);
        r = environment_read_attributes(text, &daemon->own);
        return error_fold(r);
}

static int make_pods(Daemon *daemon) {
        const Config *config = daemon->config;
        const PodApiConfig api = { config->pods.url, config->pods.token, config->pods.certificate };
        PodLister lister = { .want = pod_api_want };
        int r = *config->pods.url ? pod_api_new(&daemon->pod_api, &api) : 0;

        if (r)
                return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
        lister.userdata = daemon->pod_api;
        if (!*config->pods.directory && !daemon->pod_api)
                return 0;
        return pod_names_new(&daemon->pods, config->pods.directory, daemon->pod_api ? &lister : NULL);
}

static int make_aggregator(Daemon *daemon) {
        const ConfigList *allow = &daemon->config->resource.allow, *deny = &daemon->config->resource.deny;
        AttributeFilter filter = { allow->items,
                                   deny->items,
                                   allow->n_items,
                                   deny->n_items,
                                   daemon->config->resource.coroutine_ids,
                                   host_id_of(daemon->config),
                                   &daemon->own,
                                   NULL };
        int r = read_own_attributes(daemon);

        if (!r && !daemon->sink)
                r = make_pods(daemon);
        filter.pods = daemon->pods;
        if (!r)
                r = aggregator_new(&daemon->stages.aggregator, daemon->stages.frames, clock_monotonic_ns());
        if (!r && daemon->config->waits.off_cpu && !daemon->sink)
                r = span_cpu_new(&daemon->stages.span_cpu, daemon->config->waits.span_operation);
        if (r)
                return r > 0 ? r : error_fold(r);
        aggregator_set_filter(daemon->stages.aggregator, &filter);
        return 0;
}

static int check_summary(const char *path) {
        int r = *path ? summary_check(path) : 0;

        if (!r)
                return 0;
        log_error("cannot write the summary %s: %s", path, outfile_problem(r));
        return DAEMON_E_UNUSABLE;
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
        r = config_selector_init(&daemon->selection, &config->targets);
        daemon->selector = &daemon->selection.selector;
        if (totals->zygotes) {
                daemon->selection.selector.is_ours = zygotes_is_ours;
                daemon->selection.selector.userdata = totals->zygotes;
        }
        if (!r)
                r = check_summary(config->daemon.summary);
        if (!r)
                r = daemon_make_loop(daemon);
        if (!r)
                r = make_exporter(daemon);
        if (!r)
                r = make_sampler(daemon);
        if (!r)
                r = make_tables(daemon);
        if (!r)
                r = deferred_new(&daemon->stages.deferred, daemon);
        if (!r && daemon->config->sampling.goroutines)
                r = goroutines_new(&daemon->stages.goroutines, daemon);
        if (!r)
                r = make_targets(daemon);
        if (!r)
                r = make_uploads(daemon);
        if (!r)
                r = make_frames(daemon);
        if (!r)
                r = make_runtimes(daemon);
        if (!r)
                r = coro_join_new(&daemon->stages.coroutines);
        if (!r)
                coro_join_set_suspended(daemon->stages.coroutines, daemon_on_suspended, daemon);
        if (!r)
                r = make_aggregator(daemon);
        if (r)
                return r;
        *daemonp = take(daemon);
        return 0;
}

Daemon *daemon_free(Daemon *daemon) {
        if (!daemon)
                return NULL;
        daemon_remove_timers(daemon);
        daemon_drop_early_waits(daemon);
        control_free(daemon->control);
        exports_free(daemon->stages.exports);
        text_deinit(&daemon->stages.exports_json);
        span_cpu_free(daemon->stages.span_cpu);
        aggregator_free(daemon->stages.aggregator);
        frames_free(daemon->stages.frames);
        naming_free(daemon->stages.naming);
        runtimes_free(daemon->stages.runtimes);
        hotspot_links_free(daemon->stages.jvms);
        python_links_free(daemon->stages.pythons);
        reader_links_free(daemon->stages.readers);
        uploads_free(daemon->stages.uploads);
        debug_fetcher_free(daemon->stages.fetcher);
        targets_free(daemon->stages.targets);
        coro_join_free(daemon->stages.coroutines);
        sd_event_source_disable_unref(daemon->loop.tables_work);
        sd_event_source_disable_unref(daemon->loop.tables_ready);
        daemon_drop_long_waits(daemon);
        deferred_free(daemon->stages.deferred);
        goroutines_free(daemon->stages.goroutines);
        tables_free(daemon->stages.tables);
        sampler_free(daemon->stages.sampler);
        sd_event_source_disable_unref(daemon->loop.threads_ready);
        thread_reader_free(daemon->stages.threads);
        object_cache_free(daemon->stages.objects);
        sd_event_source_disable_unref(daemon->loop.turn);
        clock_watch_free(daemon->loop.clock_watch);
        sd_event_unref(daemon->loop.event);
        config_selector_deinit(&daemon->selection);
        environment_deinit(&daemon->own);
        pod_names_free(daemon->pods);
        pod_api_free(daemon->pod_api);
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

/* A capability is worth nothing where a sandbox covers what it opens: then nobody reads of all of them. */
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
        int r = daemon->config->waits.off_cpu ? daemon_note_early_waits(daemon) : 0;

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
        DaemonStages *stages = &daemon->stages;

        if (!daemon->stop.time_ns)
                sampler_read_counters(stages->sampler);
        *metrics = (Metrics){
                .pid = (uint32_t)getpid(),
                .age_ns = now_ns - daemon->totals->start_ns,
                .frequency = daemon_frequency(daemon),
                .nominal_frequency = daemon->limits.governor.nominal,
                .n_cpus = sampler_n_cpus(stages->sampler),
                .pause = daemon_pause_reason(daemon),
                .waits_lack = daemon_waits_lack(daemon),
                .wait_limit = daemon->limits.switches.step,
                .unready = unready(daemon, now_ns),
                .n_targets = targets_count(stages->targets),
                .n_processes = targets_count_all(stages->targets),
                .queued_events = exports_queued_events(stages->exports),
                .queued_bytes = exports_queued_bytes(stages->exports),
                .unsaved_events = exports_unsaved_events(stages->exports),
                .lacking_spools = exports_lacking_spools(stages->exports),
                .exports = stages->exports,
                .exported_ns = daemon->totals->exported_ns ? now_ns - daemon->totals->exported_ns
                                                           : UINT64_MAX,
                .url = daemon->config->delivery.shown_url,
                .coverage = daemon->coverage,
                .naming = naming_state(stages->naming),
                .runtimes = stages->runtimes,
                .span_cpu = stages->span_cpu,
                .has_exemplars = strcmp(daemon->config->form.links, "off") != 0,
                .map_bytes = sampler_map_bytes(stages->sampler) + tables_bytes(stages->tables),
                .config = daemon->config,
                .files = daemon->totals->has_files ? &daemon->totals->files : NULL,
        };
        metrics->n_kernel_symbols = frames_kernel_symbols(stages->frames, &metrics->has_kernel_symbols);
        if (stages->uploads) {
                uploads_collect(stages->uploads);
                uploads_state(stages->uploads, &metrics->uploads);
                metrics->has_uploads = true;
        }
        if (stages->fetcher) {
                debug_fetcher_collect(stages->fetcher);
                debug_fetcher_state(stages->fetcher, &metrics->fetcher);
                metrics->has_fetcher = true;
        }
        self_read(&metrics->self);
}

static int pause_by_command(void *userdata, bool paused, const char **reasonp) {
        Daemon *daemon = userdata;
        int r = daemon_pause_by_command(daemon, paused);

        *reasonp = daemon_pause_reason(daemon);
        return r;
}

/*
 * A daemon with a sink works for its own process: it tells no service manager, and has no control socket.
 */
static int open_to_others(Daemon *daemon) {
        const ControlDaemon asked = { read_metrics, pause_by_command, daemon };
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
        totals->programmed += sampler_programmed(daemon->stages.sampler);
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
                .n_pending = stat_get(COUNTER_TICKS) - stat_get(COUNTER_SAMPLES_DELIVERED) - stat_lost(),
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
        if (r >= 0 && daemon->stop.is_reload)
                return DAEMON_E_RELOAD;
        r_report = report(daemon);
        return r < 0 ? r : r_report ?: daemon->stop.lost_workers ? DAEMON_E_WORKERS : 0;
}
