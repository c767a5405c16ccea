/* SPDX-License-Identifier: Apache-2.0 */

/* How often looks at heaps may be hurried in a minute. */

#include <criterion/criterion.h>

#include "core/base/util/clock.h"
#include "host/heap/haste.h"

#define BEGIN_NS (1000 * NS_PER_SEC)

static Haste haste;

static void begin(void) {
        haste_begin(&haste, BEGIN_NS);
}

static void end(void) {
        haste_deinit(&haste);
}

TestSuite(haste, .init = begin, .fini = end);

/* Return: whether there was a share. */
static bool look(uint64_t group, uint64_t process, uint64_t cpu_ms) {
        const ShareOwner owner = { .group = group, .user = 1000, .process = process };

        if (!haste_may(&haste, &owner))
                return false;
        cr_assert_eq(haste_look(&haste, &owner), 0);
        cr_assert_eq(haste_took(&haste, &owner, cpu_ms * NS_PER_MS), 0);
        return true;
}

Test(haste, a_group_leaves_others_as_many_looks) {
        unsigned n = 0;

        for (unsigned i = 0; i < 100; i++)
                n += look(1, 1 + i % 8, 1);
        cr_assert(n >= 8 && n <= HASTE_SHARES / 2, "%u", n);
        for (unsigned i = 0; i < 8; i++)
                cr_assert(look(2 + i, 100 + i, 1), "%u", i);
}

Test(haste, a_long_look_counts_as_several) {
        for (unsigned i = 0; i < 4; i++)
                cr_assert(look(1, 1, 49));
        cr_assert(look(2, 2, 400));
        cr_assert_not(look(2, 2, 1));
        cr_assert_not(look(2, 3, 1));
        cr_assert(look(3, 4, 1));
}

Test(haste, a_look_that_takes_for_ever_leaves_half_to_others) {
        cr_assert(look(1, 1, 30000));
        cr_assert_not(look(1, 1, 1));
        for (unsigned i = 0; i < 4; i++)
                cr_assert(look(2 + i, 2 + i, 1), "%u", i);
}

Test(haste, a_minute_has_all_again) {
        cr_assert(look(1, 1, 30000));
        cr_assert(look(2, 2, 30000));
        cr_assert_not(look(3, 3, 1));
        haste_begin(&haste, BEGIN_NS + 59 * NS_PER_SEC);
        cr_assert_not(look(3, 3, 1));
        haste_begin(&haste, BEGIN_NS + 60 * NS_PER_SEC);
        cr_assert(look(1, 1, 1));
}

Test(haste, the_heaviest_reason_counts_until_the_look_begins) {
        HasteWish wish = { 0 };

        cr_assert(haste_wish(&wish, "fast", 0, BEGIN_NS));
        cr_assert(haste_wish(&wish, "near", 1, BEGIN_NS));
        cr_assert_str_eq(wish.reason, "near");
        cr_assert(haste_wish(&wish, "fast", 0, BEGIN_NS));
        cr_assert_str_eq(wish.reason, "near");
        cr_assert(haste_wish(&wish, "out", 2, BEGIN_NS));
        cr_assert_str_eq(wish.reason, "out");
        /* the look begins: what comes now is one for itself */
        wish.reason = NULL;
        cr_assert(haste_wish(&wish, "fast", 0, BEGIN_NS));
        cr_assert_str_eq(wish.reason, "fast");
}

Test(haste, a_program_has_a_few_looks_in_a_minute) {
        HasteWish wish = { 0 };

        for (unsigned i = 0; i < HASTE_WISHES; i++) {
                wish.reason = NULL;
                cr_assert(haste_wish(&wish, "fast", 0, BEGIN_NS), "%u", i);
                /* more of them before the look are none */
                cr_assert(haste_wish(&wish, "near", 1, BEGIN_NS));
        }
        wish.reason = NULL;
        cr_assert_not(haste_wish(&wish, "out", 2, BEGIN_NS));
        cr_assert_null(wish.reason);
        cr_assert(haste_wish(&wish, "near", 1, BEGIN_NS + 60 * NS_PER_SEC));
}
