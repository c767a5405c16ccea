/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Who waits when time to read programs with a runtime is used up: a user, its group, or all.
 */

#include <criterion/criterion.h>

#include "core/base/util/clock.h"
#include "host/sampling/runtime/attach-budget.h"

static AttachBudget budget;
static const uint64_t begin_ns = 1000 * NS_PER_SEC;

static void init(void) {
        cr_assert_not(attach_budget_is_overdrawn(&budget, begin_ns));
}
TestSuite(attach_budget, .init = init);

static AttachPayer payer(uint32_t group, uint32_t user) {
        return (AttachPayer){ .places = { [ATTACH_BUDGET_USER] = user, [ATTACH_BUDGET_GROUP] = group } };
}

static void spend(uint32_t group, uint32_t user, uint64_t ms) {
        const AttachPayer who = payer(group, user);

        attach_budget_spend(&budget, &who, ms * NS_PER_MS);
}

static AttachLevel waits(uint32_t group, uint32_t user) {
        const AttachPayer who = payer(group, user);

        return attach_budget_waits(&budget, &who);
}

static bool is_overdrawn(uint64_t later_ms) {
        return attach_budget_is_overdrawn(&budget, begin_ns + later_ms * NS_PER_MS);
}

Test(attach_budget, a_user_waits_until_it_owes_100_ms) {
        spend(1, 2, 90);
        cr_assert_not(is_overdrawn(0));
        spend(1, 2, 60);
        cr_assert(is_overdrawn(0));
        cr_assert_eq(waits(1, 2), ATTACH_BUDGET_USER);
        cr_assert_eq(waits(1, 3), ATTACH_BUDGET_LEVELS);
        cr_assert(is_overdrawn(999), "50 ms a second are paid");
        cr_assert_not(is_overdrawn(1000));
        cr_assert_eq(waits(1, 2), ATTACH_BUDGET_LEVELS);
}

Test(attach_budget, parts_of_milliseconds_are_paid_with_the_next) {
        spend(1, 2, 150);
        for (uint64_t us = 0; us < 1000 * 1000; us += 700)
                cr_assert(attach_budget_is_overdrawn(&budget, begin_ns + us * NS_PER_US));
        cr_assert_not(is_overdrawn(1000));
}

Test(attach_budget, a_group_waits_whoever_its_users_are) {
        for (uint32_t user = 0; user < 21; user++)
                spend(1, user, 100);
        cr_assert(is_overdrawn(0));
        cr_assert_eq(waits(1, 0), ATTACH_BUDGET_GROUP);
        cr_assert_eq(waits(1, 99), ATTACH_BUDGET_GROUP, "one that has used nothing");
        cr_assert_eq(waits(2, 99), ATTACH_BUDGET_LEVELS, "another group");
        cr_assert(is_overdrawn(999));
        cr_assert_not(is_overdrawn(1000), "100 ms a second are paid");
}

Test(attach_budget, all_wait_whatever_their_groups_are) {
        for (uint32_t group = 0; group < 42; group++)
                spend(group, group, 100);
        cr_assert(is_overdrawn(0));
        cr_assert_eq(waits(99, 99), ATTACH_BUDGET_ALL);
        cr_assert(is_overdrawn(999));
        cr_assert_not(is_overdrawn(1000), "200 ms a second are paid");
        cr_assert_eq(waits(99, 99), ATTACH_BUDGET_LEVELS);
}

static bool is_apart(const AttachPayer *a, const AttachPayer *b, AttachLevel level) {
        return a->places[level] != b->places[level];
}

Test(attach_budget, a_place_is_that_of_a_group_and_its_user) {
        const ShareOwner first = { .group = 7, .user = 1000, .process = 1 };
        const AttachPayer known = attach_budget_payer(&first);
        unsigned n_apart[ATTACH_BUDGET_LEVELS] = { 0 };

        for (uint32_t i = 1; i <= 100; i++) {
                const ShareOwner same = { .group = 7, .user = 1000, .process = i },
                                 user = { .group = 7, .user = 1000 + i, .process = 1 },
                                 group = { .group = 7 + i, .user = 1000, .process = 1 };
                AttachPayer other = attach_budget_payer(&same);

                cr_assert_arr_eq(&other, &known, sizeof(known));
                other = attach_budget_payer(&user);
                cr_assert_eq(other.places[ATTACH_BUDGET_GROUP], known.places[ATTACH_BUDGET_GROUP]);
                cr_assert_lt(other.places[ATTACH_BUDGET_USER], ATTACH_BUDGET_PLACES);
                n_apart[ATTACH_BUDGET_USER] += is_apart(&other, &known, ATTACH_BUDGET_USER);
                other = attach_budget_payer(&group);
                cr_assert_lt(other.places[ATTACH_BUDGET_GROUP], ATTACH_BUDGET_PLACES);
                n_apart[ATTACH_BUDGET_GROUP] += is_apart(&other, &known, ATTACH_BUDGET_GROUP);
                cr_assert_eq(other.places[ATTACH_BUDGET_ALL], 0);
        }
        cr_assert_gt(n_apart[ATTACH_BUDGET_USER], 80);
        cr_assert_gt(n_apart[ATTACH_BUDGET_GROUP], 80);
}
