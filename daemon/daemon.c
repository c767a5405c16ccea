/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The event loop has few hands:
 *
 *     drain     each 100 ms while samples flow, 250 ms while none do (20 ms at the start): mappings, notices, samples
 *     window    0.5 s after the start, then each export interval: encode and hand over
 *     second    about once a second: jitter, counters, targets' housekeeping
 *     duration, SIGTERM, SIGINT: stop
 *
 * A stop takes the samplers off, drains what is in the rings, closes the last window and
 * gives the exporter `stop-timeout` to send it.
 */

#include "daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include "aggregate/aggregate.h"
#include "clock-watch.h"
#include "config-exporter.h"
#include "config-selector.h"
#include "export/exporter.h"
#include "frames/frames.h"
#include "otlp/encode.h"
#include "sample/decode.h"
#include "sample/rivals.h"
#include "sample/sampler.h"
#include "summary.h"
#include "target/targets.h"
#include "unwind/tables.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/log.h"
#include "util/stat.h"

#define DRAIN_FIRST_NS (20 * NS_PER_MS)         /* until the first sample, for a second at most */
enum { UNUSED_OBJECTS = 256 };          /* files that stay known though no target maps them: the next one may */

#define DRAIN_BUSY_NS (100 * NS_PER_MS)
#define DRAIN_IDLE_NS (250 * NS_PER_MS)
#define TABLES_STEP_BYTES 200000                /* of files, about 1 ms */
#define FIRST_WINDOW_NS (500 * NS_PER_MS)

struct Daemon {
        const Config *config;
        ConfigSelector selection;
        const Selector *selector;
        sd_event *event;
        sd_event_source *drain_timer, *window_timer, *second_timer, *work_timer;
        sd_event_source *tables_work, *tables_ready;
        ClockWatch *clock_watch;
        ObjectCache *objects;
        Targets *targets;
        Sampler *sampler;
        Rivals rivals;
        bool warned_of_rivals;
        Tables *tables;
        Frames *frames;
        Aggregator *aggregator;
        Exporter *exporter;
        uint64_t start_ns;              /* MONOTONIC, as all of these */
        uint64_t sampling_ns;           /* when the events were opened */
        uint64_t stop_ns;               /* 0 = still sampling */
        uint64_t target_cpu_ns;         /* of all targets until then */
        uint64_t window_start_ns;
        uint64_t window_entries;        /* of the sampler, when the window began */
        uint64_t first_sample_ns;
        uint64_t first_delivery_ns;
        uint32_t n_cpus;                /* sampled at the start */
};

/* ---- from the kernel half ---- */

static int on_sample(const void *data, size_t size, void *userdata) {
        Daemon *daemon = userdata;
        Process *process;
        Sample sample;
        int r;

        if (decode_sample(data, size, &sample)) {
                stat_add(COUNTER_LOST_MALFORMED, 1);
                return 0;
        }
        if (!daemon->first_sample_ns)
                daemon->first_sample_ns = clock_monotonic_ns();
        r = targets_admit(daemon->targets, sample.header, &process);
        if (r > 0) {
                stat_add(COUNTER_LOST_NOT_TARGET, 1);
                return 0;
        }
        if (r)
                return error_fold(r);
        return aggregator_add(daemon->aggregator, process, &sample);
}

static int on_notice(const void *data, size_t size, void *userdata) {
        Daemon *daemon = userdata;
        const struct abi_notice *notice;

        if (decode_notice(data, size, &notice)) {
                stat_add(COUNTER_NOTICES_MALFORMED, 1);
                return 0;
        }
        return targets_notice(daemon->targets, notice);
}

static int on_mapping(void *userdata, const SidebandRecord *record) {
        Daemon *daemon = userdata;

        switch (record->kind) {
        case SIDEBAND_MAPPING:
                return targets_mapping(daemon->targets, &record->mapping);
        case SIDEBAND_EXEC:
                return targets_exec_begins(daemon->targets, record->pid, record->time_ns);
        default:
                targets_resync(daemon->targets);
                return 0;
        }
}

