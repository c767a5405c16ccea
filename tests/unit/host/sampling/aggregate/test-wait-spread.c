/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "host/sampling/aggregate/wait-spread.h"

typedef struct Bench {
        WaitSpread spread;
        Window *window;
        uint32_t profile, attributes;
} Bench;

static const char reason[] = "futex";

static void bench_init(Bench *bench) {
        uint32_t attribute, resource;

        *bench = (Bench){ 0 };
        wait_spread_init(&bench->spread);
        cr_assert_eq(window_new(&bench->window, 1000, 0, NULL), 0);
        cr_assert_eq(window_resource(bench->window, 7, &resource), 0);
        cr_assert_eq(window_profile(bench->window, resource, PROFILE_OFF_CPU, &bench->profile), 0);
        cr_assert_eq(window_attribute_int(bench->window, "thread.id", 5, &attribute), 0);
        cr_assert_eq(window_attribute_set(bench->window, &attribute, 1, &bench->attributes), 0);
}

static void bench_deinit(Bench *bench) {
        wait_spread_deinit(&bench->spread);
        window_free(bench->window);
}

static WaitKind kind(const Bench *bench, uint32_t tid) {
        return (WaitKind){ .profile = bench->profile, .tid = tid, .state = 1, .reason = reason };
}

/* A walk of @ns, drawn from @weight; each set of attributes here stands for another stack. */
static void walk(Bench *bench, uint32_t tid, uint32_t attributes, uint64_t ns, double weight) {
        const WaitKind k = kind(bench, tid);
        uint32_t number;

        cr_assert_eq(window_sample_number(bench->window, bench->profile, 0, attributes, 0, &number), 0);
        cr_assert_eq(window_sample_event(bench->window, bench->profile, number, (int64_t)ns, 1500, true), 0);
        cr_assert_eq(wait_spread_walked(&bench->spread, &k, number, (double)ns * (weight - 1)), 0);
}

static void finish(Bench *bench) {
        cr_assert_eq(wait_spread_finish(&bench->spread, bench->window), 0);
        cr_assert_eq(window_close(bench->window, 2000), 0);
}

static int64_t value(const Bench *bench, uint32_t attributes) {
        int64_t sum = 0;

        for (uint32_t i = 0; i < window_get_profile(bench->window, bench->profile)->n_samples; i++) {
                WindowSample sample;

                window_get_sample(bench->window, bench->profile, i, &sample);
                if (sample.attributes == attributes)
                        sum += sample.value;
        }
        return sum;
}

/* The example of wait-spread.c. */
Test(wait_spread, divides_a_sum_by_what_each_walk_stands_for) {
        uint32_t f, g, attribute;
        WaitKind k;
        Bench bench;

        bench_init(&bench);
        k = kind(&bench, 5);
        f = bench.attributes;
        cr_assert_eq(window_attribute_int(bench.window, "thread.id", 6, &attribute), 0);
        cr_assert_eq(window_attribute_set(bench.window, &attribute, 1, &g), 0);
        walk(&bench, 5, f, 10, 4);
        walk(&bench, 5, g, 4, 4);
        walk(&bench, 5, f, 6, 4);
        cr_assert_eq(wait_spread_add(&bench.spread, &k, f, 60, 1600), 0);
        cr_assert_eq(wait_spread_add(&bench.spread, &k, f, 30, 1550), 0);
        finish(&bench);
        cr_expect_eq(value(&bench, f), 10 + 6 + 72);
        cr_expect_eq(value(&bench, g), 4 + 18);
        bench_deinit(&bench);
}

