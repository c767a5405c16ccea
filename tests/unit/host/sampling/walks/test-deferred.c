/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How long samples wait for tables, and for which: tests/integration/desk/test-record.py has what comes of
 * it. Whose copies of stacks give way where there are too many.
 */

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/discover/targets.h"
#include "host/sampling/walks/deferred.h"
#include "user-child.h"

/* The files of 400 programs took 18 s at a load of 75. */
Test(deferred_patience_ns, of_a_session_is_longer_than_a_busy_machine_takes_for_its_files) {
        cr_assert_gt(deferred_patience_ns(true, false), 18 * NS_PER_SEC);
}

/* Its windows leave for a receiver meanwhile. */
Test(deferred_patience_ns, of_a_daemon_is_shorter_than_its_programs_stay_known) {
        cr_assert_lt(deferred_patience_ns(false, false), TARGETS_KEEP_NS);
        cr_assert_lt(deferred_patience_ns(false, true), TARGETS_KEEP_NS);
}

/* A sample without its callers is better than none. */
Test(deferred_patience_ns, is_no_longer_where_programs_that_are_gone_make_room_for_others) {
        cr_assert_eq(deferred_patience_ns(true, true), deferred_patience_ns(false, false));
}

/* ---- what is missing ---- */

enum { INNER = 0x401000, CUT = 0x7f0000001000, OBJECT = 0x7f0000200000 };

static uint64_t tagged(enum runtime_kind kind) {
        return (uint64_t)kind << RUNTIME_KIND_SHIFT | OBJECT;
}

static uint64_t missing(enum abi_stack_end end, const uint64_t *user, uint16_t n) {
        return deferred_missing_pc(&(struct abi_sample){ .stack_end = (uint8_t)end, .n_user = n }, user);
}

Test(deferred_missing_pc, is_that_of_the_last_frame) {
        const uint64_t user[] = { INNER, CUT };

        cr_assert_eq(missing(ABI_STACK_PENDING, user, 2), CUT);
        cr_assert_eq(missing(ABI_STACK_PENDING, user, 1), INNER);
}

/* The second word of a frame is no address, and looks like one here. */
Test(deferred_missing_pc, stands_before_functions_that_called_it) {
        const uint64_t user[] = { INNER,
                                  tagged(RUNTIME_PYTHON), OBJECT,
                                  CUT,
                                  tagged(RUNTIME_PYTHON), OBJECT,
                                  tagged(RUNTIME_PHP), OBJECT };

        cr_assert_eq(missing(ABI_STACK_PENDING, user, 8), CUT);
        cr_assert_eq(missing(ABI_STACK_PENDING, user, 3), INNER);
}

Test(deferred_missing_pc, is_none_of_walks_that_ended_otherwise) {
        const uint64_t user[] = { INNER, CUT }, code[] = { tagged(RUNTIME_HOTSPOT_BLOB), OBJECT, OBJECT };

        cr_assert_eq(missing(ABI_STACK_COMPLETE, user, 2), 0);
        cr_assert_eq(missing(ABI_STACK_PENDING, user, 0), 0);
        cr_assert_eq(missing(ABI_STACK_PENDING, code, 3), 0);
}

/* ---- shares of copies ---- */

enum {
        BYTES = 8 << 20,        /* as docs/CAPS.md has it */
        COPY = 16 << 10,
};

/* A copy of @tgid's stack at a time. Return: whether one had to give way for it, or it had no room. */
static bool copy_displaces(Deferred *deferred, pid_t tgid, uint64_t time_ns) {
        static uint64_t record[(sizeof(struct abi_stack) + COPY) / sizeof(uint64_t)];
        const struct abi_stack stack = { .kept = ABI_KEPT_STACK, .time_ns = time_ns, .tgid = (uint32_t)tgid,
                                         .address = ABI_STACK_CHUNK, .n_bytes = COPY };
        uint64_t n = stat_get(COUNTER_STACK_COPIES_OVER_CAP);

        memcpy(record, &stack, sizeof(stack));
        cr_assert_eq(deferred_copy(deferred, record, sizeof(record)), 0);
        return stat_get(COUNTER_STACK_COPIES_OVER_CAP) > n;
}

/* A sample is lost: the copy leaves its room, if it is there. */
static void drop(Deferred *deferred, pid_t tgid, uint64_t time_ns) {
        deferred_drop(deferred, &(struct abi_sample){ .time_ns = time_ns, .tgid = (uint32_t)tgid,
                                                      .is_copied = 1 });
}

Test(deferred_copy, of_the_user_with_most_gives_way_to_another_users) {
        const WalkStages stages = { .depth = 128 };
        pid_t holder, other;
        uint64_t now_ns = 1;
        Deferred *deferred;

        if (geteuid())
                cr_skip_test("machine: not root, who makes processes of other users");
        holder = user_child_begin(USER_CHILD);
        other = user_child_begin(USER_CHILD - 1);
        cr_assert_eq(deferred_new(&deferred, &stages), 0);
        while (!copy_displaces(deferred, holder, now_ns))
                now_ns++;
        cr_assert_gt(now_ns, BYTES / COPY / 2);
        drop(deferred, holder, now_ns);
        cr_assert(copy_displaces(deferred, holder, ++now_ns), "it had no room, so its end left none");
        cr_assert(copy_displaces(deferred, other, ++now_ns), "another user has its share");
        drop(deferred, other, now_ns);
        cr_assert_not(copy_displaces(deferred, other, ++now_ns), "it had room, which it has left");
        deferred_free(deferred);
        user_child_end(holder);
        user_child_end(other);
}
