/* SPDX-License-Identifier: Apache-2.0 */

/* Which type of a window is shown, where one is seen alone or first. */

#include <criterion/criterion.h>

#include "core/profile/shown.h"
#include "fill-window.h"

static Window *window;
static uint32_t resource;

static void setup(void) {
        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        cr_assert_eq(window_resource(window, 1, &resource), 0);
}

static void teardown(void) {
        window_free(window);
}

static void add(const char *type, const char *unit, const char *period_type, unsigned n_events) {
        const WindowProfileNames names = { .type = fill_string(window, type),
                                           .unit = fill_string(window, unit),
                                           .period_type = fill_string(window, period_type),
                                           .period_unit = fill_string(window, "nanoseconds") };
        uint32_t profile;

        cr_assert_eq(window_profile_named(window, resource, &names, 512, &profile), 0);
        for (unsigned i = 0; i < n_events; i++)
                cr_assert_eq(window_sample_untimed(window, profile, 0, 0, 0, 1), 0);
}

static void check(const char *expected) {
        const WindowProfile *found;

        cr_assert_eq(window_close(window, 2), 0);
        found = shown_find(window);
        cr_assert_str_eq(window_get_string(window, found->names.type, NULL), expected);
}

TestSuite(shown, .init = setup, .fini = teardown);

Test(shown, nothing_of_an_empty_window) {
        cr_assert_eq(window_close(window, 2), 0);
        cr_assert_null(shown_find(window));
}

Test(shown, the_type_with_the_most_events) {
        add("alloc_space", "bytes", "space", 2);
        add("lock", "nanoseconds", "lock", 3);
        add("alloc_objects", "count", "space", 3);
        check("lock");
}

Test(shown, memory_in_use_before_what_has_more_events) {
        add("alloc_objects", "count", "space", 3);
        add("alloc_space", "bytes", "space", 3);
        add("inuse_objects", "count", "space", 2);
        add("inuse_space", "bytes", "space", 1);
        check("inuse_space");
}

Test(shown, time_of_the_cpu_before_memory_in_use) {
        add("inuse_space", "bytes", "space", 3);
        add("samples", "count", "cpu", 1);
        check("samples");
}

Test(shown, tells_periods_that_differ_more_than_jitter_makes_them) {
        cr_assert(!shown_is_uneven(0, 100));
        cr_assert(!shown_is_uneven(75, 125));
        cr_assert(shown_is_uneven(50, 100));
}
