/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Holds each find of the sweep for a second. A notice that tells of the same takes it away; what stays is
 * counted.
 */

#include "host/sampling/discover/sweep-results.h"

#include <stdbool.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"

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
