/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <unistd.h>

#include "core/base/util/macro.h"
#include "host/sampling/walks/early-choice.h"

enum {
        MAX = 256,
        NOBODY = 0x3ffff00,             /* ids of no process: all of one user, in a group of their own */
};

Test(early_choice, all_are_kept_where_there_is_room) {
        EarlyChoice choices[] = { { 7, 100 }, { 8, 156 } };

        cr_assert_eq(early_choice_make(choices, ARRAY_SIZE(choices), MAX), 0);
        cr_assert_eq(choices[0].n, 100);
        cr_assert_eq(choices[1].n, 156);
        cr_assert_eq(early_choice_make(choices, 0, MAX), 0);
}

Test(early_choice, a_process_with_thousands_leaves_others_theirs) {
        EarlyChoice choices[] = {
                { NOBODY, 4000 }, { NOBODY + 1, 20 }, { NOBODY + 2, 30 }, { NOBODY + 3, 500 }
        };

        cr_assert_eq(early_choice_make(choices, ARRAY_SIZE(choices), MAX), 0);
        cr_assert_eq(choices[0].n, 103);
        cr_assert_eq(choices[1].n, 20);
        cr_assert_eq(choices[2].n, 30);
        cr_assert_eq(choices[3].n, 103);
}

Test(early_choice, a_group_with_a_thousand_processes_leaves_another_half) {
        enum { CROWD = 1000 };

        static EarlyChoice choices[CROWD + 1];
        size_t n = 0;

        choices[0] = (EarlyChoice){ (uint32_t)getpid(), 200 };
        for (uint32_t i = 1; i <= CROWD; i++)
                choices[i] = (EarlyChoice){ NOBODY + i, 3 };
        cr_assert_eq(early_choice_make(choices, CROWD + 1, MAX), 0);
        cr_assert_eq(choices[0].n, MAX / 2);
        for (uint32_t i = 1; i <= CROWD; i++)
                n += choices[i].n;
        cr_assert_eq(n, MAX / 2);
}