Test(wait_spread, loses_nothing_to_rounding) {
        uint32_t sets[7], attribute;
        int64_t sum = 0;
        WaitKind k;
        Bench bench;

        bench_init(&bench);
        k = kind(&bench, 5);
        for (uint32_t i = 0; i < 7; i++) {
                cr_assert_eq(window_attribute_int(bench.window, "thread.id", 100 + i, &attribute), 0);
                cr_assert_eq(window_attribute_set(bench.window, &attribute, 1, &sets[i]), 0);
                walk(&bench, 5, sets[i], 1000 + i, 3.7);
        }
        cr_assert_eq(wait_spread_add(&bench.spread, &k, sets[0], 1000003, 1600), 0);
        finish(&bench);
        for (uint32_t i = 0; i < 7; i++)
                sum += value(&bench, sets[i]);
        cr_expect_eq(sum, 1000003 + 7 * 1000 + 21);
        bench_deinit(&bench);
}

Test(wait_spread, keeps_kinds_apart_and_sums_without_a_walk) {
        uint32_t other, attribute;
        WaitKind k;
        Bench bench;

        bench_init(&bench);
        cr_assert_eq(window_attribute_int(bench.window, "thread.id", 6, &attribute), 0);
        cr_assert_eq(window_attribute_set(bench.window, &attribute, 1, &other), 0);
        walk(&bench, 5, bench.attributes, 10, 2);
        k = kind(&bench, 6);
        cr_assert_eq(wait_spread_add(&bench.spread, &k, other, 33, 1600), 0);
        finish(&bench);
        cr_expect_eq(value(&bench, bench.attributes), 10);
        cr_expect_eq(value(&bench, other), 33);
        bench_deinit(&bench);
}

Test(wait_spread, hands_no_time_of_short_waits_to_a_long_one) {
        uint32_t other, attribute;
        WaitKind k;
        Bench bench;

        bench_init(&bench);
        cr_assert_eq(window_attribute_int(bench.window, "thread.id", 6, &attribute), 0);
        cr_assert_eq(window_attribute_set(bench.window, &attribute, 1, &other), 0);
        walk(&bench, 5, bench.attributes, 10, 2);
        k = kind(&bench, 5);
        k.is_long = 1;
        cr_assert_eq(wait_spread_add(&bench.spread, &k, other, 33, 1600), 0);
        k.is_long = 0;
        cr_assert_eq(wait_spread_add(&bench.spread, &k, other, 4, 1600), 0);
        finish(&bench);
        cr_expect_eq(value(&bench, bench.attributes), 14);
        cr_expect_eq(value(&bench, other), 33);
        bench_deinit(&bench);
}

Test(wait_spread, is_empty_after_a_window) {
        WaitKind k;
        Bench bench;

        bench_init(&bench);
        k = kind(&bench, 5);
        cr_assert_eq(wait_spread_add(&bench.spread, &k, bench.attributes, 33, 1600), 0);
        cr_assert_eq(wait_spread_finish(&bench.spread, bench.window), 0);
        finish(&bench);
        cr_expect_eq(value(&bench, bench.attributes), 33);
        bench_deinit(&bench);
}

/* One thread's waits fill it, by another waker each time. What comes then is left whole to the caller. */
Test(wait_spread, takes_nothing_of_a_kind_that_has_no_room) {
        WaitKind k, later;
        Bench bench;

        bench_init(&bench);
        k = kind(&bench, 5);
        later = kind(&bench, 6);
        for (uint32_t i = 0; i < WAIT_SPREAD_MAX_KINDS; i++) {
                k.waker.tid = i;
                cr_assert_eq(wait_spread_add(&bench.spread, &k, bench.attributes, 1, 1500), 0);
        }
        cr_assert_eq(wait_spread_add(&bench.spread, &later, bench.attributes, 1000, 1500), 1);
        cr_assert_eq(wait_spread_add(&bench.spread, &k, bench.attributes, 1, 1500), 0, "this one is known");
        finish(&bench);
        cr_assert_eq(value(&bench, bench.attributes), WAIT_SPREAD_MAX_KINDS + 1);
        cr_assert_eq(wait_spread_add(&bench.spread, &later, bench.attributes, 1000, 2500), 0, "the next window");
        bench_deinit(&bench);
}
