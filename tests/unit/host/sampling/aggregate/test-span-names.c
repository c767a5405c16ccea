/* SPDX-License-Identifier: Apache-2.0 */

/* Spans whose name came late, in windows that are made by hand. */

#include <criterion/criterion.h>
#include <stdarg.h>
#include <string.h>

#include "core/profile/operation.h"
#include "host/sampling/aggregate/span-names.h"

enum { N = 1000 };

static Window *window;

static void setup(void) {
        cr_assert_eq(window_new(&window, N, 0, NULL), 0);
}

static void teardown(void) {
        window = window_free(window);
}

TestSuite(span_names, .init = setup, .fini = teardown);

static uint32_t profile_of(uint64_t process, ProfileType type) {
        uint32_t resource, profile;

        cr_assert_eq(window_resource(window, process, &resource), 0);
        cr_assert_eq(window_profile(window, resource, type, &profile), 0);
        return profile;
}

/* Keys and values, up to NULL. */
static uint32_t set_of(const char *key, ...) {
        uint32_t attributes[8], set;
        size_t n = 0;
        va_list args;

        va_start(args, key);
        for (; key; key = va_arg(args, const char *)) {
                const char *value = va_arg(args, const char *);

                cr_assert_eq(window_attribute_string(window, key, value, strlen(value), &attributes[n++]), 0);
        }
        va_end(args);
        cr_assert_eq(window_attribute_set(window, attributes, n, &set), 0);
        return set;
}

static uint32_t link_of(uint8_t span) {
        WindowLink link = { .trace_id = { 1 }, .span_id = { span } };
        uint32_t index;

        cr_assert_eq(window_link(window, &link, &index), 0);
        return index;
}

static void add(uint32_t profile, uint32_t set, uint32_t link, uint64_t time_ns) {
        cr_assert_eq(window_sample(window, profile, 0, set, link, 1, time_ns), 0);
}

static void settle(void) {
        cr_assert_eq(span_names_settle(window), 0);
        cr_assert_eq(window_close(window, 2 * N), 0);
}

static WindowSample get(uint32_t profile, uint32_t index) {
        WindowSample sample;

        cr_assert_lt(index, window_get_profile(window, profile)->n_samples);
        window_get_sample(window, profile, index, &sample);
        return sample;
}

static const char *text_of(uint32_t set, const char *key) {
        size_t n;
        const uint32_t *attributes = window_get_attribute_set(window, set, &n);

        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *attribute = window_get_attribute(window, attributes[i]);

                if (!strcmp(window_get_string(window, attribute->key, NULL), key))
                        return window_get_string(window, attribute->string, NULL);
        }
        return NULL;
}

Test(span_names, the_last_name_of_a_span_is_that_of_its_earlier_samples) {
        uint32_t profile = profile_of(1, PROFILE_CPU);
        WindowSample sample;

        add(profile, set_of("thread.name", "a", "span.name", "GET", NULL), link_of(1), N + 1);
        add(profile, set_of("thread.name", "b", NULL), link_of(1), N + 2);
        add(profile, set_of("thread.name", "a", "span.name", "GET /cart/:id", "http.route", "/cart/:id", NULL),
            link_of(1), N + 3);
        settle();
        cr_assert_eq(window_get_profile(window, profile)->n_samples, 2, "two of them are the same by now");
        for (uint32_t i = 0; i < 2; i++) {
                sample = get(profile, i);
                cr_expect_str_eq(text_of(sample.attributes, "span.name"), "GET /cart/:id");
                cr_expect_str_eq(text_of(sample.attributes, "http.route"), "/cart/:id");
                cr_expect_eq(sample.link, link_of(1));
        }
        cr_expect_str_eq(text_of(get(profile, 1).attributes, "thread.name"), "b");
        sample = get(profile, 0);
        cr_expect_str_eq(text_of(sample.attributes, "thread.name"), "a");
        cr_assert_eq(sample.n_times, 2);
        cr_expect_eq(sample.times_ns[0], N + 1);
        cr_expect_eq(sample.times_ns[1], N + 3);
        cr_expect_eq(sample.value, 2);
        cr_expect_eq(window_n_events(window), 3);
}

Test(span_names, a_name_reaches_all_profiles_of_its_process) {
        uint32_t cpu = profile_of(1, PROFILE_CPU), waits = profile_of(1, PROFILE_OFF_CPU);

        add(waits, set_of("thread.name", "a", NULL), link_of(1), N + 1);
        add(cpu, set_of("thread.name", "a", "span.name", "checkout", NULL), link_of(1), N + 2);
        settle();
        cr_assert_str_eq(text_of(get(waits, 0).attributes, "span.name"), "checkout");
}

Test(span_names, other_spans_other_processes_and_samples_without_a_span_keep_theirs) {
        uint32_t ours = profile_of(1, PROFILE_CPU), theirs = profile_of(2, PROFILE_CPU);
        uint32_t plain = set_of("thread.name", "a", NULL);

        add(ours, plain, link_of(1), N + 1);
        add(ours, plain, link_of(2), N + 2);
        add(ours, plain, 0, N + 3);
        add(ours, set_of("span.name", "GET /", NULL), link_of(2), N + 4);
        add(theirs, set_of("span.name", "a lie", NULL), link_of(1), N + 5);
        add(theirs, set_of("span.name", "a lie", NULL), link_of(2), N + 6);
        settle();
        for (uint32_t i = 0; i < window_get_profile(window, ours)->n_samples; i++) {
                WindowSample sample = get(ours, i);
                const char *name = text_of(sample.attributes, "span.name");

                if (sample.link == link_of(2))
                        cr_expect_str_eq(name, "GET /");
                else
                        cr_expect_null(name);
        }
        cr_expect_str_eq(text_of(get(theirs, 0).attributes, "span.name"), "a lie");
}

Test(span_names, a_window_without_names_stays_as_it_is) {
        uint32_t profile = profile_of(1, PROFILE_CPU), set = set_of("thread.name", "a", NULL);

        add(profile, set, link_of(1), N + 1);
        add(profile, set, 0, N + 2);
        settle();
        cr_assert_eq(get(profile, 0).attributes, set);
        cr_assert_eq(get(profile, 1).attributes, set);
}

Test(span_names, of_several_keys_the_best_names_the_operation) {
        uint32_t attribute;

        cr_assert(operation_of_set(window, set_of("http.route", "/a", "span.name", "GET /a", NULL), &attribute));
        cr_assert_str_eq(window_get_string(window, window_get_attribute(window, attribute)->string, NULL),
                         "GET /a");
        cr_assert_not(operation_of_set(window, set_of("thread.name", "a", "span.name", "", NULL), &attribute));
        cr_assert_not(operation_of_set(window, 0, &attribute));
}