static int on_mappings_end(void *userdata) {
        Daemon *daemon = userdata;

        return targets_flush_mappings(daemon->targets);
}

static int set_row(void *userdata, uint32_t tgid, const struct abi_process *row) {
        Daemon *daemon = userdata;

        return sampler_set_process(daemon->sampler, tgid, row);
}

static int remove_row(void *userdata, uint32_t tgid) {
        Daemon *daemon = userdata;

        tables_forget(daemon->tables, tgid);
        return sampler_remove_process(daemon->sampler, tgid);
}

/* ---- unwind tables: made in steps, while nothing else is due ---- */

static int on_mapped(void *userdata, const Process *process) {
        Daemon *daemon = userdata;
        int r = tables_process(daemon->tables, process);

        if (r)
                return error_fold(r);
        r = sd_event_source_set_enabled(daemon->tables_work, SD_EVENT_ON);
        return r < 0 ? error_origin(r) : 0;
}

static int step_tables(Daemon *daemon) {
        int r = tables_step(daemon->tables, TABLES_STEP_BYTES);

        if (r < 0)
                return error_fold(r);
        r = sd_event_source_set_enabled(daemon->tables_work, r == TABLES_E_AGAIN ? SD_EVENT_ON : SD_EVENT_OFF);
        return r < 0 ? error_origin(r) : 0;
}

static int on_tables_work(sd_event_source *source, void *userdata) {
        return step_tables(userdata);
}

static int on_tables_ready(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        return step_tables(userdata);
}

/* ---- windows ---- */

static int submit(const uint8_t *data, size_t size, uint64_t n_events, void *userdata) {
        Daemon *daemon = userdata;

        return exporter_submit(daemon->exporter, data, size, n_events);
}

/*
 * The mean time between two ticks of one CPU in the window that ends now: what a sample stands for. Jitter and a
 * lowered rate are in it, since entries are counted, those on idle CPUs too.
 */
static int64_t mean_period_ns(Daemon *daemon, uint64_t now_ns) {
        uint64_t entries = sampler_entries(daemon->sampler), n = entries - daemon->window_entries;
        uint64_t length_ns = now_ns - daemon->window_start_ns;

        daemon->window_entries = entries;
        if (!n)
                return (int64_t)(NS_PER_SEC / daemon->config->frequency);
        return (int64_t)(length_ns * daemon->n_cpus / n);
}

/* Closes the window and hands its requests to the exporter. */
static int close_window(Daemon *daemon) {
        OtlpOptions options = { .scope_version = SPANPROF_VERSION, .timestamps = daemon->config->timestamps };
        _cleanup_(window_freep) Window *window = NULL;
        uint64_t now_ns = clock_monotonic_ns(), n_lost = 0;
        int r;

        r = aggregator_rotate(daemon->aggregator, now_ns, mean_period_ns(daemon, now_ns), &window);
        if (r)
                return error_fold(r);
        daemon->window_start_ns = now_ns;
        stat_add(COUNTER_WINDOWS, 1);
        r = otlp_encode(window, &options, submit, daemon, &n_lost);
        stat_add(COUNTER_LOST_ENCODE, n_lost);
        return error_fold(r);
}

/* ---- other spanprofs ---- */

typedef struct Shared {
        const Rivals *rivals;
        const Process *first;           /* that a rival samples too */
        size_t n;
} Shared;

static void find_shared(void *userdata, const Process *process, SelectorReason reason) {
        Shared *shared = userdata;

        if (!rivals_sample(shared->rivals, process->pid, process->start_time_ns))
                return;
        if (!shared->first)
                shared->first = process;
        shared->n++;
}

/* Both sides say so, since each learns of the other by itself; again when they have met anew. */
static void warn_of_rivals(Daemon *daemon) {
        Shared shared = { .rivals = &daemon->rivals };

        rivals_refresh(&daemon->rivals);
        if (daemon->rivals.n)
                targets_each(daemon->targets, find_shared, &shared);
        if (shared.n && !daemon->warned_of_rivals)
                log_warning("another spanprof samples %zu of these processes too (pid %u, %s): they pay twice, and their "
                            "profiles are shipped twice", shared.n, shared.first->pid, shared.first->comm);
        daemon->warned_of_rivals = shared.n;
}

