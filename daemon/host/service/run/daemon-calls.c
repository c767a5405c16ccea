/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Two things bring the loop to the rings before its own clock does, both told by the kernel half
 * (bpf/walk/wake.bpf.h):
 *
 *     an exec of a target, or of a program whose name was a target's
 *     the first sample of a process of such a name, unless all that is needed came along (walk/start.bpf.h)
 *
 * From a call to the answer:
 *
 *     kernel half   daemon_hears: 1 → 0, an edge on a ring      further news make no edge
 *     here          of an exec: the timer is set, by the budget 0.2 ms, or later in a storm
 *     timer         drain: mappings, notices, samples; daemon_hears = 1
 *     timer         looks 1, 2, 4, 8 and 16 ms later
 *
 *     here          of a sample: the same, 5.2 ms later: a drain before that would leave the sample, which is
 *                   younger than what is known of mappings (host/sampling/sample/sampler.c)
 *
 * An exec maps the program and ld.so. Libraries come some ms later, and only the side-band tells of them. It
 * could wake us at each record, but of any process, and each wake-up is an interrupt that the mapping process
 * pays. So there are looks for a while. A look reads where the rings end, and drains if there is something.
 * In a storm, when an answer had to wait or too many had looks before, the next answer does that; until rows
 * are in force, the top of the stack comes along with each sample (bpf/walk/defer.bpf.h).
 *
 * An edge that is lost costs no more than the time until the next drain by the loop's own clock, which hears
 * again. What such a drain reads of samples is told to that clock, which sends the loop to sleep only if none
 * flow.
 */
#include "host/service/run/daemon-calls.h"

#include <sys/epoll.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/service/limits/call-budget.h"
#include "host/service/run/daemon-flow.h"

#define TIMER_ACCURACY_US 1
#define FIRST_LOOK_NS NS_PER_MS

enum { LOOKS = 5 };                     /* each waits twice as long as the one before */

void daemon_hear(Daemon *daemon) {
        if (!daemon->calls.timer || daemon->calls.is_called)
                return;
        daemon->calls.hears = true;
        sampler_hear(daemon->stages.sampler, true);
}

static int set_timer(DaemonCalls *calls, uint64_t due_ns) {
        int r = sd_event_source_set_time(calls->timer, due_ns / NS_PER_US);

        if (r >= 0)
                r = sd_event_source_set_enabled(calls->timer, SD_EVENT_ONESHOT);
        return r < 0 ? error_origin(r) : 0;
}

static int drain(Daemon *daemon) {
        SamplerDrained drained = { 0 };
        int r = daemon_drain(daemon, &drained);

        sampler_drained_add(&daemon->calls.drained, &drained);
        daemon->calls.is_called = false;
        daemon_hear(daemon);
        return r;
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata) {
        Daemon *daemon = userdata;
        DaemonCalls *calls = &daemon->calls;
        int r = 0;

        if (calls->is_called) {
                r = drain(daemon);
        } else if (sampler_has_mappings(daemon->stages.sampler)) {
                stat_add(COUNTER_CALLS_MAPPED, 1);
                r = drain(daemon);
        }
        if (r || calls->n_looks >= LOOKS)
                return error_fold(r);
        return set_timer(calls, clock_monotonic_ns() + (FIRST_LOOK_NS << calls->n_looks++));
}

static int put_off(Daemon *daemon, uint64_t due_ns, bool has_looks) {
        DaemonCalls *calls = &daemon->calls;

        calls->is_called = true;
        calls->n_looks = has_looks ? 0 : LOOKS;
        return set_timer(calls, due_ns);
}

int daemon_take_call(Daemon *daemon, bool by_sample) {
        DaemonCalls *calls = &daemon->calls;
        uint64_t now_ns = clock_monotonic_ns(), due_ns;
        bool later;
        int r;

        if (!calls->hears || sampler_hears(daemon->stages.sampler))
                return 0;
        due_ns = call_budget_spend(&calls->budget, now_ns, &later);
        stat_add(COUNTER_CALLS_PUT_OFF, later);
        calls->hears = false;
        if (by_sample)
                due_ns = MAX(due_ns, now_ns + SAMPLER_DELAY_NS + CALL_BUDGET_DELAY_NS);
        r = put_off(daemon, due_ns, !by_sample && !later && call_budget_looks(&calls->budget, now_ns));
        return r ? r : DAEMON_CALLS_E_TAKEN;
}

static int on_notice(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        return MIN(daemon_take_call(userdata, false), 0);
}

int daemon_add_calls(Daemon *daemon) {
        DaemonCalls *calls = &daemon->calls;
        int r = sd_event_add_time(daemon->loop.event, &calls->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_US,
                                  on_due, daemon);

        if (r >= 0)
                r = sd_event_source_set_enabled(calls->timer, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(calls->timer, true);
        if (r >= 0)
                r = sd_event_add_io(daemon->loop.event, &calls->notices,
                                    sampler_notice_fd(daemon->stages.sampler), EPOLLIN | EPOLLET, on_notice,
                                    daemon);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(calls->notices, true);
        return r < 0 ? error_origin(r) : 0;
}

void daemon_remove_calls(Daemon *daemon) {
        DaemonCalls *calls = &daemon->calls;

        calls->timer = sd_event_source_disable_unref(calls->timer);
        calls->notices = sd_event_source_disable_unref(calls->notices);
}
