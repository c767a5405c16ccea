/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/sampling/walks/wait-locks.h"

static WaitLocks *locks;

static void setup(void) {
        cr_assert_eq(wait_locks_new(&locks, NULL), 0);
}

static void teardown(void) {
        wait_locks_free(locks);
}

TestSuite(wait_locks, .init = setup, .fini = teardown);

static void note(uint32_t tid, uint64_t from_ns, uint64_t until_ns, const char *name, uint32_t owner) {
        cr_assert_eq(wait_locks_note(locks, &(WaitingThread){ 10, tid, from_ns, from_ns, until_ns }, "monitor",
                                     name, owner),
                     0);
}

Test(wait_locks, a_wait_with_the_whole_look_in_it_has_the_lock) {
        const SampleLock *lock;

        note(11, 1000, 1010, "shop.Cart", 12);
        lock = wait_locks_find(locks, 10, 11, 900, 1100);
        cr_assert_not_null(lock);
        cr_expect_str_eq(lock->kind, "monitor");
        cr_expect_str_eq(lock->name, "shop.Cart");
        cr_expect_eq(lock->owner, 12);
        cr_expect_eq(wait_locks_find(locks, 10, 11, 1000, 1010), lock, "to the very ends");
}

Test(wait_locks, a_wait_that_a_look_laps_over_has_none) {
        note(11, 1000, 1010, "shop.Cart", 12);
        cr_expect_null(wait_locks_find(locks, 10, 11, 1001, 1100), "it began behind the first read");
        cr_expect_null(wait_locks_find(locks, 10, 11, 900, 1009), "it ended before the last one");
        cr_expect_null(wait_locks_find(locks, 10, 11, 1020, 1100), "a later wait");
        cr_expect_null(wait_locks_find(locks, 10, 12, 900, 1100), "another thread's");
        cr_expect_null(wait_locks_find(locks, 9, 11, 900, 1100), "another process'");
}

Test(wait_locks, of_several_looks_the_last_counts) {
        note(11, 1000, 1010, "shop.Cart", 12);
        note(11, 2000, 2010, "shop.Till", 13);
        cr_expect_str_eq(wait_locks_find(locks, 10, 11, 900, 1500)->name, "shop.Cart");
        cr_expect_str_eq(wait_locks_find(locks, 10, 11, 1500, 2500)->name, "shop.Till");
        cr_expect_str_eq(wait_locks_find(locks, 10, 11, 900, 2500)->name, "shop.Till");
}

Test(wait_locks, the_same_class_has_the_same_text) {
        note(11, 1000, 1010, "shop.Cart", 0);
        note(12, 1000, 1010, "shop.Cart", 0);
        cr_expect_eq(wait_locks_find(locks, 10, 11, 0, 2000)->name,
                     wait_locks_find(locks, 10, 12, 0, 2000)->name);
}

Test(wait_locks, a_class_that_is_not_known_has_no_name) {
        note(11, 1000, 1010, "", 12);
        cr_assert_not_null(wait_locks_find(locks, 10, 11, 0, 2000));
        cr_expect_null(wait_locks_find(locks, 10, 11, 0, 2000)->name);
}

Test(wait_locks, a_thread_that_waits_for_no_lock_has_none) {
        const WaitingThread idle = { 10, 11, 5, 1000, 1010 };

        cr_assert_eq(wait_locks_note(locks, &idle, NULL, "", 0), 0);
        cr_expect_null(wait_locks_find(locks, 10, 11, 0, 2000));
}

Test(wait_locks, what_was_seen_last_stays_where_room_is_short) {
        for (uint64_t i = 1; i <= 100; i++)
                note(11, i * 1000, i * 1000 + 10, "shop.Cart", 0);
        cr_expect_not_null(wait_locks_find(locks, 10, 11, 100000, 100010));
        cr_expect_null(wait_locks_find(locks, 10, 11, 1000, 1010), "the first one had to go");
}

static uint64_t noted_ns;

static const char *name_of(uint32_t tgid, const char *name) {
        const uint64_t now_ns = ++noted_ns;
        const WaitingThread thread = { tgid, 1, now_ns, now_ns, now_ns };

        cr_assert_eq(wait_locks_note(locks, &thread, "monitor", name, 0), 0);
        return wait_locks_find(locks, tgid, 1, noted_ns, noted_ns)->name;
}

/* Another process of our user and group names more than there is room for. */
static void fill(void) {
        const pid_t other = getppid();
        unsigned n_named = 0;
        char name[32];

        for (unsigned i = 0; i < 4100; i++) {
                snprintf(name, sizeof(name), "evil.Class%u", i);
                n_named += name_of((uint32_t)other, name) != NULL;
        }
        cr_assert_leq(n_named, 1024);
        cr_assert_gt(n_named, 1000);
}

Test(wait_locks, a_process_with_many_classes_leaves_room_for_those_of_others) {
        char name[32];

        fill();
        for (unsigned i = 0; i < 200; i++) {
                snprintf(name, sizeof(name), "shop.Class%u", i);
                cr_assert_str_eq(name_of((uint32_t)getpid(), name), name);
        }
}