/* ---- the end ---- */

static void on_flushed(void *userdata) {
        Daemon *daemon = userdata;

        sd_event_exit(daemon->event, 0);
}

static void stop_timers(Daemon *daemon) {
        sd_event_source **timers[] = { &daemon->drain_timer, &daemon->window_timer, &daemon->second_timer,
                                       &daemon->work_timer };

        for (size_t i = 0; i < ARRAY_SIZE(timers); i++)
                *timers[i] = sd_event_source_disable_unref(*timers[i]);
}

/* Takes the last samples in and sends them; a second call does not wait for that any longer. */
static int stop(Daemon *daemon) {
        uint64_t n_samples, now_ns = clock_monotonic_ns();
        int r;

        if (daemon->stop_ns)
                return sd_event_exit(daemon->event, 0);
        daemon->stop_ns = now_ns;
        sd_notify(0, "STOPPING=1\nSTATUS=flushing the last window");
        stop_timers(daemon);
        sampler_stop(daemon->sampler);
        daemon->target_cpu_ns = targets_cpu_time(daemon->targets);
        r = sampler_drain(daemon->sampler, &n_samples);
        if (!r)
                r = sampler_read_counters(daemon->sampler);
        if (!r)
                r = close_window(daemon);
        if (r)
                return error_fold(r);
        return exporter_stop(daemon->exporter, now_ns + daemon->config->stop_timeout_ns, on_flushed, daemon);
}

static int on_stop_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        log_info("%s: %s", strsignal((int)info->ssi_signo), "stopping");
        return stop(userdata);
}

/* ---- timers ---- */

static int again(sd_event_source *source, uint64_t after_ns) {
        int r = sd_event_source_set_time_relative(source, after_ns / NS_PER_US);

        return r < 0 ? error_origin(r) : 0;
}

/* Only processes that were named were asked for, and all of them have exited. */
static bool is_done(Daemon *daemon) {
        return !selector_is_default(daemon->selector) && !selector_is_by_name(daemon->selector) && !targets_count(daemon->targets);
}

static uint64_t drain_interval_ns(const Daemon *daemon, uint64_t n_samples) {
        if (!daemon->first_sample_ns && clock_monotonic_ns() < daemon->start_ns + NS_PER_SEC)
                return DRAIN_FIRST_NS;
        return n_samples ? DRAIN_BUSY_NS : DRAIN_IDLE_NS;
}

static int on_drain(sd_event_source *source, uint64_t usec, void *userdata) {
        Daemon *daemon = userdata;
        uint64_t n_samples = 0;
        int r = sampler_drain(daemon->sampler, &n_samples);

        if (r)
                return error_fold(r);
        if (is_done(daemon)) {
                log_info("every process that was chosen has exited: stopping");
                return stop(daemon);
        }
        return again(source, drain_interval_ns(daemon, n_samples));
}

static int on_window(sd_event_source *source, uint64_t usec, void *userdata) {
        Daemon *daemon = userdata;
        int r = close_window(daemon);

        if (r)
                return error_fold(r);
        warn_of_rivals(daemon);
        sd_notifyf(0, "STATUS=%zu targets, %" PRIu64 " samples delivered, %" PRIu64 " lost",
                   targets_count(daemon->targets), stat_get(COUNTER_SAMPLES_DELIVERED), stat_lost());
        return again(source, daemon->config->export_interval_ns);
}

/* At random moments, 0.75 to 1.25 s apart, so that the jitter itself is in step with nothing. */
static int on_second(sd_event_source *source, uint64_t usec, void *userdata) {
        Daemon *daemon = userdata;
        int r = sampler_read_counters(daemon->sampler);

        if (!r)
                r = sampler_jitter(daemon->sampler);
        if (r)
                return error_fold(r);
        return again(source, (uint64_t)(750 + random() % 500) * NS_PER_MS);
}

