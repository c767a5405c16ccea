/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/sampling/aggregate/window-shares.h"
#include "stat-reset.h"

enum { ROWS = 1000, BYTES = 4 << 20, DEPTH = 1000 };

typedef struct Bench {
        Window *window;
        WindowShares shares;
} Bench;

static void bench_init(Bench *bench) {
        WindowLimits limits = window_default_limits;

        stat_reset();
        *bench = (Bench){ 0 };
        limits.max_strings = limits.max_links = limits.max_times = ROWS;
        limits.max_bytes = BYTES;
        cr_assert_eq(window_new(&bench->window, 1, 0, &limits), 0);
}

static void bench_deinit(Bench *bench) {
        window_shares_deinit(&bench->shares);
        window_free(bench->window);
}

/* A process that is in no group with others; and this one, which is in its own. */
static const Process nobody = { .pid = 1 << 30, .generation = 1 };

static Process own(uint64_t generation) {
        return (Process){ .pid = (uint32_t)getpid(), .generation = generation };
}

static int add_string(Window *window, uint32_t pid, uint32_t number) {
        char text[32];
        int size = snprintf(text, sizeof(text), "%u %u", pid, number);
        uint32_t index;

        return window_string(window, text, (size_t)size, &index);
}

static int add_link(Window *window, uint32_t pid, uint32_t number) {
        WindowLink link = { 0 };
        uint32_t index;

        memcpy(link.trace_id, &pid, sizeof(pid));
        memcpy(link.span_id, &number, sizeof(number));
        return window_link(window, &link, &index);
}

static int add_stack(Window *window, uint32_t pid, uint32_t number) {
        FrameWord words[DEPTH];
        uint32_t index;

        for (uint32_t i = 0; i < DEPTH; i++)
                words[i] = (FrameWord)FRAME_MARK_UNKNOWN << 61 | (pid + i);
        words[0] += number;
        return window_stack(window, words, DEPTH, &index);
}

/* An event at a row that is there, or the first one. */
static int add_event(Window *window, uint32_t pid, uint32_t number) {
        uint32_t resource, profile;
        int r = window_resource(window, 1, &resource);

        if (!r)
                r = window_profile(window, resource, PROFILE_FINE, &profile);
        return r ? r : window_sample(window, profile, 0, 0, 0, 1, number);
}

typedef int (*AddRow)(Window *window, uint32_t pid, uint32_t number);

/* Adds so many rows, of which @number is the first. Return: how many found room. */
static uint32_t add(Bench *bench, const Process *process, AddRow add_row, uint32_t number, uint32_t n) {
        uint32_t n_added = 0;

        for (uint32_t i = number; i < number + n; i++) {
                int r;

                cr_assert_eq(window_shares_begin(&bench->shares, bench->window, 0, process), 0);
                r = add_row(bench->window, process->pid, i);
                window_shares_end(&bench->shares, bench->window, 0);
                cr_assert(!r || r == WINDOW_E_FULL);
                n_added += !r;
        }
        return n_added;
}

/* Both have nothing when the window is crowded. */
Test(window_shares, two_programs_of_one_process_are_counted_for_it) {
        const Process first = own(2), second = own(3);
        Bench bench;

        bench_init(&bench);
        cr_assert_lt(add(&bench, &nobody, add_string, 0, ROWS), ROWS);
        cr_assert_eq(add(&bench, &first, add_string, 0, 1), 1);
        cr_assert_eq(add(&bench, &second, add_string, 1, 1), 1);
        window_shares_reset(&bench.shares);
        for (int i = 0; i < WINDOW_N_PARTS; i++)
                cr_assert_null(bench.shares.parts[i].root, "all is given back");
        bench_deinit(&bench);
}

/* What it has of the other table is no matter. */
Test(window_shares, who_has_less_of_a_table_than_is_left_goes_on) {
        const Process process = own(2);
        Bench bench;
        uint32_t n;

        bench_init(&bench);
        cr_assert_eq(add(&bench, &process, add_string, 0, ROWS / 10), ROWS / 10);
        cr_assert_eq(add(&bench, &process, add_link, 0, ROWS / 2), ROWS / 2);
        n = add(&bench, &nobody, add_string, 0, ROWS);
        cr_assert(n > ROWS * 6 / 10 && n < ROWS * 7 / 10, "%u", n);
        cr_assert_eq(add(&bench, &process, add_string, ROWS, ROWS / 20), ROWS / 20);
        cr_assert_eq(add(&bench, &process, add_link, ROWS, ROWS / 20), ROWS / 20);
        cr_assert_eq(add(&bench, &nobody, add_string, ROWS, 1), 0);
        cr_assert_eq(add(&bench, &nobody, add_string, 0, 1), 1, "what is there is found");
        cr_assert_eq(add(&bench, &nobody, add_link, 0, 1), 1, "it has none of these");
        bench_deinit(&bench);
}

