/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a window closes (daemon_close_window):
 *
 *     1. Suspensions of coroutines that are still open are split at this moment.
 *        Allocations that are alive at this moment are added.
 *     2. The aggregator gives its window away and begins an empty one. The window gets its mean period.
 *     3. Frames take the names that are known by now; names that come later are in later windows.
 *     4. The window is shaped and encoded for each kind of receiver, and its requests go there. Or the sink
 *        takes the whole window. Samples that do not fit into a request are counted as lost.
 *        Recordings of JVMs and heaps of Go that were read meanwhile go the same way, in windows of their
 *        own.
 *     5. The flight recorder keeps it, if there is one, with the ticks that were not exported.
 *     6. The volume of the window may change the frequency (daemon-govern.c).
 *
 * A window closes at each interval, and early when its period or its clock would not be one value any more:
 * at a change of frequency, a pause, a step of CLOCK_REALTIME, and the stop. But for a step, the rings are
 * read before, so that a sample stands for the period at which it was taken.
 */

#include "host/service/run/daemon-window.h"

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/otlp/validate.h"
#include "host/service/run/daemon-flow.h"
#include "host/service/run/stages.h"

#define FINDINGS_LOGGED 10                      /* findings on a request, with `validate = on` */

static void tell_finding(const ValidateFinding *finding, void *userdata) {
        unsigned *n = userdata;

        stat_add(finding->warning ? COUNTER_VALIDATE_WARNINGS : COUNTER_VALIDATE_ERRORS, 1);
        if ((*n)++ < FINDINGS_LOGGED)
                log_warning("validate: %s: %s%s%s [%s]", finding->warning ? "warning" : "error",
                            finding->path, *finding->path ? ": " : "", finding->text,
                            validate_rule_name(finding->rule));
}

/* The request is sent in any case: findings are for people who debug the daemon. */
static int look(const uint8_t *data, size_t size) {
        ValidateCounts counts;
        unsigned n = 0;
        int r = otlp_validate(data, size, tell_finding, &n, &counts);

        if (n > FINDINGS_LOGGED)
                log_warning("validate: … and %u more in this request", n - FINDINGS_LOGGED);
        stat_add(COUNTER_VALIDATED, !r);
        return r;
}

/*
 * The mean time between two exported ticks of one CPU in the window that ends now, which is what a sample
 * stands for: all ticks are counted, and each daemon->window.ticks-th is exported.
 * It is computed from the programmed periods, jitter included. Ticks cannot be counted instead: an idle CPU
 * does not tick on every machine (some virtual ones leave it out), and its missing ticks would make the
 * period of busy CPUs look longer. Only if the kernel has throttled the samplers, the counted ticks are used.
 */
static int64_t mean_period_ns(Daemon *daemon, uint64_t now_ns) {
        uint64_t paused_ns = daemon->pause.is_on ? daemon->pause.since_ns : now_ns;
        uint64_t end_ns = daemon->stop.time_ns ? daemon->stop.time_ns : paused_ns;
        uint64_t n_entries = sampler_entries(daemon->stages.sampler);
        uint64_t length_ns = end_ns - MIN(end_ns, daemon->window.start_ns),
                 n_throttled = stat_get(COUNTER_THROTTLED);
        double n_programmed = sampler_programmed(daemon->stages.sampler),
               n = n_programmed - daemon->window.programmed;

        if (n_throttled != daemon->window.n_throttled)
                n = MIN(n, (double)(n_entries - daemon->window.n_entries));
        daemon->window.n_entries = n_entries;
        daemon->window.sampled += (n_programmed - daemon->window.programmed) / daemon->window.ticks;
        daemon->window.programmed = n_programmed;
        daemon->window.n_throttled = n_throttled;
        if (n < 1)
                return (int64_t)(NS_PER_SEC / daemon_frequency(daemon));
        n /= daemon->window.ticks;
        return (int64_t)((double)(length_ns * daemon->window.n_cpus) / n);
}

/*
 * For coverage while it runs: what the CPU time of a window stands for. What is less than a tick stays for
 * the next window, and what a pause has seen is passed over. A reload begins again. Of boosted processes
 * there are more ticks than that, all of which are expected.
 */
static void count_expected(Daemon *daemon, int64_t period_ns) {
        uint64_t seen_ns = targets_cpu_time_passed(daemon->stages.targets),
                 before_ns = daemon->window.target_cpu_ns;
        uint64_t n = period_ns > 0 && seen_ns > before_ns ? (seen_ns - before_ns) / (uint64_t)period_ns : 0;
        uint64_t n_boosted;
        CoverageClock now;

        /* the window that a pause ends has begun before it */
        if (daemon->pause.is_on && daemon->window.start_ns >= daemon->pause.since_ns) {
                daemon->window.target_cpu_ns = MAX(before_ns, seen_ns);
                return;
        }
        n_boosted = stat_get(COUNTER_BOOST_TICKS) - daemon->window.n_boosted;
        daemon->window.n_boosted += n_boosted;
        n_boosted -= n_boosted / daemon->window.ticks;
        daemon->totals->n_boosted += n_boosted;
        stat_add(COUNTER_EXPECTED_TICKS, n + n_boosted);
        coverage_clock_read(&now);
        daemon->coverage = (CoverageFacts){
                .expected = (double)stat_get(COUNTER_EXPECTED_TICKS),
                .stolen = coverage_stolen(&daemon->totals->clock, &now),
        };
        coverage_count(&daemon->coverage);
        daemon->window.target_cpu_ns += n * (uint64_t)period_ns;
}