Test(wait_locks, classes_are_forgotten_with_a_window_in_which_one_had_no_room) {
        const uint32_t own = (uint32_t)getpid(), other = (uint32_t)getppid();

        cr_expect_str_eq(name_of(own, "shop.Cart"), "shop.Cart");
        wait_locks_end_window(locks);
        cr_expect_not_null(wait_locks_find(locks, own, 1, 1, 1), "there is room");
        fill();
        cr_expect_null(name_of(other, "evil.Last"));
        wait_locks_end_window(locks);
        cr_expect_null(wait_locks_find(locks, own, 1, 1, 1));
        cr_expect_str_eq(name_of(other, "evil.Last"), "evil.Last");
}

/* Whether the end of a window makes the daemon say again what it has said within the hour. */
Test(wait_locks, the_log_says_once_that_there_was_no_room) {
        int log = memfd_create("log", MFD_CLOEXEC), before = dup(STDERR_FILENO);
        unsigned n_told = 0;
        char text[4096];
        ssize_t n;

        cr_assert_geq(dup2(log, STDERR_FILENO), 0);
        for (unsigned i = 0; i < 3; i++) {
                fill();
                wait_locks_end_window(locks);
        }
        cr_assert_geq(dup2(before, STDERR_FILENO), 0);
        n = pread(log, text, sizeof(text) - 1, 0);
        cr_assert_geq(n, 0);
        text[n] = 0;
        for (const char *at = text; (at = strstr(at, "classes of locks: ")); at++)
                n_told++;
        cr_assert_eq(n_told, 1, "%s", text);
        close(before);
        close(log);
}

Test(wait_locks, names_beyond_the_cap_are_left_out) {
        char name[32];

        for (unsigned i = 0; i < 4100; i++) {
                snprintf(name, sizeof(name), "shop.Class%u", i);
                note(11, i, i, name, 7);
        }
        cr_assert_not_null(wait_locks_find(locks, 10, 11, 4099, 4099));
        cr_expect_null(wait_locks_find(locks, 10, 11, 4099, 4099)->name);
        cr_expect_eq(wait_locks_find(locks, 10, 11, 4099, 4099)->owner, 7);
}

/* Words as glibc 2.36 has them (struct __pthread_mutex_s): lock, count, owner, users, kind. */
Test(wait_locks, a_mutex_of_glibc_says_who_has_it) {
        enum { ERROR_CHECK = 2, RECURSIVE = 1, ROBUST = 0x10, INHERIT = 0x20 };
        const struct {
                uint32_t words[WAIT_LOCKS_MUTEX_WORDS], owner;
                const char *what;
        } cases[] = {
                { { 2, 0, 4711, 1, 0 }, 4711, "threads wait for it" },
                { { 2, 3, 4711, 1, RECURSIVE }, 4711, "taken three times" },
                { { 2, 0, 4711, 4, ERROR_CHECK }, 4711, "used by conditions, too" },
                { { 0x80000000 | 4711, 0, 4711, 1, ROBUST }, 4711, "robust: the lock has its id" },
                { { 0x80000000 | 4711, 0, 4711, 1, INHERIT }, 4711, "its owner inherits priority" },
                { { 1, 0, 4711, 1, 0 }, 0, "nobody waits" },
                { { 0, 0, 0, 0, 0 }, 0, "nobody has it" },
                { { 2, 0, 0, 1, 0 }, 0, "on its way to the next owner" },
                { { 2, 0, 4711, 0, 0 }, 0, "has no user: it is none" },
                { { 2, 0, 4711, 1, 0x5555 }, 0, "of no kind: it is none" },
                { { 0xffffffff, 0x7f00, 4711, 1, 0 }, 0, "a counter" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
                cr_expect_eq(wait_locks_mutex_owner(cases[i].words), cases[i].owner, "%s", cases[i].what);
}

Test(wait_locks, a_mutex_that_changes_hands_is_one_without_an_owner) {
        static const struct {
                uint32_t first, second, owner;
                enum wait_locks_mutex said;
                const char *what;
        } cases[] = {
                { 0, 0, 0, WAIT_LOCKS_NO_MUTEX, "none by both reads" },
                { 12, 12, 12, WAIT_LOCKS_MUTEX, "one thread has it" },
                { 12, 13, 0, WAIT_LOCKS_MUTEX, "from one to the other" },
                { 12, 0, 0, WAIT_LOCKS_UNSURE, "let go, or never one" },
                { 0, 13, 0, WAIT_LOCKS_UNSURE, "taken, or never one" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                uint32_t owner = 99;

                cr_expect_eq(wait_locks_judge_mutex(cases[i].first, cases[i].second, &owner), cases[i].said,
                             "%s", cases[i].what);
                cr_expect_eq(owner, cases[i].owner, "%s", cases[i].what);
        }
}
