/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Turns the walks on the host (host/sampling/walks/walks.h): deferred samples after each drain, long waits
 * while waits are too many to walk them all, locks of waits each 20 to 500 ms, goroutines each 0.75 to
 * 1.25 s.
 */

#include "host/service/run/stages.h"

#include <stdlib.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "host/service/run/daemon-flow.h"
#include "host/service/run/daemon-loop.h"

#define ACCURACY_NS (100 * NS_PER_US)           /* tolerance of looks at long waits */
#define FINISH_NS (250 * NS_PER_MS)             /* for tables that are missing at the end … */
#define FINISH_PATIENT_NS (60 * NS_PER_SEC)     /* … and with one window: another signal ends it, too */

static int on_goroutines(sd_event_source *source, uint64_t usec, void *userdata) {
        Daemon *daemon = userdata;
        int r = daemon->pause.is_on ? 0 : goroutines_look(daemon->walks.goroutines);

        if (r)
                return error_fold(r);
        return daemon_set_timer(source,
                                AGGREGATOR_GOROUTINES_PERIOD_NS * (uint64_t)(750 + random() % 501) / 1000);
}

/* In a storm of switches spans and stacks are left out, and locks with them. */
static int on_wait_locks(sd_event_source *source, uint64_t usec, void *userdata) {
        Daemon *daemon = userdata;
        bool is_wanted = !daemon->pause.is_on && daemon->limits.switches.step < WAIT_LIMIT_LONG;
        uint64_t after_ns = NS_PER_SEC;
        int r = is_wanted ? wait_locks_look(daemon->walks.wait_locks, &after_ns) : 0;

        if (r)
                return error_fold(r);
        if (after_ns != UINT64_MAX)
                return daemon_set_timer(source, after_ns * (uint64_t)(750 + random() % 501) / 1000);
        r = sd_event_source_set_enabled(source, SD_EVENT_OFF);
        return r < 0 ? error_origin(r) : 0;
}

/* Goes off until no long wait is left; watch() sets it again. */
static int on_long_waits(sd_event_source *source, uint64_t usec, void *userdata) {
        Daemon *daemon = userdata;
        uint64_t after_ns;
        int r = long_waits_look(daemon->walks.long_waits, &after_ns);

        if (r)
                return error_fold(r);
        if (after_ns != UINT64_MAX)
                return daemon_set_timer(source, after_ns);
        r = sd_event_source_set_enabled(source, SD_EVENT_OFF);
        return r < 0 ? error_origin(r) : 0;
}

static int make(Daemon *daemon) {
        const Config *config = daemon->config;
        DaemonStages *stages = &daemon->stages;
        DaemonWalks *walks = &daemon->walks;
        int r;

        walks->stages = (WalkStages){ .targets = stages->targets,
                                      .tables = stages->tables,
                                      .runtimes = stages->runtimes,
                                      .sampler = stages->sampler,
                                      .aggregator = stages->aggregator,
                                      .depth = (uint32_t)config->sampling.depth,
                                      .has_one_window = daemon->sink && daemon->sink->has_one_window };
        r = deferred_new(&walks->deferred, &walks->stages);
        if (!r && config->sampling.goroutines)
                r = goroutines_new(&walks->goroutines, &walks->stages, config->sampling.goroutines);
        if (!r && config->waits.off_cpu && config->waits.long_wait_ns)
                r = long_waits_new(&walks->long_waits, &walks->stages, config->waits.long_wait_ns);
        if (!r && config->waits.off_cpu)
                r = wait_locks_new(&walks->wait_locks, &walks->stages);
        walks->stages.locks = walks->wait_locks;
        return error_fold(r);
}

