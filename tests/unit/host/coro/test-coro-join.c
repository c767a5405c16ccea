/* SPDX-License-Identifier: Apache-2.0 */

/* Which processes are remembered, and for how long. */

#include <criterion/criterion.h>
#include <poll.h>

#include "host/coro/join.h"

enum { N_ENDED = 10000, N_LIVE = 100, KEEP_MS = 3000 };

static CoroJoin *join;

static void begin(void) {
        cr_assert_eq(coro_join_new(&join), 0);
}

static void end(void) {
        coro_join_free(join);
}
TestSuite(coro_join, .init = begin, .fini = end);

static void find(uint32_t pid, bool has_ended) {
        CoroRun run = { .pid = pid, .ns_tid = pid, .generation = pid, .time_ns = 1, .has_ended = has_ended };
        CoroMatch match;

        cr_assert_eq(coro_join_find(join, &run, &match), CORO_JOIN_E_NONE);
}

Test(coro_join, remembers_no_process_that_has_ended_before_its_first_sample) {
        for (uint32_t pid = 1; pid <= N_ENDED; pid++)
                find(pid, true);
        cr_assert_eq(coro_join_count(join), 0);
}

Test(coro_join, forgets_all_who_have_ended_after_a_while) {
        uint64_t wait_ns;

        for (uint32_t pid = 1; pid <= N_LIVE; pid++)
                find(pid, false);
        find(1, true);
        cr_assert_eq(coro_join_count(join), N_LIVE);
        for (uint32_t pid = N_LIVE; pid > 1; pid--)
                cr_assert_eq(coro_join_forget(join, pid, 1), 0);
        cr_assert_eq(coro_join_scan(join, &wait_ns), 0);
        cr_assert_eq(coro_join_count(join), N_LIVE, "samples of theirs may be on their way");
        find(2, false);         /* the same program: nothing new */
        poll(NULL, 0, KEEP_MS + 100);
        cr_assert_eq(coro_join_scan(join, &wait_ns), 0);
        cr_assert_eq(coro_join_count(join), 1);
}

Test(coro_join, who_comes_late_has_a_place_and_keeps_it_while_it_is_asked_for) {
        const uint32_t honest = 1u << 30;

        for (uint32_t pid = 1; pid <= N_ENDED; pid++)
                find(pid, false);
        cr_assert_lt(coro_join_count(join), N_ENDED);
        cr_assert_not(coro_join_knows(join, 1));
        find(honest, false);
        cr_assert(coro_join_knows(join, honest));
        for (uint32_t pid = 1; pid <= N_ENDED; pid++) {
                find(pid, false);
                if (pid % 1000 == 0)
                        find(honest, false);
        }
        cr_assert(coro_join_knows(join, honest));
}
