/* SPDX-License-Identifier: Apache-2.0 */

/* Which programs end soon and publish nothing. */

#include <criterion/criterion.h>

#include "core/base/util/clock.h"
#include "host/sampling/context/program-lives.h"

enum { KIND = 17 };

static void end_some(ProgramLives *lives, uint64_t kind, int n, uint64_t life_ns) {
        for (int i = 0; i < n; i++)
                program_lives_note_end(lives, kind, life_ns, true);
}

Test(program_lives, knows_a_kind_after_three_programs) {
        static ProgramLives lives;

        end_some(&lives, KIND, 2, NS_PER_SEC);
        cr_assert_eq(program_lives_outlived_ns(&lives, KIND), 0);
        end_some(&lives, KIND, 1, 3 * NS_PER_SEC);
        cr_assert_eq(program_lives_outlived_ns(&lives, KIND), 6 * NS_PER_SEC);
        cr_assert_eq(program_lives_outlived_ns(&lives, KIND + 1), 0);
}

Test(program_lives, forgets_a_longer_life_by_and_by) {
        static ProgramLives lives;

        end_some(&lives, KIND, 1, 20 * NS_PER_SEC);
        end_some(&lives, KIND, 3, NS_PER_SEC);
        cr_assert_eq(program_lives_outlived_ns(&lives, KIND), 0, "one of four is a service");
        end_some(&lives, KIND, 100, NS_PER_SEC);
        cr_assert_eq(program_lives_outlived_ns(&lives, KIND), 2 * NS_PER_SEC);
}

Test(program_lives, never_calls_a_kind_short_that_publishes) {
        static ProgramLives lives;

        end_some(&lives, KIND, 3, NS_PER_SEC);
        program_lives_note_publication(&lives, KIND);
        cr_assert_eq(program_lives_outlived_ns(&lives, KIND), 0);
        end_some(&lives, KIND, 100, NS_PER_SEC);
        cr_assert_eq(program_lives_outlived_ns(&lives, KIND), 0);
}

Test(program_lives, forgets_the_kind_that_was_used_least_recently) {
        static ProgramLives lives;

        end_some(&lives, KIND, 3, NS_PER_SEC);
        end_some(&lives, KIND + 1, 3, NS_PER_SEC);
        for (uint64_t i = 0; i < PROGRAM_KINDS_MAX - 1; i++) {
                cr_assert_neq(program_lives_outlived_ns(&lives, KIND), 0);
                program_lives_note_end(&lives, 1000 + i, NS_PER_SEC, true);
        }
        cr_assert_neq(program_lives_outlived_ns(&lives, KIND), 0);
        cr_assert_eq(program_lives_outlived_ns(&lives, KIND + 1), 0);
}

Test(program_lives, lets_seven_of_eight_looks_wait_where_looks_have_found_nothing) {
        static ProgramLives lives;
        unsigned n = 0;

        for (int i = 0; i < 10; i++)
                program_lives_note_end(&lives, KIND, NS_PER_SEC, false);
        cr_assert(!program_lives_look_may_wait(&lives, KIND), "no look yet");
        end_some(&lives, KIND, 2, NS_PER_SEC);
        cr_assert(!program_lives_look_may_wait(&lives, KIND));
        end_some(&lives, KIND, 1, NS_PER_SEC);
        for (int i = 0; i < 80; i++)
                n += program_lives_look_may_wait(&lives, KIND);
        cr_assert_eq(n, 70);
        cr_assert(!program_lives_look_may_wait(&lives, KIND + 1), "another kind");
        program_lives_note_publication(&lives, KIND);
        for (int i = 0; i < 80; i++)
                cr_assert(!program_lives_look_may_wait(&lives, KIND));
}
