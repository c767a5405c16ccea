/* SPDX-License-Identifier: Apache-2.0 */

/*
 * When things happen: the timers of the loop, its sleep, the stop, and the reload.
 *
 * Timers
 *
 *     drain        reads the rings (mappings, then notices, then samples): each 250 ms while samples flow,
 *                  each 70 ms while something is new, after 20 ms until the first sample
 *     window       0.5 s after the start, up to 2 s later if names are on their way, then each export
 *                  interval: closes the window (daemon-window.c)
 *     second       every 0.75 to 1.25 s: draws a new period, reads counters, enforces limits
 *                  (daemon-govern.c). A fixed period would see work that repeats every 10 ms in lock-step.
 *     work         whenever a search for targets or the reading of long mappings has a next step
 *     duration     once
 *
 * Stages have timers of their own: stage-coroutines.c, stage-walks.c.
 *
 * How often the rings are read
 *
 * A drain wakes a thread whose memory has left the caches: that costs as much as some ten samples. So it
 * comes four times a second where samples can wait, and the timer of work goes off with it:
 *
 *     a stack was copied in the last second,    ─▶ 70 ms: rows are on their way. Copies of settled names
 *     and something called for it                  call nobody (bpf/walk/start.bpf.h): these can wait
 *     waits are recorded (--off-cpu)            ─▶ 70 ms
 *     the ring would be a quarter full          ─▶ 70 ms
 *     a boost lasts (daemon-govern.c)           ─▶ 20 ms
 *     a runtime is to be attached again         ─▶ then, in 70 to 250 ms
 *     else, calm                                ─▶ 250 ms
 *
 * The timer of a second stays alone. It draws new periods, which begins each CPU's ticks anew: at moments
 * that other programs' timers share, their work would never be sampled.
 *
 * Sleep
 *
 * A wake-up for each sample would cost more than the sample itself. So while records flow the kernel half
 * does not wake the loop, and the drain timer reads them in bulk. A drain that finds nothing puts the loop to
 * sleep:
 *
 *     drain finds nothing ─▶ asleep: timers at 450 ms with 550 ms of slack, so they expire together;
 *                            wake_source on; the kernel half is told
 *     first record        ─▶ the kernel half writes to the ring with a wake-up ─▶ drain after 20 ms ─▶ awake
 *
 * A loop that was woken twice within a second stays awake and looks each 250 ms instead. An awake loop can be
 * called (call_source): by the first sample of a target in memory where nothing is known to be. A library was
 * loaded then, and each sample is walked badly until its unwind rows are in force. At most one call is
 * answered between two drains. What is new of a target calls at once, asleep or awake: daemon-calls.c.
 *
 * Stop
 *
 * SIGTERM, SIGINT, the duration, or the exit of the last chosen process: the samplers are detached, the rings
 * drained, the last window closed, and the exporters get `stop-timeout` to send it. An impatient signal
 * (stop-signals.h) exits at once, and what is given up for that is said.
 *
 * Reload
 *
 * SIGHUP reads the configuration. If it is wrong, nothing changes. If it is good, this daemon stops as above,
 * daemon_run() returns DAEMON_E_RELOAD, and the caller makes a new daemon with it. So a reload applies every
 * option. The totals of the run are carried over. A SIGTERM that comes during the change is not lost: see
 * add_signals().
 */

#include "host/service/run/daemon-loop.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <systemd/sd-daemon.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/service/run/daemon-calls.h"
#include "host/service/run/daemon-flow.h"
#include "host/service/run/daemon-govern.h"
#include "host/service/run/daemon-window.h"
#include "host/service/run/stages.h"

