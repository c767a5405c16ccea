/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

#include "host/sampling/aggregate/window-shares.h"
#include "stat-reset.h"

enum { ROWS = 1000 };

typedef struct Bench {
        Window *window;
        WindowShares shares;
} Bench;

static void bench_init(Bench *bench) {
        WindowLimits limits = window_default_limits;

        stat_reset();
        *bench = (Bench){ 0 };
        limits.max_strings = ROWS;
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

/* Adds so many strings, of which @number is the first. Return: how many found room. */
static int add_strings(Bench *bench, const Process *process, int number, int n) {
        int n_added = 0;

        for (int i = number; i < number + n; i++) {
                uint32_t index;
                char text[32];
                int r, size = snprintf(text, sizeof(text), "%u %d", process->pid, i);

                cr_assert_eq(window_shares_begin(&bench->shares, bench->window, process), 0);
                r = window_string(bench->window, text, (size_t)size, &index);
                window_shares_end(&bench->shares, bench->window);
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
        cr_assert_lt(add_strings(&bench, &nobody, 0, ROWS), ROWS);
        cr_assert_eq(add_strings(&bench, &first, 0, 1), 1);
        cr_assert_eq(add_strings(&bench, &second, 1, 1), 1);
        window_shares_reset(&bench.shares);
        cr_assert_null(bench.shares.shares.root, "all is given back");
        bench_deinit(&bench);
}