/* Looks at goroutines are at random moments, so that they are in step with nothing. */
static int start(Daemon *daemon) {
        DaemonWalks *walks = &daemon->walks;
        int r = walks->goroutines ? daemon_add_timer(daemon, &walks->goroutines_timer,
                                                     AGGREGATOR_GOROUTINES_PERIOD_NS, on_goroutines)
                                  : 0;

        if (!r && walks->wait_locks)
                r = daemon_add_timer(daemon, &walks->wait_locks_timer, 0, on_wait_locks);
        if (!r && walks->long_waits)
                r = daemon_add_timer(daemon, &walks->long_waits_timer, 0, on_long_waits);
        if (!r && walks->long_waits_timer)
                r = sd_event_source_set_time_accuracy(walks->long_waits_timer, ACCURACY_NS / NS_PER_US);
        if (r >= 0 && walks->long_waits_timer)
                r = sd_event_source_set_enabled(walks->long_waits_timer, SD_EVENT_OFF);
        return r < 0 ? error_origin(r) : 0;
}

static int drained(Daemon *daemon) {
        DaemonWalks *walks = &daemon->walks;
        int r = deferred_work(walks->deferred);

        if (r || !walks->long_waits_timer || !long_waits_are_due(walks->long_waits))
                return error_fold(r);
        r = daemon_set_timer(walks->long_waits_timer, 0);
        if (!r)
                r = sd_event_source_set_enabled(walks->long_waits_timer, SD_EVENT_ON);
        return r < 0 ? error_origin(r) : 0;
}

static int end_window(Daemon *daemon, Window *window) {
        if (daemon->walks.wait_locks)
                wait_locks_end_window(daemon->walks.wait_locks);
        return 0;
}

static void stop(Daemon *daemon) {
        DaemonWalks *walks = &daemon->walks;

        walks->goroutines_timer = sd_event_source_disable_unref(walks->goroutines_timer);
        walks->long_waits_timer = sd_event_source_disable_unref(walks->long_waits_timer);
        walks->wait_locks_timer = sd_event_source_disable_unref(walks->wait_locks_timer);
}

static void say_finishing(const Daemon *daemon) {
        uint32_t n_made, n;

        tables_progress(daemon->stages.tables, &n_made, &n);
        log_notice("sampling is over; reads the unwind tables of %u more file%s for stacks that wait for them "
                   "(Ctrl-C ends that)",
                   n - n_made, n - n_made == 1 ? "" : "s");
}

/* A recording is whole when the tables are in that its samples wait for. */
static int flush(Daemon *daemon) {
        uint64_t begin_ns = clock_monotonic_ns(),
                 limit_ns = daemon->walks.stages.has_one_window ? FINISH_PATIENT_NS : FINISH_NS;
        bool is_said = false;
        int r;

        while ((r = deferred_finish(daemon->walks.deferred, FINISH_NS)) > 0 &&
               clock_monotonic_ns() < begin_ns + limit_ns &&
               !stop_signals_take_pending(&daemon->stop.signals)) {
                if (!is_said && clock_monotonic_ns() > begin_ns + NS_PER_SEC) {
                        say_finishing(daemon);
                        is_said = true;
                }
        }
        return r < 0 ? error_fold(r) : error_fold(deferred_flush(daemon->walks.deferred));
}

static void release(Daemon *daemon) {
        early_waits_drop(&daemon->walks.early);
        long_waits_free(daemon->walks.long_waits);
        wait_locks_free(daemon->walks.wait_locks);
        goroutines_free(daemon->walks.goroutines);
        deferred_free(daemon->walks.deferred);
}

int daemon_look_at_threads(Daemon *daemon, ThreadWaits *threads) {
        int r = thread_waits_add(&daemon->walks.stages, threads);

        if (!r)         /* a step of the tables was taken there, without their event source */
                r = daemon_step_tables(daemon);
        return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
}

int daemon_look_at_goroutines(Daemon *daemon, GoroutinesSeen *seen) {
        Goroutines *goroutines = daemon->walks.goroutines;

        *seen = (GoroutinesSeen){ 0 };
        return goroutines ? error_fold(goroutines_look_once(goroutines, seen)) : 0;
}

const Stage stage_walks = {
        .name = "walks",
        .make = make,
        .start = start,
        .drained = drained,
        .window = end_window,
        .flush = flush,
        .stop = stop,
        .release = release,
};