#define DRAIN_FIRST_NS (20 * NS_PER_MS)         /* until the first sample, for a second at most */
/* the same, and 10 to 30 ms until a library is known and its rows are in force */
#define DRAIN_NEWS_NS (70 * NS_PER_MS)
#define DRAIN_BOOST_NS (20 * NS_PER_MS)         /* ten times the ticks have half of the ring */
#define DRAIN_CALM_NS (250 * NS_PER_MS)
#define DRAIN_DUE_NS (10 * NS_PER_MS)           /* at the least, where a runtime is to be tried again */
#define CALM_AFTER_NS NS_PER_SEC                /* without news */
#define DRAIN_WOKEN_NS (20 * NS_PER_MS)         /* the record that woke the loop is seldom alone */
/* any timer, while nothing flows; with the slack a second at most: */
#define ASLEEP_NS (450 * NS_PER_MS)
/* sd-event prefers whole seconds, so that they wake us up together */
#define ASLEEP_SLACK_NS (550 * NS_PER_MS)
#define FIRST_WINDOW_NS (500 * NS_PER_MS)
#define FIRST_NAMES_NS (2 * NS_PER_SEC)
#define FIRST_NAMES_STEP_NS (50 * NS_PER_MS)
/* before the end of a window: then names are asked for one by one, and a sleeping loop looks once at least */
#define NAMES_AHEAD_NS (1250 * NS_PER_MS)

/* ---- the end ---- */

static void on_flushed(void *userdata) {
        Daemon *daemon = userdata;

        sd_event_exit(daemon->loop.event, 0);
}

void daemon_remove_timers(Daemon *daemon) {
        DaemonLoop *loop = &daemon->loop;
        sd_event_source **timers[] = { &loop->drain_timer, &loop->window_timer, &loop->second_timer,
                                       &loop->work_timer,  &loop->wake_source,  &loop->call_source };

        for (size_t i = 0; i < ARRAY_SIZE(timers); i++)
                *timers[i] = sd_event_source_disable_unref(*timers[i]);
        daemon_remove_calls(daemon);
        stages_stop(daemon);
}

/* Drains the last samples and sends them. A second call exits without waiting for that. */
int daemon_stop(Daemon *daemon) {
        uint64_t now_ns = clock_monotonic_ns();
        int r;

        if (daemon->stop.time_ns)
                return sd_event_exit(daemon->loop.event, 0);
        daemon->stop.time_ns = now_ns;
        sd_notify(0, daemon->stop.is_reload ? "STATUS=reloading: flushing the last window" :
                                         "STOPPING=1\nSTATUS=flushing the last window");
        daemon_remove_timers(daemon);
        sampler_stop(daemon->stages.sampler);
        targets_cpu_time(daemon->stages.targets);      /* now, though the sum comes later */
        r = sampler_drain(daemon->stages.sampler, NULL);
        daemon->loop.drained_ns = now_ns;
        targets_noticed(daemon->stages.targets, UINT64_MAX);   /* nothing else will be told */
        /* with those whose exit was still in the ring */
        daemon->target_cpu_ns = targets_cpu_time_seen(daemon->stages.targets);
        if (!r)
                r = sampler_read_counters(daemon->stages.sampler);
        if (!r)
                r = stages_flush(daemon);
        if (!r)
                r = daemon_end_window(daemon);
        if (r)
                return error_fold(r);
        if (daemon->sink)
                return sd_event_exit(daemon->loop.event, 0);
        /* the time of stopping so far, more on a busy machine, is not taken from the time for sending */
        return exports_stop(daemon->stages.exports,
                            clock_monotonic_ns() + daemon->config->delivery.stop_timeout_ns, on_flushed,
                            daemon);
}

static int give_up(Daemon *daemon, int number) {
        log_warning("%s, once more: waits for no receiver any longer", strsignal(number));
        if (daemon->stages.exports)
                exports_give_up(daemon->stages.exports);
        return sd_event_exit(daemon->loop.event, 0);
}

/*
 * A daemon that already flushes (its duration is over, or it reloads) goes on with that at the first signal.
 */
