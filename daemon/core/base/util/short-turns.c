/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sets the slice of this thread by sched_setattr(): 100 µs, the shortest that the kernel grants; or makes
 * it a batch thread that stays behind others.
 */

#include "core/base/util/short-turns.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/util/clock.h"

#define TURN_NS (100 * NS_PER_US)       /* the shortest that the kernel grants */

enum {
        BEHIND = 10,            /* a ninth of the share of a thread beside it, where CPUs are scarce */
        LAST_NICE = 19,
};

void short_turns_take(void) {
        struct sched_attr attr = { 0 };

        if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) || attr.sched_policy != SCHED_NORMAL)
                return;
        attr.sched_runtime = TURN_NS;
        (void)!syscall(SYS_sched_setattr, 0, &attr, 0);
}

void short_turns_leave(void) {
        struct sched_attr attr = { 0 };

        if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) || attr.sched_policy != SCHED_NORMAL)
                return;
        attr.sched_policy = SCHED_BATCH;
        attr.sched_nice = attr.sched_nice < LAST_NICE - BEHIND ? attr.sched_nice + BEHIND : LAST_NICE;
        attr.sched_runtime = 0;
        (void)!syscall(SYS_sched_setattr, 0, &attr, 0);
}

void short_turns_offer(void) {
        (void)!syscall(SYS_sched_yield);
}
