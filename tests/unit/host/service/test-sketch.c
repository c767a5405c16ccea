/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "host/service/watch/sketch.h"

enum {
        OPERATIONS = 5,
        FUNCTIONS = 40,
        SLOTS = 256,                    /* of an operation: which functions it runs, by their shares */
        WINDOW_S = 15,
        WINDOWS = 120,                  /* half an hour */
        COMPARISONS = 1000,
};

static uint64_t state;

static uint32_t draw(uint32_t n) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        return (uint32_t)(((state >> 32) * n) >> 32);
}

/* Between -1 and 1, of a bell's form; its variance is a third of a quarter. */
static double bell(void) {
        double sum = 0;

        for (int i = 0; i < 4; i++)
                sum += (double)draw(1 << 20) / (1 << 19) - 1;
        return sum / 4;
}

/*
 * A service whose requests are of several operations. How many there are of each wanders: what a window has
 * is like what the one before had, and shares of functions move by a third within minutes.
 */
typedef struct Service {
        uint8_t runs[OPERATIONS][SLOTS];
        double load[OPERATIONS];
        double memory;                  /* of the load, from window to window */
} Service;

static void make_service(Service *service, double memory) {
        *service = (Service){ .memory = memory };
        for (int i = 0; i < OPERATIONS; i++)
                for (int j = 0; j < SLOTS; j++) {
                        uint32_t a = draw(FUNCTIONS), b = draw(FUNCTIONS);

                        service->runs[i][j] = (uint8_t)MIN(a, b);       /* some are large */
                }
}

/* What one window has of each function. @planted: thousandths of the time that go to function @function. */
static void run_window(Service *service, uint32_t n, uint32_t function, uint32_t planted,
                       uint32_t counts[static FUNCTIONS]) {
        uint32_t ends[OPERATIONS], end = 0;

        memset(counts, 0, FUNCTIONS * sizeof(*counts));
        for (int i = 0; i < OPERATIONS; i++) {
                double weight;

                service->load[i] = service->memory * service->load[i] + (1 - service->memory) * 8 * bell();
                weight = MAX(1 + service->load[i], 0.05);
                ends[i] = end += (uint32_t)(1000 * weight);
        }
        for (uint32_t i = 0; i < n; i++) {
                uint32_t at = draw(end);
                int operation = 0;

                while (at >= ends[operation])
                        operation++;
                if (draw(1000) < planted)
                        counts[function]++;
                else
                        counts[service->runs[operation][draw(SLOTS)]]++;
        }
}

static void feed(Sketch *sketch, const uint32_t counts[static FUNCTIONS], uint64_t watch_ns) {
        char name[32];

        for (uint32_t i = 0; i < FUNCTIONS; i++) {
                snprintf(name, sizeof(name), "function_%u", i);
                if (counts[i])
                        sketch_add(sketch, i + 1, name, counts[i]);
        }
        sketch_pass(sketch, WINDOW_S * NS_PER_SEC, watch_ns / SKETCH_ENOUGH_BLOCKS);
}

/* A build that runs until it can be compared; @load: samples of a window. */
static Sketch *run_build(Service *service, uint32_t load, uint32_t function, uint32_t planted) {
        Sketch *sketch = calloc(1, sizeof(*sketch));
        uint32_t counts[FUNCTIONS];

        memset(service->load, 0, sizeof(service->load));
        for (int i = 0; i < 60; i++)            /* from anywhere */
                run_window(service, 0, 0, 0, counts);
        for (int i = 0; !sketch_is_enough(sketch); i++) {
                cr_assert_lt(i, 2 * WINDOWS);
                run_window(service, load / 2 + draw(load), function, planted, counts);
                feed(sketch, counts, WINDOWS * WINDOW_S * NS_PER_SEC);
        }
        return sketch;
}

static uint32_t compare(Service *service, uint32_t load, uint32_t function, uint32_t planted,
                        SketchVerdict *verdict) {
        Sketch *before = run_build(service, load, 0, 0);
        Sketch *after = run_build(service, load, function, planted);

        sketch_compare(before, after, verdict);
        free(before);
        free(after);
        return verdict->n_slower;
}