static int on_stop_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        Daemon *daemon = userdata;
        DaemonStop *stop = &daemon->stop;
        int number = (int)info->ssi_signo, r;
        StopWish wish = stop_signals_take(&stop->signals, number, info->ssi_code, clock_monotonic_ns());

        if (wish != STOP_WISH_FIRST)
                return wish == STOP_WISH_IMPATIENT ? give_up(daemon, number) : 0;
        log_info("%s: %s", strsignal(number),
                 stop->time_ns ? "is stopping already; once more, a second later, and it ends at once"
                               : "stopping");
        stop->is_reload = false;
        if (stop->time_ns)
                return 0;
        r = daemon_stop(daemon);
        stop_signals_drop_pending();    /* the stop took a while, in which the daemon did not look */
        return r;
}

/* systemd takes the reload as done at the first READY=1 after this time. */
static void notify_reloading(void) {
        sd_notifyf(0, "RELOADING=1\nSTATUS=reading the configuration\nMONOTONIC_USEC=%" PRIu64,
                   clock_monotonic_ns() / NS_PER_US);
}

static int on_hangup(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        Daemon *daemon = userdata;

        if (!daemon->stop.reload)
                return on_stop_signal(source, info, userdata);
        if (daemon->stop.time_ns && !daemon->stop.is_reload)    /* on its way out already */
                return 0;
        notify_reloading();
        if (daemon->stop.time_ns) {     /* flushes for a reload: the next daemon has what is read now */
                daemon->stop.reload(daemon->stop.reload_userdata);
                return 0;
        }
        if (daemon->stop.reload(daemon->stop.reload_userdata)) {
                sd_notify(0, "READY=1\nSTATUS=the new configuration is wrong: the old one stays in force");
                return 0;
        }
        daemon->stop.is_reload = true;
        return daemon_stop(daemon);
}

/* ---- timers ---- */

int daemon_set_timer(sd_event_source *source, uint64_t after_ns) {
        int r = sd_event_source_set_time_relative(source, after_ns / NS_PER_US);

        return r < 0 ? error_origin(r) : 0;
}

static bool is_done(const Daemon *daemon) {
        return daemon_has_pids_alone(daemon) && !targets_count(daemon->stages.targets);
}

/* A daemon with rights parses no file of a target (docs/SECURITY.md): without workers it learns nothing. */
static bool has_lost_workers(const Daemon *daemon) {
        return daemon->totals->zygotes && !zygotes_is_there(daemon->totals->zygotes);
}

/* Woken twice within a second: to look from time to time costs less. */
static bool is_restless(const Daemon *daemon) {
        const DaemonLoop *loop = &daemon->loop;

        return loop->woken_before_ns && loop->woken_ns < loop->woken_before_ns + NS_PER_SEC &&
               clock_monotonic_ns() < loop->woken_ns + NS_PER_SEC;
}

/* @n_bytes were written to the ring of samples in @elapsed_ns: it would be a quarter full at a calm drain. */
static bool fills_up(const Daemon *daemon, uint64_t n_bytes, uint64_t elapsed_ns) {
        return n_bytes * (DRAIN_CALM_NS / NS_PER_MS) >
                sampler_ring_bytes(daemon->stages.sampler) / 4 * (MAX(elapsed_ns, NS_PER_MS) / NS_PER_MS);
}

/* @drained: since the loop's own clock drained before, @elapsed_ns ago. */
static enum daemon_pace choose_pace(const Daemon *daemon, const SamplerDrained *drained,
                                    uint64_t elapsed_ns) {
        if (deferred_waits(daemon->walks.deferred))
                return DAEMON_PACE_NEWS;
        if (!drained->n_samples)
                return drained->n_changes || is_restless(daemon) ? DAEMON_PACE_CALM : DAEMON_PACE_ASLEEP;
        if (daemon->loop.clock_ns < daemon->loop.news_ns + CALM_AFTER_NS || daemon->config->waits.off_cpu ||
            fills_up(daemon, drained->n_bytes, elapsed_ns))
                return DAEMON_PACE_NEWS;
        return DAEMON_PACE_CALM;
}