static int hand_over(Daemon *daemon, const Window *window) {
        uint64_t n_lost = 0, n_samples = window_n_events_of(window, PROFILE_CPU);
        int r;

        if (daemon->sink) {
                r = daemon->sink->window(daemon->sink->userdata, window, &n_lost);
                n_lost = MIN(n_lost, n_samples);        /* events that are no ticks may be among them */
                stat_add(COUNTER_LOST_WINDOW_FULL, n_lost);
                stat_add(COUNTER_SAMPLES_DELIVERED, n_samples - n_lost);
                return error_fold(r);
        }
        r = exports_window(daemon->stages.exports, window, daemon->config->delivery.validate ? look : NULL);
        return error_fold(r);
}

/* Recordings of JVMs go out by themselves: their times are the calendar's, and their frames have names. */
static int hand_over_recordings(Daemon *daemon) {
        _cleanup_(window_freep) Window *window = NULL;
        int r = daemon->stages.recordings ? recordings_take(daemon->stages.recordings, &window) : 0;

        return r || !window ? error_fold(r) : hand_over(daemon, window);
}

/* So do heaps of Go, one window after the other. */
int daemon_hand_over_heaps(Daemon *daemon) {
        int r = 0;

        while (!r && daemon->stages.heaps) {
                _cleanup_(window_freep) Window *window = NULL;

                r = heaps_take(daemon->stages.heaps, &window);
                if (r || !window)
                        break;
                r = hand_over(daemon, window);
        }
        return error_fold(r);
}

/*
 * Ends the window at *@end_nsp: it gets the part of each wait that lies in it, and no sum of later waits.
 * Nothing more of waits comes once the sampler has stopped.
 */
static int split_waits(Daemon *daemon, uint64_t *end_nsp) {
        bool has_waits = daemon->config->waits.off_cpu && !daemon->stop.time_ns && !daemon->pause.is_on;
        int r = has_waits ? sampler_split_waits(daemon->stages.sampler) : 0;

        if (daemon->pause.is_on)
                early_waits_drop(&daemon->walks.early);
        if (!r)
                r = early_waits_count(&daemon->walks.early, &daemon->walks.stages, daemon->sampling_ns);
        *end_nsp = clock_monotonic_ns();
        return r || !has_waits ? r : sampler_drain(daemon->stages.sampler, NULL);
}

bool daemon_note_delivery(Daemon *daemon) {
        if (!daemon->totals->first_delivery_ns && stat_get(COUNTER_SAMPLES_DELIVERED))
                daemon->totals->first_delivery_ns = clock_monotonic_ns();
        return daemon->totals->first_delivery_ns;
}

static int await_delivery(Daemon *daemon) {
        int r = 0;

        if (!daemon_note_delivery(daemon))
                r = sd_event_source_set_enabled(daemon->loop.turn, SD_EVENT_ON);
        return r < 0 ? error_origin(r) : 0;
}

int daemon_close_window(Daemon *daemon, uint64_t *length_nsp) {
        _cleanup_(window_freep) Window *window = NULL;
        uint64_t now_ns, begun_ns = daemon->window.start_ns;
        int64_t period_ns;
        bool has_ticks;
        int r;

        r = coro_join_close(daemon->stages.coroutines, daemon->pause.is_on);
        if (!r)
                r = split_waits(daemon, &now_ns);
        if (r)
                return error_fold(r);
        period_ns = mean_period_ns(daemon, now_ns);
        count_expected(daemon, period_ns);
        /* what waited for its walk, or is the latest, comes behind the end of a boost */
        if (daemon->window.ticks > 1)
                daemon->window.tick_ns = (uint64_t)period_ns / daemon->window.ticks;
        r = daemon_add_live(daemon);
        if (!r)
                r = aggregator_rotate(daemon->stages.aggregator, now_ns, period_ns,
                                      (int64_t)daemon->window.tick_ns, &window);
        if (r)
                return error_fold(r);
        daemon->window.start_ns = now_ns;
        stat_add(COUNTER_WINDOWS, 1);
        r = stages_window(daemon, window);
        if (!r)
                r = hand_over(daemon, window);
        has_ticks = window_n_events_of(window, PROFILE_CPU);
        if (!r)
                r = hand_over_recordings(daemon);
        if (!r)
                r = daemon_hand_over_heaps(daemon);
        if (!r)
                r = daemon_record_window(daemon, window, period_ns);
        daemon_begin_ticks(daemon);
        if (!r && has_ticks)
                r = await_delivery(daemon);
        stat_add(COUNTER_STAGE_WINDOW_NS, clock_monotonic_ns() - now_ns);
        if (r)
                return error_fold(r);
        *length_nsp = now_ns - MIN(now_ns, begun_ns);
        return 0;
}