/* The load is half forgotten after 15 s, 45 s and five minutes. */
static double memory_of(int i) {
        return (double[]){ 0.5, 0.8, 0.966 }[i % 3];
}

Test(sketch, equal_builds_are_equal) {
        uint32_t n_false = 0, n_samples = 120;  /* in 15 s: a twelfth of a CPU at 99 Hz */
        SketchVerdict verdict;
        Service service;

        state = 1;
        for (int i = 0; i < COMPARISONS; i++) {
                make_service(&service, memory_of(i));
                n_false += compare(&service, n_samples, 0, 0, &verdict) > 0;
                cr_assert_geq(verdict.n_compared, FUNCTIONS / 2);
        }
        cr_assert_leq(n_false, 1);
}

Test(sketch, five_points_are_found) {
        SketchVerdict verdict;
        Service service;

        state = 2;
        for (int i = 0; i < 30; i++) {
                const SketchSlower *found = &verdict.slower[0];

                make_service(&service, memory_of(i));
                cr_assert_geq(compare(&service, i % 2 ? 120 : 740, 7, 50, &verdict), 1);
                cr_assert_str_eq(found->name, "function_7");
                cr_assert_lt(found->low, found->after - found->before);
                cr_assert_gt(found->high, found->after - found->before);
                cr_assert_gt(found->low, 0);
                cr_assert_lt(found->low, 50000);
                cr_assert_gt(found->high, 40000);
        }
}

/* Blocks of one length each; @counts: of functions 1, 2, … */
static Sketch *make_sketch(const char *build, const uint32_t *counts, uint32_t n, uint32_t n_blocks) {
        Sketch *sketch = calloc(1, sizeof(*sketch));
        char name[32];

        strcpy(sketch->build, build);
        for (uint32_t block = 0; block < n_blocks; block++) {
                for (uint32_t i = 0; i < n; i++) {
                        snprintf(name, sizeof(name), "function_%u", i + 1);
                        if (counts[i])
                                sketch_add(sketch, i + 1, name, counts[i]);
                }
                sketch_pass(sketch, 10, 10);
        }
        return sketch;
}

Test(sketch, who_is_left_with_more_is_not_slower) {
        const uint32_t before[] = { 400, 100, 100, 100, 100, 100, 100 },
                       after[] = { 100, 150, 150, 150, 150, 150, 150 },
                       other[] = { 100, 150, 150, 150, 150, 150, 300 };
        Sketch *a = make_sketch("a", before, 7, 40), *b = make_sketch("b", after, 7, 40),
               *c = make_sketch("c", other, 7, 40);
        SketchVerdict verdict;

        sketch_compare(a, b, &verdict);
        cr_assert_eq(verdict.n_slower, 0);
        sketch_compare(b, a, &verdict);
        cr_assert_eq(verdict.n_slower, 1);
        cr_assert_str_eq(verdict.slower[0].name, "function_1");
        sketch_compare(a, c, &verdict);
        cr_assert_eq(verdict.n_slower, 1);
        cr_assert_str_eq(verdict.slower[0].name, "function_7");
        cr_assert_str_eq(verdict.before, "a");
        cr_assert_str_eq(verdict.after, "c");
        free(a);
        free(b);
        free(c);
}

Test(sketch, lists_the_largest_changes_first) {
        uint32_t before[20] = { 2000 }, after[20] = { 1000 };
        Sketch *a, *b;
        SketchVerdict verdict;

        for (uint32_t i = 1; i < 20; i++)
                after[i] = 40 + i * 7 % 20;
        a = make_sketch("a", before, 20, 40);
        b = make_sketch("b", after, 20, 40);
        sketch_compare(a, b, &verdict);
        cr_assert_eq(verdict.n_slower, 19);
        for (uint32_t i = 1; i < SKETCH_SLOWER; i++)
                cr_assert_geq(verdict.slower[i - 1].after, verdict.slower[i].after);
        cr_assert_eq(verdict.slower[0].before, 0);
        free(a);
        free(b);
}