static int on_work(sd_event_source *source, uint64_t usec, void *userdata) {
        uint64_t now_ns = clock_monotonic_ns(), next_ns = 0;
        Daemon *daemon = userdata;
        int r = targets_work(daemon->targets, now_ns, &next_ns);

        if (r)
                return error_fold(r);
        return again(source, next_ns > now_ns ? MIN(next_ns - now_ns, NS_PER_SEC) : 0);
}

static int on_duration(sd_event_source *source, uint64_t usec, void *userdata) {
        int r = sd_event_source_set_enabled(source, SD_EVENT_OFF);      /* a second stop() would not wait */

        return r < 0 ? error_origin(r) : stop(userdata);
}

static void on_clock_step(void *userdata) {
        Daemon *daemon = userdata;

        if (daemon->stop_ns)
                return;
        stat_add(COUNTER_CLOCK_STEPS, 1);
        log_notice("the clock was set: this window of profiles ends early");
        if (close_window(daemon) < 0)
                sd_event_exit(daemon->event, -ENOMEM);
}

/* Runs after each turn of the loop, until the first batch has been accepted. */
static int on_turn(sd_event_source *source, void *userdata) {
        Daemon *daemon = userdata;

        if (!stat_get(COUNTER_SAMPLES_DELIVERED))
                return 0;
        daemon->first_delivery_ns = clock_monotonic_ns();
        return sd_event_source_set_enabled(source, SD_EVENT_OFF);
}

/* ---- making it ---- */

static int add_timer(Daemon *daemon, sd_event_source **sourcep, uint64_t after_ns, sd_event_time_handler_t handler) {
        _cleanup_(sd_event_source_unrefp) sd_event_source *source = NULL;
        int r;

        r = sd_event_add_time_relative(daemon->event, &source, CLOCK_MONOTONIC, after_ns / NS_PER_US, NS_PER_MS / NS_PER_US,
                                       handler, daemon);
        if (r >= 0)
                r = sd_event_source_set_enabled(source, SD_EVENT_ON);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(source, true);
        if (r >= 0 && !sourcep)
                r = sd_event_source_set_floating(source, true);
        if (r < 0)
                return error_origin(r);
        if (sourcep)
                *sourcep = take(source);
        return 0;
}

static int add_timers(Daemon *daemon) {
        int r = add_timer(daemon, &daemon->drain_timer, DRAIN_FIRST_NS, on_drain);

        if (!r)
                r = add_timer(daemon, &daemon->window_timer, FIRST_WINDOW_NS, on_window);
        if (!r)
                r = add_timer(daemon, &daemon->second_timer, NS_PER_SEC, on_second);
        if (!r)
                r = add_timer(daemon, &daemon->work_timer, 0, on_work);
        if (!r && daemon->config->duration_ns)
                r = add_timer(daemon, NULL, daemon->config->duration_ns, on_duration);
        return error_fold(r);
}

static int add_signals(Daemon *daemon) {
        static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
        sigset_t set;
        int r;

        sigemptyset(&set);
        for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
                sigaddset(&set, signals[i]);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return error_origin(-errno);
        for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
                r = sd_event_add_signal(daemon->event, NULL, signals[i], on_stop_signal, daemon);
                if (r < 0)
                        return error_origin(r);
        }
        return 0;
}

static int make_loop(Daemon *daemon) {
        sd_event_source *turn;
        int r = sd_event_new(&daemon->event);

        if (r >= 0)
                r = sd_event_set_watchdog(daemon->event, true);
        if (r >= 0)
                r = sd_event_add_post(daemon->event, &turn, on_turn, daemon);
        if (r >= 0)
                r = sd_event_source_set_floating(turn, true);
        if (r < 0)
                return error_origin(r);
        sd_event_source_unref(turn);
        r = add_signals(daemon);
        if (!r)
                r = clock_watch_new(&daemon->clock_watch, daemon->event, on_clock_step, daemon);
        return error_fold(r);
}

static int make_exporter(Daemon *daemon) {
        const Config *config = daemon->config;
        ExporterConfig exporter = config_exporter(config, config->profiles_url);
        int r = exporter_new(&daemon->exporter, daemon->event, &exporter);

        return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
}