/* Programs of one control group count together, and leave as much as they have. */
Test(window_shares, a_group_with_more_than_is_left_adds_none) {
        const Process first = own(2), second = own(3);
        Bench bench;
        uint32_t n;

        bench_init(&bench);
        cr_assert_lt(add(&bench, &nobody, add_string, 0, ROWS), ROWS * 8 / 10);
        n = add(&bench, &first, add_string, 0, ROWS);
        cr_assert(n > ROWS / 10 && n < ROWS * 15 / 100, "%u", n);
        cr_assert_eq(add(&bench, &second, add_string, ROWS, 1), 0);
        bench_deinit(&bench);
}

/* A stack is one row, as a short string is. */
Test(window_shares, who_fills_the_memory_leaves_room_for_others) {
        const Process process = own(2);
        const uint32_t all = BYTES / (DEPTH * (int)sizeof(FrameWord)), few = all / 20;
        Bench bench;
        uint32_t n;

        bench_init(&bench);
        cr_assert_eq(add(&bench, &process, add_stack, 0, few), few);
        n = add(&bench, &nobody, add_stack, 0, all);
        cr_assert(n > all / 2 && n < all * 8 / 10, "%u of %u", n, all);
        cr_assert_eq(add(&bench, &nobody, add_string, 0, 1), 0);
        cr_assert_eq(add(&bench, &process, add_stack, few, few), few);
        cr_assert_eq(add(&bench, &process, add_string, 0, 1), 1);
        bench_deinit(&bench);
}

/* Times are no rows, but there are only so many. */
Test(window_shares, who_has_most_times_leaves_some_to_others) {
        const Process process = own(2);
        Bench bench;

        bench_init(&bench);
        cr_assert_eq(add(&bench, &nobody, add_event, 0, ROWS), ROWS / 4 * 3);
        cr_assert_eq(add(&bench, &nobody, add_string, 0, 1), 0, "no row of a sample that is lost");
        cr_assert_eq(add(&bench, &process, add_event, 0, ROWS / 10), ROWS / 10);
        bench_deinit(&bench);
}

static void check_half(AddRow add_row, uint32_t n_all) {
        const Process process = own(2);
        const uint32_t max = n_all / 2;
        WindowFill fill;
        uint32_t n;
        Bench bench;

        bench_init(&bench);
        bench.shares.of_half = true;
        n = add(&bench, &nobody, add_row, 0, n_all);
        cr_assert(n > max * 6 / 10 && n < max * 9 / 10, "one has %u of %u", n, max);
        n = add(&bench, &process, add_row, n_all, max / 10);
        cr_assert_eq(n, max / 10, "another goes on");
        add(&bench, &process, add_row, n_all, n_all);
        window_fill(bench.window, &fill);
        for (int i = 0; i < WINDOW_N_PARTS; i++)
                cr_assert_leq(fill.parts[i], WINDOW_FILL_MAX / 2 + WINDOW_FILL_MAX / 100, "part %d", i);
        /* what is exported has shares of its own, in which nobody has anything so far */
        window_shares_reset(&bench.shares);
        bench.shares.of_half = false;
        cr_assert_eq(add(&bench, &nobody, add_row, 3 * n_all, n_all / 8), n_all / 8);
        bench_deinit(&bench);
}

Test(window_shares, half_of_a_table_is_left_to_others) {
        check_half(add_string, ROWS);
        check_half(add_link, ROWS);
}

Test(window_shares, half_of_the_times_is_left_to_others) {
        check_half(add_event, ROWS);
}

Test(window_shares, half_of_the_memory_is_left_to_others) {
        check_half(add_stack, BYTES / (DEPTH * (int)sizeof(FrameWord)));
}

/* An event takes memory, though all its rows may be there. */
Test(window_shares, no_event_is_added_once_half_of_the_memory_is_filled) {
        Bench bench;

        bench_init(&bench);
        cr_assert_eq(add(&bench, &nobody, add_event, 0, 1), 1);
        add(&bench, &nobody, add_stack, 0, ROWS);
        window_shares_reset(&bench.shares);
        cr_assert_eq(add(&bench, &nobody, add_event, 1, 1), 1);
        window_shares_reset(&bench.shares);
        bench.shares.of_half = true;
        cr_assert_eq(add(&bench, &nobody, add_event, 2, 1), 0);
        bench_deinit(&bench);
}
