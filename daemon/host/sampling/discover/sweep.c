/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Notices tell of every program that starts and of every non-target whose memory has changed. This is the net
 * under them: it goes over /proc for ever, 16 processes each half minute, and looks for what a notice should
 * have told. When the kernel half counts notices that found no room, it goes over all processes at once, and
 * rests after that.
 *
 * Each find is held for a second. A notice that tells of the same takes it away; what stays is counted.
 */
#include "host/sampling/discover/sweep.h"

#include <string.h>

#include "core/base/file/directory.h"
#include "core/base/util/clock.h"
#include "core/base/util/log.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"

enum {
        SLOW_STEP = 16,                 /* processes a step: about 1 ms of CPU */
        RESYNC_STEP = 128,
};

#define SLOW_INTERVAL_NS (30 * NS_PER_SEC)
#define RESYNC_INTERVAL_NS (20 * NS_PER_MS)     /* 20,000 processes in about three seconds */
#define REST_MIN_NS NS_PER_SEC
/* a host that loses notices all the time costs 5 % of a CPU, not more */
#define REST_FACTOR 20

void sweep_deinit(Sweep *sweep) {
        if (sweep->dir)
                closedir(sweep->dir);
        sweep->dir = NULL;
}

/* *pidp: the next process in the order of /proc, 0 = there is none any more. */
static void next_pid(Sweep *sweep, uint32_t *pidp) {
        if (!sweep->dir || !directory_next_number(sweep->dir, pidp))
                *pidp = 0;
}

static void begin_pass(Sweep *sweep) {
        sweep_deinit(sweep);
        sweep->dir = opendir("/proc");
}

static void end_pass(Sweep *sweep, uint64_t now_ns) {
        sweep_deinit(sweep);
        if (sweep->is_resync)
                sweep->rest_ns = now_ns + MAX(sweep->cost_ns * REST_FACTOR, REST_MIN_NS);
        sweep->is_resync = false;
}

void sweep_resync(Sweep *sweep) {
        stat_add(COUNTER_SWEEP_RESYNCS, 1);
        sweep->is_again = true;
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

/* *donep: no process is left. */
static int step(Sweep *sweep, SweepLook look, void *userdata, bool *donep) {
        uint32_t pid = 1;

        for (unsigned n = sweep->is_resync ? RESYNC_STEP : SLOW_STEP; n && pid; n--) {
                int r;

                next_pid(sweep, &pid);
                r = pid ? look(userdata, pid) : 0;
                if (r)
                        return r;
        }
        *donep = !pid;
        return 0;
}

int sweep_work(Sweep *sweep, uint64_t now_ns, SweepLook look, void *userdata, uint64_t *next_nsp) {
        uint64_t begin_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);     /* waiting for a CPU is no cost */
        bool done = false;
        int r;

        if (is_resync_due(sweep, now_ns))
                begin_resync(sweep, now_ns);
        else if (!sweep->next_ns)
                sweep->next_ns = now_ns + SLOW_INTERVAL_NS;     /* the pass at the start has just been */
        if (now_ns >= sweep->next_ns) {
                if (!sweep->dir)
                        begin_pass(sweep);
                r = step(sweep, look, userdata, &done);
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

/* ---- what was found ---- */

/*
 * An exec shows in /proc before the kernel tells of it, and a process may have to wait for a CPU in between.
 */
#define GRACE_NS NS_PER_SEC

static void count(const SweepResult *find) {
        stat_add(COUNTER_SWEEP_FOUND, 1);
        log_write_target(LOG_LEVEL_DEBUG, find->tgid, "the sweep found what no notice told of: %s",
                         find->kind == SWEEP_PROGRAM ? "another program" : "that it publishes");
}

static void drop_first(SweepResults *results, size_t n) {
        results->n -= n;
        memmove(results->results, results->results + n, results->n * sizeof(*results->results));
}

void sweep_results_add(SweepResults *results, uint32_t tgid, SweepResultKind kind, uint64_t now_ns) {
        for (size_t i = 0; i < results->n; i++)
                if (results->results[i].tgid == tgid && results->results[i].kind == kind)
                        return;
        if (results->n == SWEEP_RESULTS_MAX) {
                count(&results->results[0]);
                drop_first(results, 1);
        }
        results->results[results->n++] = (SweepResult){ .time_ns = now_ns, .tgid = tgid, .kind = kind };
}

static bool tells_of(const struct abi_notice *notice, const SweepResult *find) {
        if (notice->tgid != find->tgid || notice->time_ns > find->time_ns + GRACE_NS)
                return false;
        if (find->kind == SWEEP_PUBLICATION)
                return notice->kind == ABI_NOTICE_MAPPINGS;
        /* The end of who had this id before: an end after the find tells nothing of what was found. */
        return notice->kind == ABI_NOTICE_EXEC ||
                (notice->kind == ABI_NOTICE_EXIT && notice->time_ns <= find->time_ns);
}

void sweep_results_told(SweepResults *results, const struct abi_notice *notice) {
        size_t n = 0;

        for (size_t i = 0; i < results->n; i++)
                if (!tells_of(notice, &results->results[i]))
                        results->results[n++] = results->results[i];
        results->n = n;
}

void sweep_results_settle(SweepResults *results, uint64_t until_ns) {
        size_t n = 0;

        while (n < results->n && results->results[n].time_ns + GRACE_NS <= until_ns)
                count(&results->results[n++]);
        if (n)
                drop_first(results, n);
}