static int make_sampler(Daemon *daemon) {
        const Config *config = daemon->config;
        SamplerConfig sampler = {
                .frequency = (uint32_t)config->frequency,
                .depth = (uint32_t)config->depth,
                .kernel_stacks = config->kernel_stacks,
                .jitter = config->jitter,
                .default_state = selector_is_by_name(daemon->selector) ? ABI_STATE_UNDECIDED : ABI_STATE_REJECTED,
                .watch_strangers = true,        /* a chosen target may start to publish later, too */
                .self_tgid = (uint32_t)getpid(),
                .btf_path = getenv("SPANPROF_BTF"),
        };
        int r = sampler_new(&daemon->sampler, &sampler);

        if (r)
                return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
        rivals_init(&daemon->rivals, sampler_processes_fd(daemon->sampler));
        sampler_set_callbacks(daemon->sampler, on_sample, on_notice, daemon);
        sampler_set_sideband(daemon->sampler, on_mapping, on_mappings_end);
        return 0;
}

static int refresh(void *userdata, Process *process) {
        Daemon *daemon = userdata;

        return targets_refresh(daemon->targets, process);
}

static int make_frames(Daemon *daemon) {
        int r = frames_new(&daemon->frames);

        if (r)
                return error_fold(r);
        frames_set_refresh(daemon->frames, refresh, daemon);
        return 0;
}