Test(sketch, keeps_the_last_blocks) {
        Sketch *sketch = make_sketch("a", (uint32_t[]){ 10, 0 }, 2, 100);

        cr_assert_eq(sketch->n_blocks, SKETCH_BLOCKS - 1);
        cr_assert_eq(sketch_samples(sketch), 10 * (SKETCH_BLOCKS - 1));
        cr_assert_eq(sketch->rows[0].since, 0);
        sketch_add(sketch, 2, "late", 10);
        cr_assert_eq(sketch->rows[1].since, SKETCH_BLOCKS - 1);
        free(sketch);
}

/* Each block has 300 functions more that no other block has, which are smaller than those that stay. */
Test(sketch, what_has_no_row_makes_nothing_slower) {
        uint32_t n_without_row = 0;
        Sketch *sketches[2];
        SketchVerdict verdict;

        for (int side = 0; side < 2; side++) {
                Sketch *sketch = sketches[side] = calloc(1, sizeof(*sketch));

                for (uint32_t block = 0; block < 40; block++) {
                        for (uint32_t i = 0; i < 50; i++)
                                sketch_add(sketch, 1 + i, "stays", 100);
                        if (side)       /* has a row here */
                                sketch_add(sketch, 999, "rare", 39);
                        for (uint32_t i = 0; i < 300; i++)
                                n_without_row += !sketch_add(sketch, 1000 + (block * 2 + side) * 300 + i,
                                                             "comes", 40);
                        if (!side)
                                n_without_row += !sketch_add(sketch, 999, "rare", 39);
                        sketch_pass(sketch, 10, 10);
                }
                cr_assert_eq(sketch->n_rows, SKETCH_ROWS_LEFT);
        }
        cr_assert_geq(n_without_row, 2 * 40 * (351 - SKETCH_ROWS));
        for (uint32_t block = 0; block < 40; block++)
                cr_assert_eq(sketches[0]->missed[block], 40, "%u", block);
        sketch_compare(sketches[0], sketches[1], &verdict);
        cr_assert_eq(verdict.n_slower, 0);
        free(sketches[0]);
        free(sketches[1]);
}

static Sketch *make_named(const char *const names[4], const uint32_t counts[4]) {
        Sketch *sketch = calloc(1, sizeof(*sketch));

        for (uint32_t block = 0; block < 40; block++) {
                for (uint32_t i = 0; i < 4; i++)
                        if (counts[i])
                                sketch_add(sketch, sketch_hash(names[i]), names[i], counts[i]);
                sketch_pass(sketch, 10, 10);
        }
        return sketch;
}

Test(sketch, what_has_no_name_is_no_function) {
        const char *const names[] = { "main", "parse", "[shopd]", "[libc.so.6]" };
        Sketch *some = make_named(names, (uint32_t[]){ 300, 100, 500, 100 }),
               *more = make_named(names, (uint32_t[]){ 300, 500, 100, 100 }),
               *slow = make_named(names, (uint32_t[]){ 300, 200, 500, 100 });
        SketchVerdict verdict;

        sketch_compare(more, some, &verdict);   /* names are missing */
        cr_assert_eq(verdict.n_compared, 2);
        cr_assert_eq(verdict.n_slower, 0);
        sketch_compare(some, more, &verdict);   /* names have come */
        cr_assert_eq(verdict.n_slower, 0);
        sketch_compare(some, slow, &verdict);   /* what has none as before hides nothing */
        cr_assert_eq(verdict.n_slower, 1);
        cr_assert_str_eq(verdict.slower[0].name, "parse");
        free(some);
        free(more);
        free(slow);
}

Test(sketch, needs_samples_and_blocks) {
        Sketch *few = make_sketch("a", (uint32_t[]){ 62 }, 1, SKETCH_ENOUGH_BLOCKS),
               *enough = make_sketch("a", (uint32_t[]){ 63 }, 1, SKETCH_ENOUGH_BLOCKS),
               *brief = make_sketch("a", (uint32_t[]){ 1000 }, 1, SKETCH_ENOUGH_BLOCKS - 1);

        cr_assert(!sketch_is_enough(few));
        cr_assert(sketch_is_enough(enough));
        cr_assert(!sketch_is_enough(brief));
        free(few);
        free(enough);
        free(brief);
}