static uint64_t drain_interval_ns(const Daemon *daemon) {
        uint64_t now_ns = daemon->loop.clock_ns, interval_ns, due_ns;

        if (!daemon->totals->first_sample_ns && now_ns < daemon->start_ns + NS_PER_SEC)
                return DRAIN_FIRST_NS;
        if (daemon->loop.pace == DAEMON_PACE_ASLEEP)
                return ASLEEP_NS;
        if (daemon->limits.boosts.n)
                return DRAIN_BOOST_NS;
        interval_ns = daemon->loop.pace == DAEMON_PACE_NEWS ? DRAIN_NEWS_NS : DRAIN_CALM_NS;
        due_ns = runtimes_due_ns(daemon->stages.runtimes);
        return MIN(interval_ns, MAX(due_ns, now_ns + DRAIN_DUE_NS) - now_ns);
}

/* By how much a timer may be late: timers whose times overlap go off together. */
static int set_slack(sd_event_source *timer, uint64_t slack_ns) {
        int r = sd_event_source_set_time_accuracy(timer, slack_ns / NS_PER_US);

        return r < 0 ? error_origin(r) : 0;
}

static uint64_t work_slack_ns(const Daemon *daemon) {
        switch (daemon->loop.pace) {
        case DAEMON_PACE_ASLEEP:
                return ASLEEP_SLACK_NS;
        case DAEMON_PACE_CALM:
                return DRAIN_CALM_NS;
        default:
                return NS_PER_MS;
        }
}

/* Asleep, records wake us up; else none does. */
static int set_pace(Daemon *daemon, enum daemon_pace pace) {
        DaemonLoop *loop = &daemon->loop;
        bool sleeps = pace == DAEMON_PACE_ASLEEP;
        int r;

        if (pace == loop->pace)
                return 0;
        loop->pace = pace;
        sampler_sleep(daemon->stages.sampler, sleeps);
        r = set_slack(loop->drain_timer, sleeps ? ASLEEP_SLACK_NS : NS_PER_MS);
        if (!r)
                r = set_slack(loop->second_timer, sleeps ? ASLEEP_SLACK_NS : NS_PER_MS);
        if (!r)
                r = set_slack(loop->work_timer, work_slack_ns(daemon));
        if (!r)
                r = sd_event_source_set_enabled(loop->wake_source, sleeps ? SD_EVENT_ON : SD_EVENT_OFF);
        return r < 0 ? error_origin(r) : 0;
}

static int on_wake(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        Daemon *daemon = userdata;
        int r = set_pace(daemon, DAEMON_PACE_NEWS);

        daemon->loop.woken_before_ns = daemon->loop.woken_ns;
        daemon->loop.woken_ns = clock_monotonic_ns();
        return r ? r : daemon_set_timer(daemon->loop.drain_timer, DRAIN_WOKEN_NS);
}

/* At most one call between two drains, since each costs a drain. A loop that sleeps is woken instead. */
static void listen_to_calls(Daemon *daemon) {
        daemon->loop.listens = daemon->loop.pace != DAEMON_PACE_ASLEEP && !daemon->loop.was_called;
        daemon->loop.was_called = false;
        sampler_listen(daemon->stages.sampler, daemon->loop.listens);
}

/* An edge without a call can come at the start, and while the loop sleeps. */
static int on_call(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        Daemon *daemon = userdata;
        int r = daemon_take_call(daemon, true);

        if (r || !daemon->loop.listens)
                return MIN(r, 0);
        daemon->loop.listens = false;
        daemon->loop.was_called = true;
        stat_add(COUNTER_CALLS_ANSWERED, 1);
        return daemon_set_timer(daemon->loop.drain_timer, 0);
}

/* @drained: also of the drains by calls since the last one by the clock. */
static int drain_by_clock(Daemon *daemon, SamplerDrained *drained) {
        const SamplerDrained *called = &daemon->calls.drained;
        DaemonLoop *loop = &daemon->loop;
        int r = daemon_drain(daemon, drained);

        loop->clock_ns = clock_monotonic_ns();
        if (called->n_copies || (loop->was_called && drained->n_copies))
                loop->news_ns = loop->clock_ns;
        sampler_drained_add(drained, called);
        loop->found_none = !drained->n_samples;
        daemon->calls.drained = (SamplerDrained){ 0 };
        stat_add(COUNTER_DRAINS, 1);
        return r;
}

