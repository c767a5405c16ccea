/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/profile/copy.h"
#include "core/profile/span-reach.h"

#define MS NS_PER_MS

typedef struct Filling {
        Window *window;
        uint32_t ticks, waits;          /* profiles */
} Filling;

static Filling begin(void) {
        Filling filling;
        uint32_t resource;

        cr_assert_eq(window_new(&filling.window, 0, 0, NULL), 0);
        cr_assert_eq(window_resource(filling.window, 1, &resource), 0);
        cr_assert_eq(window_profile(filling.window, resource, PROFILE_CPU, &filling.ticks), 0);
        cr_assert_eq(window_profile(filling.window, resource, PROFILE_OFF_CPU, &filling.waits), 0);
        return filling;
}

/* @operation: NULL = the event names none. @value: of a wait, else 1. */
static uint32_t add(Filling *filling, uint32_t profile, uint8_t trace, uint8_t span, const char *operation,
                    int64_t value, uint64_t time_ns) {
        const WindowLink link = { .trace_id = { trace }, .span_id = { span } };
        uint32_t at, attribute, set = 0;

        if (operation) {
                cr_assert_eq(window_attribute_string(filling->window, "http.route", operation, strlen(operation),
                                                     &attribute), 0);
                cr_assert_eq(window_attribute_set(filling->window, &attribute, 1, &set), 0);
        }
        cr_assert_eq(window_link(filling->window, &link, &at), 0);
        cr_assert_eq(window_sample(filling->window, profile, 0, set, at, value, time_ns), 0);
        return at;
}

Test(span_reach, is_from_the_begin_of_the_first_event_to_the_end_of_the_last) {
        Filling filling = begin();
        SpanReach *reaches;
        /* ticks alone; a wait at the begin; one at the end; one sample */
        uint32_t ticks = add(&filling, filling.ticks, 1, 1, NULL, 1, 100 * MS),
                 wait = add(&filling, filling.ticks, 1, 2, NULL, 1, 100 * MS),
                 last = add(&filling, filling.ticks, 1, 3, NULL, 1, 100 * MS),
                 one = add(&filling, filling.ticks, 1, 4, NULL, 1, 100 * MS);

        add(&filling, filling.ticks, 1, 1, NULL, 1, 130 * MS);
        add(&filling, filling.waits, 1, 2, NULL, 70 * MS, 90 * MS);
        add(&filling, filling.waits, 1, 3, NULL, 10 * MS, 150 * MS);
        cr_assert_eq(window_close(filling.window, 200 * MS), 0);
        cr_assert_eq(span_reaches(filling.window, NULL, NULL, &reaches), 0);
        cr_assert_eq(span_reach_ns(&reaches[ticks]), 30 * MS);
        cr_assert_eq(span_reach_ns(&reaches[wait]), 80 * MS);
        cr_assert_eq(span_reach_ns(&reaches[last]), 50 * MS);
        cr_assert_eq(span_reach_ns(&reaches[one]), 0);
        free(reaches);
        window_free(filling.window);
}

/* A wait that is longer than the clock has run, and less than nothing, are a stranger's. */
Test(span_reach, holds_for_values_that_cannot_be) {
        Filling filling = begin();
        SpanReach *reaches;
        uint32_t link = add(&filling, filling.waits, 1, 1, NULL, INT64_MAX, 5 * MS);

        add(&filling, filling.waits, 1, 1, NULL, -3, 7 * MS);
        cr_assert_eq(window_close(filling.window, 200 * MS), 0);
        cr_assert_eq(span_reaches(filling.window, NULL, NULL, &reaches), 0);
        cr_assert_eq(span_reach_ns(&reaches[link]), 7 * MS);
        free(reaches);
        window_free(filling.window);
}

/* What the flight recorder has shipped is read again by `report`. */
Test(span_reach, takes_a_kept_wait_for_a_wait) {
        WindowProfileNames names = { 0 };
        Filling filling = begin();
        SpanReach *reaches;
        uint32_t kept, link;

        cr_assert_eq(window_string(filling.window, "kept_off_cpu", strlen("kept_off_cpu"), &names.type), 0);
        cr_assert_eq(window_profile_named(filling.window, 1, &names, 0, &kept), 0);
        link = add(&filling, kept, 1, 1, NULL, 70 * MS, 90 * MS);
        cr_assert_eq(window_close(filling.window, 200 * MS), 0);
        cr_assert_eq(span_reaches(filling.window, NULL, NULL, &reaches), 0);
        cr_assert_eq(span_reach_ns(&reaches[link]), 70 * MS);
        free(reaches);
        window_free(filling.window);
}

static uint64_t count(const Window *window, uint64_t slower_ns, const char *operation, const char *trace) {
        char *operations[] = { (char *)operation }, *traces[] = { (char *)trace };
        const FilterOptions filter = { .slower_ns = slower_ns, .end_ns = UINT64_MAX,
                                       .operations = { operations, operation != NULL },
                                       .traces = { traces, trace != NULL } };
        const CopyOptions options = { .filter = &filter };
        CopyCounts counts;
        Window *to;

        cr_assert_eq(window_copy(&to, window, &options, &counts), 0);
        window_free(to);
        return counts.n_kept;
}

/* Trace 1: 300 ms of /cart, and a short span without a name; 2: 100 ms of /cart; 3: 400 ms of /pay. */
Test(span_reach, chooses_whole_traces_by_one_span) {
        Filling filling = begin();

        add(&filling, filling.ticks, 1, 1, "/cart", 1, 100 * MS);
        add(&filling, filling.ticks, 1, 1, NULL, 1, 400 * MS);
        add(&filling, filling.ticks, 1, 2, NULL, 1, 200 * MS);
        add(&filling, filling.ticks, 2, 3, "/cart", 1, 100 * MS);
        add(&filling, filling.ticks, 2, 3, "/cart", 1, 200 * MS);
        add(&filling, filling.ticks, 3, 4, "/pay", 1, 100 * MS);
        add(&filling, filling.ticks, 3, 4, "/pay", 1, 500 * MS);
        cr_assert_eq(window_sample(filling.window, filling.ticks, 0, 0, 0, 1, 300 * MS), 0);
        cr_assert_eq(window_close(filling.window, 600 * MS), 0);
        cr_assert_eq(count(filling.window, 0, NULL, NULL), 8);
        cr_assert_eq(count(filling.window, 250 * MS, NULL, NULL), 5, "1 and 3");
        cr_assert_eq(count(filling.window, 250 * MS, "/cart", NULL), 3, "all of 1");
        cr_assert_eq(count(filling.window, 99 * MS, "/c*", NULL), 5, "1 and 2");
        cr_assert_eq(count(filling.window, 100 * MS, "/cart", NULL), 3, "2 has just that");
        cr_assert_eq(count(filling.window, 350 * MS, "/cart", NULL), 0);
        cr_assert_eq(count(filling.window, 250 * MS, NULL, "03000000000000000000000000000000"), 2);
        window_free(filling.window);
}
