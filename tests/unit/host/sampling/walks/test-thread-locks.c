/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "host/sampling/walks/thread-locks.h"

static const RuntimeLock left = { .address = 0x7f00, .tid = 11, .owner = 12, .name = "a.Left" };
static const RuntimeLock right = { .address = 0x7f40, .tid = 12, .owner = 11, .name = "a.Right" };
static const RuntimeLock parked = { .address = 0x7f80, .tid = 13, .kind = RUNTIME_LOCK_PARKED };

static void add(ThreadLocks *locks, uint32_t tgid, const RuntimeLock *list, uint32_t n) {
        RuntimeLocks *of = calloc(1, runtime_locks_size(n));

        cr_assert(of);
        of->n = n;
        memcpy(of->locks, list, n * sizeof(*list));
        locks->processes = realloc(locks->processes, (locks->n + 1) * sizeof(*locks->processes));
        locks->processes[locks->n++] = (ProcessLocks){ tgid, of };
}

static ThreadLocks first, second;

static void teardown(void) {
        thread_locks_deinit(&first);
        thread_locks_deinit(&second);
}

TestSuite(thread_locks, .fini = teardown);

Test(thread_locks, a_lock_that_two_looks_have_is_kept) {
        add(&first, 10, (RuntimeLock[]){ left, right, parked }, 3);
        add(&second, 10, (RuntimeLock[]){ parked, left, right }, 3);
        thread_locks_keep_same(&first, &second);
        cr_assert_eq(thread_locks_find(&first, 10)->n, 3);
        cr_assert_eq(memcmp(&thread_locks_find(&first, 10)->locks[1], &right, sizeof(right)), 0);
}

Test(thread_locks, another_lock_futex_kind_or_class_is_not) {
        RuntimeLock lock = left, futex = right, kind = parked, class = parked;

        lock.address++;
        futex.futex = 0x7f44;
        kind.kind = RUNTIME_LOCK_OWNED;
        class.name[0] = 'a';
        add(&first, 10, (RuntimeLock[]){ left, right, parked }, 3);
        add(&second, 10, (RuntimeLock[]){ lock, futex, kind, class }, 4);
        thread_locks_keep_same(&first, &second);
        cr_assert_eq(thread_locks_find(&first, 10)->n, 0);
}

/* left goes from thread 12 to 13, and right is let go. */
Test(thread_locks, a_lock_that_another_thread_has_now_is_kept_without_its_owner) {
        RuntimeLock next = left, none = right;
        const RuntimeLocks *kept;

        next.owner = 13;
        none.owner = 0;
        add(&first, 10, (RuntimeLock[]){ left, right, parked }, 3);
        add(&second, 10, (RuntimeLock[]){ next, none, parked }, 3);
        thread_locks_keep_same(&first, &second);
        kept = thread_locks_find(&first, 10);
        cr_assert_eq(kept->n, 3);
        cr_expect_str_eq(kept->locks[0].name, "a.Left");
        cr_expect_eq(kept->locks[0].owner, 0);
        cr_expect_str_eq(kept->locks[1].name, "a.Right");
        cr_expect_eq(kept->locks[1].owner, 0);
}

Test(thread_locks, what_one_look_has_not_read_stays_said) {
        add(&first, 10, &left, 1);
        add(&second, 10, &left, 0);
        strcpy(second.processes[0].locks->text, "no answer");
        thread_locks_keep_same(&first, &second);
        cr_assert_eq(thread_locks_find(&first, 10)->n, 0);
        cr_assert_str_eq(thread_locks_find(&first, 10)->text, "no answer");
}

Test(thread_locks, those_of_another_process_do_not_count) {
        add(&first, 10, &left, 1);
        add(&first, 20, &right, 1);
        add(&second, 20, (RuntimeLock[]){ left, right }, 2);
        thread_locks_keep_same(&first, &second);
        cr_assert_eq(thread_locks_find(&first, 10)->n, 0);
        cr_assert_eq(thread_locks_find(&first, 20)->n, 1);
        cr_assert_eq(thread_locks_find(&first, 20)->locks[0].tid, 12);
        cr_assert_null(thread_locks_find(&first, 30));
}
