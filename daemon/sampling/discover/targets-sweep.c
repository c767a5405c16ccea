/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Notices tell of every program that starts and of every stranger whose memory has changed. This is the net
 * under them: it goes over /proc for ever, a handful of processes twice a minute, and looks for what a notice
 * should have told. When the kernel half counts notices that found no room, it goes over everybody at once,
 * and rests after that.
 *
 * While processes are chosen by name, strangers need no net: they are decided at their first sample.
 */
#include "sampling/discover/targets-private.h"

#include <string.h>

#include "base/util/directory.h"

enum {
        SLOW_STEP = 16,                 /* processes a step: about 1 ms of CPU */
        RESYNC_STEP = 128,
};

#define SLOW_INTERVAL_NS (30 * NS_PER_SEC)
#define RESYNC_INTERVAL_NS (20 * NS_PER_MS)     /* 20,000 processes in about three seconds */
#define REST_MIN_NS NS_PER_SEC
/* whoever makes notices be lost all the time costs 5 % of a CPU, not more */
#define REST_FACTOR 20

/* What the notice would have been. */
static int notice_for(Targets *targets, const Process *process, const ProcessStat *stat, const char *comm) {
        struct abi_notice notice = {
                .time_ns = clock_monotonic_ns(),
                .start_time_ns = stat->start_time_ns,
                .tgid = process->pid,
                .kind = ABI_NOTICE_EXEC,
        };

        memcpy(notice.comm, comm, sizeof(notice.comm));
        sweep_results_add(&targets->sweep.sweep_results, notice.tgid, SWEEP_PROGRAM, notice.time_ns);
        return targets_take_notice(targets, &notice);
}

/* Whether it is the program that we know. Where we may not see the stack there is nothing to compare. */
static bool is_same_program(const Process *process, const ProcessStat *stat) {
        return process->start_time_ns == stat->start_time_ns &&
               (!process->stack_start || !stat->stack_start || process->stack_start == stat->stack_start);
}

static int look(Targets *targets, uint32_t pid) {
        const Target *target = targets_living(targets, pid);
        SelectorReason reason;
        char comm[ABI_COMM_SIZE];
        ProcessStat stat;
        int r;

        stat_add(COUNTER_SWEEP_LOOKED, 1);
        if (!target && selector_is_by_name(targets->config.selector))
                return 0;
        if (process_identify((pid_t)pid, &stat, comm) || stat.is_kernel)
                return 0;
        if (target && !is_same_program(target->process, &stat))
                return notice_for(targets, target->process, &stat, comm);
        if (target && target->publication.ring_address)
                return 0;
        r = targets_decide(targets, &(SelectorFacts){ .pid = pid, .comm = comm }, &reason);
        if (r || (!target && reason != SELECTOR_SILENT))
                return r;
        return search_sweep(targets->search, pid, stat.start_time_ns, targets->sweep.is_resync,
                            clock_monotonic_ns());
}

/* *pidp: the next process in the order of /proc, 0 = there is none any more. */
static void next_pid(Sweep *sweep, uint32_t *pidp) {
        if (!sweep->dir || !directory_next_number(sweep->dir, pidp))
                *pidp = 0;
}

static void begin_pass(Sweep *sweep) {
        if (sweep->dir)
                closedir(sweep->dir);
        sweep->dir = opendir("/proc");
}

static void end_pass(Sweep *sweep, uint64_t now_ns) {
        if (sweep->dir)
                closedir(sweep->dir);
        sweep->dir = NULL;
        if (sweep->is_resync)
                sweep->rest_ns = now_ns + MAX(sweep->cost_ns * REST_FACTOR, REST_MIN_NS);
        sweep->is_resync = false;
}

void targets_resync_notices(Targets *targets) {
        stat_add(COUNTER_SWEEP_RESYNCS, 1);
        targets->sweep.is_again = true;
}

static bool is_resync_due(const Sweep *sweep, uint64_t now_ns) {
        return sweep->is_again && !sweep->is_resync && now_ns >= sweep->rest_ns;
}

static void begin_resync(Sweep *sweep, uint64_t now_ns) {
        begin_pass(sweep);
        sweep->next_ns = now_ns;
        sweep->is_resync = true;
        sweep->is_again = false;
        sweep->cost_ns = 0;
}

/* *donep: there is nobody left. */
static int step(Targets *targets, bool *donep) {
        Sweep *sweep = &targets->sweep;
        uint32_t pid = 1;

        for (unsigned n = sweep->is_resync ? RESYNC_STEP : SLOW_STEP; n && pid; n--) {
                int r;

                next_pid(sweep, &pid);
                r = pid ? look(targets, pid) : 0;
                if (r)
                        return r;
        }
        *donep = !pid;
        return 0;
}

int targets_sweep(Targets *targets, uint64_t now_ns, uint64_t *next_nsp) {
        uint64_t begin_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);     /* waiting for a CPU costs nobody */
        Sweep *sweep = &targets->sweep;
        bool done = false;
        int r;

        if (is_resync_due(sweep, now_ns))
                begin_resync(sweep, now_ns);
        else if (!sweep->next_ns)
                sweep->next_ns = now_ns + SLOW_INTERVAL_NS;     /* the pass at the start has just been */
        if (now_ns >= sweep->next_ns) {
                if (!sweep->dir)
                        begin_pass(sweep);
                r = step(targets, &done);
                if (r)
                        return r;
                sweep->cost_ns += clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
                if (done)
                        end_pass(sweep, now_ns);
                sweep->next_ns = now_ns + (sweep->is_resync ? RESYNC_INTERVAL_NS : SLOW_INTERVAL_NS);
        }
        *next_nsp = sweep->is_again && !sweep->is_resync ? MIN(sweep->next_ns, sweep->rest_ns)
                                                         : sweep->next_ns;
        return 0;
}
