/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Three things bring the loop to the rings before its own clock does:
 *
 *     an exec of a target, or of a program whose name was a target's     the kernel half calls
 *     the first sample of a process of such a name                       (bpf/wake.bpf.h)
 *     a record of new code in the side-band, of any process              the side-band is readable
 *
 * From a call to the answer:
 *
 *     kernel half   daemon_hears: 1 → 0, an edge on a ring      further news make no edge
 *     here          the timer is set, by the budget             0.2 ms, or later in a storm
 *     timer         drain: mappings, notices, samples; daemon_hears = 1
 *
 * An edge that is lost costs no more than the time until the next drain by the loop's own clock, which hears
 * again. What such a drain reads of samples is told to that clock, which sends the loop to sleep only if none
 * flow.
 *
 * The side-band tells of all processes. A drain for it that changed nothing about a target makes the next one
 * wait, 2 ms and ever twice as long, up to 100 ms; a drain that did, or a call, ends the waiting:
 *
 *     a target loads libz         record → 0.2 ms → drain, libz is known
 *     others start programs       record → 0.2 ms → drain, nothing; record → 2 ms → drain; … 100 ms
 *     a target's exec             call → 0.2 ms → drain; its libc's record → 0.2 ms → drain
 */
#include "service/run/daemon-calls.h"

#include <sys/epoll.h>

#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/stat.h"
#include "service/run/call-budget.h"
#include "service/run/daemon-loop.h"

#define TIMER_ACCURACY_US 1
#define WAIT_FIRST_NS (2 * NS_PER_MS)
#define WAIT_LAST_NS (100 * NS_PER_MS)

/* One record is enough to know: the source is off until the answer. */
static int listen_to_mappings(Daemon *daemon) {
        if (!daemon->calls.mappings || sampler_mapping_fd(daemon->stages.sampler) < 0)
                return 0;
        return sd_event_source_set_enabled(daemon->calls.mappings, SD_EVENT_ONESHOT);
}

void daemon_hear(Daemon *daemon) {
        if (!daemon->calls.timer || daemon->calls.is_called)
                return;
        daemon->calls.hears = true;
        sampler_hear(daemon->stages.sampler, true);
}

void daemon_calls_paid(Daemon *daemon) {
        daemon->calls.was_useful = true;
        daemon->calls.wait_ns = 0;
}

/* An answer that is due sooner serves both. */
static int answer_at(DaemonCalls *calls, uint64_t due_ns) {
        int r;

        if (calls->due_ns && calls->due_ns <= due_ns)
                return 0;
        calls->due_ns = due_ns;
        r = sd_event_source_set_time(calls->timer, due_ns / NS_PER_US);
        if (r >= 0)
                r = sd_event_source_set_enabled(calls->timer, SD_EVENT_ONESHOT);
        return r < 0 ? error_origin(r) : 0;
}

static int answer_by_budget(DaemonCalls *calls) {
        bool later;
        uint64_t due_ns = call_budget_spend(&calls->budget, clock_monotonic_ns(), &later);

        stat_add(COUNTER_CALLS_PUT_OFF, later);
        return answer_at(calls, due_ns);
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata) {
        Daemon *daemon = userdata;
        DaemonCalls *calls = &daemon->calls;
        SamplerDrained drained = { 0 };
        int r;

        calls->was_useful = false;
        r = daemon_drain(daemon, &drained);
        calls->n_samples += drained.n_samples;
        if (calls->is_mapped && !calls->was_useful)
                calls->wait_ns = MIN(MAX(2 * calls->wait_ns, WAIT_FIRST_NS), WAIT_LAST_NS);
        calls->is_mapped = calls->is_called = false;
        calls->due_ns = 0;
        daemon_hear(daemon);
        if (!r)
                r = listen_to_mappings(daemon);
        return r < 0 ? error_fold(r) : 0;
}

/* A ring may still be readable from a record that has been read. */
static int on_mappings(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        Daemon *daemon = userdata;
        DaemonCalls *calls = &daemon->calls;

        if (!sampler_has_mappings(daemon->stages.sampler))
                return listen_to_mappings(daemon);
        calls->is_mapped = true;
        stat_add(COUNTER_CALLS_MAPPED, 1);
        if (!calls->wait_ns)
                return answer_by_budget(calls);
        return answer_at(calls, clock_monotonic_ns() + calls->wait_ns);
}

int daemon_take_call(Daemon *daemon) {
        DaemonCalls *calls = &daemon->calls;
        int r;

        if (!calls->hears || sampler_hears(daemon->stages.sampler))
                return 0;
        calls->hears = false;
        calls->is_called = true;
        calls->wait_ns = 0;
        r = answer_by_budget(calls);
        return r ? r : DAEMON_CALLS_E_TAKEN;
}

static int on_notice(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        return MIN(daemon_take_call(userdata), 0);
}

static int add_ring(Daemon *daemon, sd_event_source **sourcep, int fd, uint32_t events,
                    sd_event_io_handler_t handler) {
        int r = sd_event_add_io(daemon->loop.event, sourcep, fd, events, handler, daemon);

        return r < 0 ? r : sd_event_source_set_exit_on_failure(*sourcep, true);
}

int daemon_add_calls(Daemon *daemon) {
        const Sampler *sampler = daemon->stages.sampler;
        DaemonCalls *calls = &daemon->calls;
        int r = sd_event_add_time(daemon->loop.event, &calls->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_US,
                                  on_due, daemon);

        if (r >= 0)
                r = sd_event_source_set_enabled(calls->timer, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(calls->timer, true);
        if (r >= 0)
                r = add_ring(daemon, &calls->notices, sampler_notice_fd(sampler), EPOLLIN | EPOLLET,
                             on_notice);
        if (r >= 0 && sampler_mapping_fd(sampler) >= 0) {
                r = add_ring(daemon, &calls->mappings, sampler_mapping_fd(sampler), EPOLLIN, on_mappings);
                if (r >= 0)
                        r = listen_to_mappings(daemon);
        }
        return r < 0 ? error_origin(r) : 0;
}

void daemon_remove_calls(Daemon *daemon) {
        DaemonCalls *calls = &daemon->calls;

        calls->timer = sd_event_source_disable_unref(calls->timer);
        calls->notices = sd_event_source_disable_unref(calls->notices);
        calls->mappings = sd_event_source_disable_unref(calls->mappings);
}