/* A loop that has found no sample may sleep until its next drain. */
uint64_t daemon_window_left_ns(const Daemon *daemon) {
        uint64_t sleep_ns = daemon->loop.found_none ? ASLEEP_NS + ASLEEP_SLACK_NS : 0, end_us;

        if (sd_event_source_get_time(daemon->loop.window_timer, &end_us) < 0 ||
            daemon->loop.clock_ns + sleep_ns >= end_us * NS_PER_US)
                return 0;
        return end_us * NS_PER_US - sleep_ns - daemon->loop.clock_ns;
}

/* A recording can end at any time, and has no later window for names that are late. */
bool daemon_is_near_window_end(const Daemon *daemon) {
        return daemon->sink || daemon_window_left_ns(daemon) <= NAMES_AHEAD_NS;
}

static int on_drain(sd_event_source *source, uint64_t usec, void *userdata) {
        Daemon *daemon = userdata;
        DaemonLoop *loop = &daemon->loop;
        uint64_t before_ns = loop->clock_ns;
        SamplerDrained drained = { 0 };
        int r = daemon_check_disabled(daemon);

        if (!r)
                r = drain_by_clock(daemon, &drained);
        if (r)
                return error_fold(r);
        r = stages_drained(daemon);
        if (r)
                return error_fold(r);
        if (is_done(daemon)) {
                log_info("every process that was chosen has exited: stopping");
                return daemon_stop(daemon);
        }
        if (has_lost_workers(daemon)) {
                daemon->stop.lost_workers = true;
                stat_add(COUNTER_NURSERIES_GONE, 1);
                log_write_event(
                        LOG_LEVEL_ERROR, LOG_EVENT_WORKERS_GONE, "workers",
                        "stopping with status 1, so that the service manager starts it again: it may start no process itself");
                return daemon_stop(daemon);
        }
        r = set_pace(daemon, choose_pace(daemon, &drained, loop->clock_ns - before_ns));
        listen_to_calls(daemon);
        daemon_hear(daemon);
        return r ? r : daemon_set_timer(source, drain_interval_ns(daemon));
}

/*
 * Symbol tables take a moment to read. A window that is closed meanwhile has no names for most of its frames,
 * and no other machine may know them: the first one stays open for a while.
 */
static bool waits_for_names(const Daemon *daemon) {
        return !daemon->sink && naming_state(daemon->stages.naming).n_waiting &&
                clock_monotonic_ns() < daemon->sampling_ns + FIRST_WINDOW_NS + FIRST_NAMES_NS;
}

/* A recording keeps its windows: shorter ones free nothing. */
static uint64_t window_ns(const Daemon *daemon) {
        uint64_t ns = daemon->config->delivery.interval_ns;

        if (daemon->sink || daemon->limits.hold.step < MEMORY_STEP_WINDOWS)
                return ns;
        return MIN(ns, MAX(ns / 4, NS_PER_SEC));
}

static int on_window(sd_event_source *source, uint64_t usec, void *userdata) {
        Daemon *daemon = userdata;
        int r;

        if (waits_for_names(daemon))
                return daemon_set_timer(source, FIRST_NAMES_STEP_NS);
        r = daemon_drain_window(daemon);
        if (r)
                return error_fold(r);
        sd_notifyf(0, "STATUS=%s%zu targets, %" PRIu64 " samples delivered, %" PRIu64 " lost",
                   daemon->pause.is_on ? "paused; " : "", targets_count(daemon->stages.targets),
                   stat_get(COUNTER_SAMPLES_DELIVERED), stat_lost());
        return daemon_set_timer(source, window_ns(daemon));
}

