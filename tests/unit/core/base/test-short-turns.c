/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/base/util/short-turns.h"

static struct sched_attr attributes(void) {
        struct sched_attr attr = { 0 };

        cr_assert_eq(syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0), 0);
        return attr;
}

static bool is_granted(void) {
        struct utsname kernel;
        int major = 0, minor = 0;

        cr_assert_eq(uname(&kernel), 0);
        cr_assert_eq(sscanf(kernel.release, "%d.%d", &major, &minor), 2);
        return major > 6 || (major == 6 && minor >= 12);
}

Test(short_turns, are_short_where_the_kernel_grants_it_and_nice_stays) {
        cr_assert_eq(setpriority(PRIO_PROCESS, 0, 3), 0);
        short_turns_take();
        cr_expect_eq(getpriority(PRIO_PROCESS, 0), 3);
        cr_expect_eq(attributes().sched_policy, SCHED_NORMAL);
        if (is_granted())
                cr_expect_eq(attributes().sched_runtime, 100000);
}

Test(short_turns, of_another_policy_stay_as_they_are) {
        struct sched_attr attr = { .size = sizeof(attr), .sched_policy = SCHED_IDLE };

        cr_assert_eq(syscall(SYS_sched_setattr, 0, &attr, 0), 0);
        attr = attributes();
        short_turns_take();
        cr_expect_eq(attributes().sched_policy, SCHED_IDLE);
        cr_expect_eq(attributes().sched_runtime, attr.sched_runtime);
}
