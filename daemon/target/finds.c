/* SPDX-License-Identifier: Apache-2.0 */
#include "target/finds.h"

#include <stdbool.h>
#include <string.h>

#include "util/clock.h"
#include "util/log.h"
#include "util/stat.h"

/* An exec shows in /proc before the kernel tells of it, and a process may have to wait for a CPU in between. */
#define GRACE_NS NS_PER_SEC

static void count(const Find *find) {
        stat_add(COUNTER_SWEEP_FOUND, 1);
        log_write_target(LOG_LEVEL_DEBUG, find->tgid, "the sweep found what no notice told of: %s",
                         find->kind == FIND_PROGRAM ? "another program" : "that it publishes");
}

static void drop_first(Finds *finds, size_t n) {
        finds->n -= n;
        memmove(finds->finds, finds->finds + n, finds->n * sizeof(*finds->finds));
}

void finds_add(Finds *finds, uint32_t tgid, FindKind kind, uint64_t now_ns) {
        for (size_t i = 0; i < finds->n; i++)
                if (finds->finds[i].tgid == tgid && finds->finds[i].kind == kind)
                        return;
        if (finds->n == FINDS_MAX) {
                count(&finds->finds[0]);
                drop_first(finds, 1);
        }
        finds->finds[finds->n++] = (Find){ .time_ns = now_ns, .tgid = tgid, .kind = kind };
}

static bool tells_of(const struct abi_notice *notice, const Find *find) {
        if (notice->tgid != find->tgid || notice->time_ns > find->time_ns + GRACE_NS)
                return false;
        if (find->kind == FIND_PUBLICATION)
                return notice->kind == ABI_NOTICE_MAPPINGS;
        /* The end of who had this id before: an end after the find tells nothing of what was found. */
        return notice->kind == ABI_NOTICE_EXEC || (notice->kind == ABI_NOTICE_EXIT && notice->time_ns <= find->time_ns);
}

void finds_told(Finds *finds, const struct abi_notice *notice) {
        size_t n = 0;

        for (size_t i = 0; i < finds->n; i++)
                if (!tells_of(notice, &finds->finds[i]))
                        finds->finds[n++] = finds->finds[i];
        finds->n = n;
}

void finds_settle(Finds *finds, uint64_t until_ns) {
        size_t n = 0;

        while (n < finds->n && finds->finds[n].time_ns + GRACE_NS <= until_ns)
                count(&finds->finds[n++]);
        if (n)
                drop_first(finds, n);
}