/* The content of lost notices is unknown, so the targets are scanned for it. */
static int answer_lost_notices(Daemon *daemon) {
        uint64_t n = stat_get(COUNTER_LOST_NOTICES);
        int r;

        if (n == daemon->loop.n_lost_notices)
                return 0;
        daemon->loop.n_lost_notices = n;
        targets_resync_notices(daemon->stages.targets);
        r = sd_event_source_set_time_relative(daemon->loop.work_timer, 0);
        return r < 0 ? error_origin(r) : 0;
}

/* At random moments, 0.75 to 1.25 s apart, so that the jitter itself is in step with nothing. */
static int on_second(sd_event_source *source, uint64_t usec, void *userdata) {
        Daemon *daemon = userdata;
        int r = sampler_read_counters(daemon->stages.sampler);

        if (!r)
                r = answer_lost_notices(daemon);
        if (!r)
                r = sampler_jitter(daemon->stages.sampler);
        if (!r)
                r = daemon_govern(daemon);
        if (!r)
                r = stages_second(daemon);
        if (r)
                return error_fold(r);
        return daemon_set_timer(source, daemon->loop.pace == DAEMON_PACE_ASLEEP
                                     ? ASLEEP_NS
                                     : (uint64_t)(750 + random() % 500) * NS_PER_MS);
}

static int on_work(sd_event_source *source, uint64_t usec, void *userdata) {
        uint64_t now_ns = clock_monotonic_ns(), next_ns = 0;
        Daemon *daemon = userdata;
        int r = targets_work(daemon->stages.targets, now_ns, &next_ns);

        stat_add(COUNTER_STAGE_DISCOVERY_NS, clock_monotonic_ns() - now_ns);
        if (r)
                return error_fold(r);
        r = set_slack(source, work_slack_ns(daemon));   /* daemon_on_notice() may have taken it away */
        return r ? r : daemon_set_timer(source, next_ns > now_ns ? MIN(next_ns - now_ns, NS_PER_SEC) : 0);
}

static int on_duration(sd_event_source *source, uint64_t usec, void *userdata) {
        int r = sd_event_source_set_enabled(source, SD_EVENT_OFF);      /* a second stop() would not wait */

        return r < 0 ? error_origin(r) : daemon_stop(userdata);
}

/* A machine that wakes up from suspend sets its clock as well. */
static void on_clock_step(void *userdata) {
        Daemon *daemon = userdata;
        int r;

        if (daemon->stop.time_ns)
                return;
        stat_add(COUNTER_CLOCK_STEPS, 1);
        log_notice("the clock was set, or the machine slept: this window of profiles ends early");
        r = daemon_end_window(daemon);
        if (!r)
                r = sampler_drain(daemon->stages.sampler, NULL);
        if (!r)
                r = sampler_renew(daemon->stages.sampler);
        if (r)
                sd_event_exit(daemon->loop.event, r < 0 ? r : -EIO);
}

/* Runs after each turn of the loop while the first samples are on their way: it is a turn of its own. */
static int on_turn(sd_event_source *source, void *userdata) {
        return daemon_note_delivery(userdata) ? sd_event_source_set_enabled(source, SD_EVENT_OFF) : 0;
}

/* ---- making them ---- */

