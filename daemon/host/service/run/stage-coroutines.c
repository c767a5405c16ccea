/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Joins samples with coroutines, by the stations that a process publishes. Stations are read after each
 * drain, and between drains as often as they need it.
 */

#include "host/service/run/stages.h"

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/service/run/daemon-flow.h"
#include "host/service/run/daemon-loop.h"

/* Before the sample's attributes are made: which coroutine ran is one of them. */
int daemon_join_coroutine(Daemon *daemon, const Program *program, Sample *sample) {
        const struct abi_sample *header = sample->header;
        const CoroRun run = { .pid = program->process->pid,
                              .ns_tid = header->ns_tid,
                              .generation = program->process->generation,
                              .time_ns = header->time_ns,
                              .is_uncounted = header->kind == ABI_KIND_FINE,
                              .has_ended = program->has_ended };
        CoroMatch match;
        int r;

        if (header->kind != ABI_KIND_CPU && header->kind != ABI_KIND_FINE && header->kind != ABI_KIND_FAULT &&
            header->kind != ABI_KIND_CRASH && header->kind != ABI_KIND_BOOST &&
            header->kind != ABI_KIND_ALLOC)
                return 0;
        r = coro_join_find(daemon->stages.coroutines, &run, &match);
        if (!r)
                sample->coroutine = (SampleCoroutine){ match.probe_id, match.birth_ns, match.station, true };
        return r < 0 ? error_fold(r) : 0;
}

static int scan(Daemon *daemon) {
        uint64_t wait_ns;
        int r = coro_join_scan(daemon->stages.coroutines, &wait_ns);

        if (r || !daemon->stages.coroutines_timer)
                return error_fold(r);
        r = sd_event_source_set_time_relative(daemon->stages.coroutines_timer,
                                              MIN(wait_ns, NS_PER_SEC) / NS_PER_US);
        if (r >= 0)
                r = sd_event_source_set_enabled(daemon->stages.coroutines_timer,
                                                wait_ns == UINT64_MAX ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
        return r < 0 ? error_origin(r) : 0;
}

int daemon_on_stations(void *userdata, const Process *process) {
        Daemon *daemon = userdata;
        int r = coro_join_watch(daemon->stages.coroutines, process->pid, process->generation);

        return r ? error_fold(r) : scan(daemon);
}

static int on_suspended(void *userdata, const CoroSuspended *suspended) {
        SampleCoroutine coroutine = { suspended->coroutine.probe_id, suspended->coroutine.birth_ns,
                                      suspended->coroutine.station, suspended->known };
        Daemon *daemon = userdata;
        Program program;
        int r = targets_program(daemon->stages.targets, suspended->pid, suspended->generation, &program);

        if (!r)
                r = aggregator_add_suspended(daemon->stages.aggregator, &program, &coroutine,
                                             suspended->address, suspended->value_ns, suspended->time_ns);
        stat_add(COUNTER_CORO_SUSPENSIONS_LOST, r > 0);
        return r < 0 ? error_fold(r) : 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        return scan(userdata);
}

static int make(Daemon *daemon) {
        int r = coro_join_new(&daemon->stages.coroutines);

        if (!r)
                coro_join_set_suspended(daemon->stages.coroutines, on_suspended, daemon);
        return error_fold(r);
}

static int start(Daemon *daemon) {
        return daemon_add_timer(daemon, &daemon->stages.coroutines_timer, NS_PER_SEC, on_timer);
}

static void stop(Daemon *daemon) {
        daemon->stages.coroutines_timer = sd_event_source_disable_unref(daemon->stages.coroutines_timer);
}

static void release(Daemon *daemon) {
        coro_join_free(daemon->stages.coroutines);
}

const Stage stage_coroutines = {
        .name = "coroutines", .make = make, .start = start, .drained = scan, .stop = stop, .release = release
};
