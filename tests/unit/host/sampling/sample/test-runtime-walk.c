/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The walk over runtimes where our control group has no room to load it; test-kernel-half.c and the daemon's
 * own tests load it.
 */

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>

#include "host/sampling/sample/runtime-walk.h"

#define MIB (UINT64_C(1) << 20)

static unsigned n_read;

static SamplerMemory read_memory(const void *userdata) {
        n_read++;
        return *(const SamplerMemory *)userdata;
}

/* A group that uses @used MiB of @limit: it is looked at once in 30 s, and said once what lacks. */
static void assert_refused(uint64_t used, uint64_t limit, const char *advice) {
        const SamplerMemory memory = { .limit = limit * MIB, .room = (limit - used) * MIB };
        _cleanup_(runtime_walk_freep) RuntimeWalk *walk = NULL;
        char expected[512];

        snprintf(expected, sizeof(expected),
                 "spanprof: frames of runtimes are not walked: to load the walk takes the kernel 32 MiB, and the control group uses %u of its %u MiB (memory.max). "
                 "Give it %s MiB or more (MemoryMax= of the unit); programs that start once there is room are walked\n",
                 (unsigned)used, (unsigned)limit, advice);
        cr_assert_eq(runtime_walk_new(&walk, NULL), 0);
        for (int i = 0; i < 3; i++)
                cr_assert_eq(runtime_walk_want(walk, read_memory, &memory), RUNTIME_WALK_REFUSED);
        cr_assert_eq(n_read, 1);
        fflush(stderr);
        cr_assert_stderr_eq_str(expected);
}

Test(runtime_walk, without_room_a_small_group_is_told_the_least_limit, .init = cr_redirect_stderr) {
        assert_refused(12, 32, "64");
}

Test(runtime_walk, without_room_a_full_group_is_told_more_than_it_has, .init = cr_redirect_stderr) {
        assert_refused(100, 128, "144");
}

Test(runtime_walk, without_room_by_a_mebibyte_is_still_told_more, .init = cr_redirect_stderr) {
        assert_refused(33, 64, "80");
}