int daemon_add_timer(Daemon *daemon, sd_event_source **sourcep, uint64_t after_ns,
                     sd_event_time_handler_t handler) {
        _cleanup_(sd_event_source_unrefp) sd_event_source *source = NULL;
        int r;

        r = sd_event_add_time_relative(daemon->loop.event, &source, CLOCK_MONOTONIC, after_ns / NS_PER_US,
                                       NS_PER_MS / NS_PER_US, handler, daemon);
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

/* The whole run has that duration, not each configuration of it. */
static uint64_t time_left_ns(const Daemon *daemon) {
        uint64_t duration_ns = daemon->config->daemon.duration_ns;

        return duration_ns - MIN(duration_ns, daemon->totals->duration_ns);
}

static int add_wake_source(Daemon *daemon) {
        Sampler *sampler = daemon->stages.sampler;
        DaemonLoop *loop = &daemon->loop;
        int r = sd_event_add_io(loop->event, &loop->wake_source, sampler_fd(sampler), EPOLLIN, on_wake,
                                daemon);

        if (r >= 0)
                r = sd_event_source_set_enabled(loop->wake_source, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(loop->wake_source, true);
        if (r >= 0)
                r = sd_event_add_io(loop->event, &loop->call_source, sampler_call_fd(sampler),
                                    EPOLLIN | EPOLLET, on_call, daemon);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(loop->call_source, true);
        return r < 0 ? error_origin(r) : 0;
}

int daemon_add_timers(Daemon *daemon) {
        int r = daemon_add_timer(daemon, &daemon->loop.drain_timer, DRAIN_FIRST_NS, on_drain);

        if (!r)
                r = add_wake_source(daemon);
        if (!r)
                r = daemon_add_calls(daemon);
        if (!r)
                r = daemon_add_timer(daemon, &daemon->loop.window_timer,
                              daemon->sink ? daemon->config->delivery.interval_ns : FIRST_WINDOW_NS,
                              on_window);
        if (!r)
                r = daemon_add_timer(daemon, &daemon->loop.second_timer, NS_PER_SEC, on_second);
        if (!r)
                r = daemon_add_timer(daemon, &daemon->loop.work_timer, 0, on_work);
        if (!r)
                r = stages_start(daemon);
        if (!r && daemon->config->daemon.duration_ns)
                r = daemon_add_timer(daemon, NULL, time_left_ns(daemon), on_duration);
        return error_fold(r);
}

/*
 * A loop that exits takes along each signal that it has read from the kernel and not dispatched yet. Sources
 * of higher priority are dispatched first, and no other is as high as these: so no source that ends the loop
 * comes between the reading of SIGTERM and on_stop_signal(), and SIGHUP does not either. A signal that the
 * loop has not read stays blocked in the kernel, and the loop of the next daemon reads it.
 */
enum { PRIORITY_STOP = SD_EVENT_PRIORITY_IMPORTANT - 1, PRIORITY_HANGUP = SD_EVENT_PRIORITY_IMPORTANT };

static int add_signals(Daemon *daemon) {
        static const struct {
                int signal;
                sd_event_signal_handler_t handler;
                int64_t priority;
        } signals[] = {
                { SIGTERM, on_stop_signal, PRIORITY_STOP },
                { SIGINT, on_stop_signal, PRIORITY_STOP },
                { SIGHUP, on_hangup, PRIORITY_HANGUP },
        };
        sigset_t set;
        int r;

        stop_signals_fill(&set);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return error_origin(-errno);
        for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
                _cleanup_(sd_event_source_unrefp) sd_event_source *source = NULL;

                r = sd_event_add_signal(daemon->loop.event, &source, signals[i].signal, signals[i].handler,
                                        daemon);
                if (r >= 0)
                        r = sd_event_source_set_priority(source, signals[i].priority);
                if (r >= 0)     /* a stop that fails must still end the program */
                        r = sd_event_source_set_exit_on_failure(source, true);
                if (r >= 0)
                        r = sd_event_source_set_floating(source, true);
                if (r < 0)
                        return error_origin(r);
        }
        return 0;
}

int daemon_make_loop(Daemon *daemon) {
        int r = sd_event_new(&daemon->loop.event);

        if (r >= 0)
                r = sd_event_set_watchdog(daemon->loop.event, true);
        if (r >= 0)
                r = sd_event_add_post(daemon->loop.event, &daemon->loop.turn, on_turn, daemon);
        if (r >= 0)
                r = sd_event_source_set_enabled(daemon->loop.turn, SD_EVENT_OFF);
        if (r < 0)
                return error_origin(r);
        r = add_signals(daemon);
        if (!r)
                r = clock_watch_new(&daemon->loop.clock_watch, daemon->loop.event, on_clock_step, daemon);
        return error_fold(r);
}
