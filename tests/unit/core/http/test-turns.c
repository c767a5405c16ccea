/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/http/turns.h"

static Turns *turns;

static void setup(void) {
        turns = turns_new();
        cr_assert_not_null(turns);
}

static void teardown(void) {
        turns_free(turns);
}

TestSuite(turns, .init = setup, .fini = teardown);

/* Serves who of the two is next; both always wait. Return: whether it was @a. */
static bool serve(const char *a, uint64_t took_a, const char *b, uint64_t took_b) {
        bool first = turns_of(turns, a) <= turns_of(turns, b);

        turns_served(turns, first ? a : b, first ? took_a : took_b);
        return first;
}

Test(turns, give_each_sender_the_same_time) {
        unsigned n_slow = 0, n_quick = 0;

        for (int i = 0; i < 1100; i++)
                if (serve("10.0.0.7", 1000, "10.0.0.8", 10))
                        n_slow++;
                else
                        n_quick++;
        cr_expect_eq(n_slow, 11);
        cr_expect_eq(n_quick, 1089);
}

Test(turns, a_new_sender_comes_before_one_that_was_served_long) {
        for (int i = 0; i < 100; i++)
                turns_served(turns, "10.0.0.7", 1000);
        cr_expect_lt(turns_of(turns, "10.0.0.9"), turns_of(turns, "10.0.0.7"));
        cr_expect_gt(turns_of(turns, "10.0.0.9"), 0, "what it did not use is not saved up");
}

Test(turns, one_that_is_alone_is_not_kept_waiting_by_what_it_has_used) {
        for (int i = 0; i < 100; i++)
                turns_served(turns, "10.0.0.7", 1000);
        turns_served(turns, "10.0.0.9", 10);
        turns_served(turns, "10.0.0.7", 1000);
        cr_expect_leq(turns_of(turns, "10.0.0.7") - turns_of(turns, "10.0.0.9"), 1000, "one request, and not all");
}

Test(turns, forget_who_owes_least) {
        char name[32];

        turns_served(turns, "10.0.0.7", 1000000);
        for (int i = 0; i < 4 * TURNS_MAX; i++) {
                snprintf(name, sizeof(name), "192.0.2.%d", i);
                turns_served(turns, name, 1);
        }
        cr_expect_eq(turns_of(turns, "10.0.0.7"), 1000000);
}

Test(turns, give_each_sender_so_many_requests_in_a_time) {
        const uint64_t second = 1000000000;
        char name[32];

        for (int i = 0; i < 10000; i++)
                cr_assert(turns_begin(turns, "10.0.0.7", 100 * second));
        cr_expect_not(turns_begin(turns, "10.0.0.7", 109 * second));
        cr_expect(turns_begin(turns, "10.0.0.8", 109 * second), "another one has its own");
        cr_expect(turns_begin(turns, "10.0.0.7", 110 * second));

        for (int i = 0; i < 10000; i++)
                turns_begin(turns, "10.0.0.7", 110 * second);
        turns_served(turns, "10.0.0.7", 1000);
        for (int i = 0; i < 4 * TURNS_MAX; i++) {
                snprintf(name, sizeof(name), "10.1.%d.%d", i / 256, i % 256);
                cr_assert(turns_begin(turns, name, 111 * second));
        }
        cr_expect_not(turns_begin(turns, "10.0.0.7", 112 * second), "who sends much is not forgotten");
}