/* Its work has the lowest priority: samples, windows and the exporter go first. */
static int make_tables(Daemon *daemon) {
        TablesConfig tables = {
                .array_fd = sampler_row_tables_fd(daemon->sampler),
                .nodes_fd = sampler_row_nodes_fd(daemon->sampler),
        };
        int r = tables_new(&daemon->tables, &tables);

        if (r)
                return error_fold(r);
        r = sd_event_add_defer(daemon->event, &daemon->tables_work, on_tables_work, daemon);
        if (r >= 0)
                r = sd_event_source_set_enabled(daemon->tables_work, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_source_set_priority(daemon->tables_work, SD_EVENT_PRIORITY_IDLE);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(daemon->tables_work, true);
        if (r >= 0)
                r = sd_event_add_io(daemon->event, &daemon->tables_ready, tables_fd(daemon->tables), EPOLLIN, on_tables_ready,
                                    daemon);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(daemon->tables_ready, true);
        return r < 0 ? error_origin(r) : 0;
}

static int make_targets(Daemon *daemon) {
        TargetsConfig targets = {
                .selector = daemon->selector,
                .environment = daemon->config->target_environment,
                .callbacks = { .row_set = set_row, .row_remove = remove_row, .mapped = on_mapped, .userdata = daemon },
        };
        int r = object_cache_new(&daemon->objects, UNUSED_OBJECTS);

        if (r)
                return error_fold(r);
        targets.objects = daemon->objects;
        return error_fold(targets_new(&daemon->targets, &targets));
}

int daemon_new(Daemon **daemonp, const Config *config) {
        _cleanup_(daemon_freep) Daemon *daemon = calloc(1, sizeof(*daemon));
        int r;

        if (!daemon)
                return error_origin(-ENOMEM);
        daemon->config = config;
        daemon->start_ns = clock_monotonic_ns();
        r = config_selector_init(&daemon->selection, config);
        daemon->selector = &daemon->selection.selector;
        if (!r)
                r = make_loop(daemon);
        if (!r)
                r = make_exporter(daemon);
        if (!r)
                r = make_sampler(daemon);
        if (!r)
                r = make_tables(daemon);
        if (!r)
                r = make_targets(daemon);
        if (!r)
                r = make_frames(daemon);
        if (!r)
                r = aggregator_new(&daemon->aggregator, daemon->frames, clock_monotonic_ns());
        if (r)
                return r;
        *daemonp = take(daemon);
        return 0;
}

Daemon *daemon_free(Daemon *daemon) {
        if (!daemon)
                return NULL;
        stop_timers(daemon);
        exporter_free(daemon->exporter);
        aggregator_free(daemon->aggregator);
        frames_free(daemon->frames);
        targets_free(daemon->targets);
        sd_event_source_disable_unref(daemon->tables_work);
        sd_event_source_disable_unref(daemon->tables_ready);
        tables_free(daemon->tables);
        sampler_free(daemon->sampler);
        object_cache_free(daemon->objects);
        clock_watch_free(daemon->clock_watch);
        sd_event_unref(daemon->event);
        config_selector_deinit(&daemon->selection);
        free(daemon);
        return NULL;
}

/* ---- running ---- */

static void log_targets(Daemon *daemon) {
        size_t n = targets_count(daemon->targets), n_all = targets_count_all(daemon->targets);

        if (n)
                log_info("profiling %zu process%s of %zu", n, n == 1 ? "" : "es", n_all);
        else if (selector_is_default(daemon->selector))
                log_info("no process publishes a trace context yet; `--all` would profile %zu processes; --pid, --comm, "
                         "--unit and others choose some: see `spanprof targets`", n_all);
        else
                log_info("no process matches yet; `--all` would profile %zu processes", n_all);
}

static void log_start(Daemon *daemon) {
        struct utsname name;

        uname(&name);
        log_info("spanprof %s on Linux %s: %u CPUs at %" PRIu64 " Hz, BPF maps take %zu KiB", SPANPROF_VERSION, name.release,
                 daemon->n_cpus, daemon->config->frequency, sampler_map_bytes(daemon->sampler) >> 10);
        log_targets(daemon);
        log_info("profiles go to %s", daemon->config->profiles_url);
}

/* Watchers first, then the pass over /proc, so that no process falls in between. */
static int start(Daemon *daemon) {
        uint64_t next_ns;
        int r;

        daemon->sampling_ns = daemon->window_start_ns = clock_monotonic_ns();
        r = sampler_start(daemon->sampler);

        if (r)
                return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
        daemon->window_entries = sampler_entries(daemon->sampler);
        daemon->n_cpus = sampler_n_cpus(daemon->sampler);
        r = targets_scan(daemon->targets);
        if (!r)         /* rings that lie where most do are found in the first go */
                r = targets_work(daemon->targets, clock_monotonic_ns(), &next_ns);
        if (r)
                return error_fold(r);
        if (targets_missing_pid(daemon->targets)) {
                log_error("there is no process %u", targets_missing_pid(daemon->targets));
                return DAEMON_E_NO_TARGET;
        }
        log_start(daemon);
        r = add_timers(daemon);
        if (r)
                return error_fold(r);
        sd_notify(0, "READY=1");
        return 0;
}

static uint64_t since_start(const Daemon *daemon, uint64_t time_ns) {
        return time_ns ? time_ns - daemon->start_ns : 0;
}

static int report(Daemon *daemon) {
        Summary summary = {
                .duration_ns = daemon->stop_ns - daemon->sampling_ns,
                .frequency = (uint32_t)daemon->config->frequency,
                .n_cpus = daemon->n_cpus,
                .target_cpu_ns = daemon->target_cpu_ns,
                .sampler_entries = sampler_entries(daemon->sampler),
                .programmed = sampler_programmed(daemon->sampler),
                .n_pending = stat_get(COUNTER_TICKS) - stat_get(COUNTER_SAMPLES_DELIVERED) - stat_lost(),
                .first_sample_ns = since_start(daemon, daemon->first_sample_ns),
                .first_delivery_ns = since_start(daemon, daemon->first_delivery_ns),
                .map_bytes = sampler_map_bytes(daemon->sampler),
        };
        int r;

        summary_log(&summary);
        if (!*daemon->config->summary)
                return 0;
        r = summary_write(&summary, daemon->config->summary);
        if (r)
                log_error("cannot write %s: %s", daemon->config->summary, strerror(-r));
        return r;
}

int daemon_run(Daemon *daemon) {
        int r = start(daemon), r_report;

        if (r)
                return r;
        r = sd_event_loop(daemon->event);
        daemon->exporter = exporter_free(daemon->exporter);
        r_report = report(daemon);
        return r < 0 ? r : r_report;
}
