/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/stat.h"
#include "core/profile/window.h"
#include "stat-reset.h"

static Window *new_window(const WindowLimits *limits) {
        Window *window = NULL;

        cr_assert_eq(window_new(&window, 1000, 5000000, limits), 0);
        return window;
}

static uint32_t string(Window *window, const char *text) {
        uint32_t index = UINT32_MAX;

        cr_assert_eq(window_string(window, text, strlen(text), &index), 0);
        return index;
}

/* A module without a known range; @offset makes it distinct. */
static uint32_t module(Window *window, uint64_t limit, uint64_t offset) {
        WindowModule row = { .path = string(window, "/bin/x"), .build_id_gnu = string(window, "0a1b"),
                             .limit = limit, .offset = offset };
        uint32_t index = 0;

        cr_assert_eq(window_module(window, &row, &index), 0);
        return index;
}

/* Rows of OTLP must differ, so the second and third say that they are others. */
Test(window, numbers_modules_that_differ_in_their_file_alone) {
        Window *window;
        uint32_t indexes[3], again;

        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        for (uint64_t i = 0; i < 3; i++) {
                WindowModule row = { .path = string(window, "/bin/x"),
                                     .build_id_gnu = string(window, "0a1b"),
                                     .limit = 9,
                                     .file = 100 + i };
                const uint32_t *set;
                const WindowAttribute *last;
                size_t n;

                cr_assert_eq(window_module(window, &row, &indexes[i]), 0);
                cr_assert_eq(window_module(window, &row, &again), 0);
                cr_assert_eq(again, indexes[i]);
                cr_assert(!i || indexes[i] != indexes[i - 1]);
                set = window_get_attribute_set(window, window_get_module_attributes(window, indexes[i]), &n);
                cr_assert_eq(n, i ? 2 : 1);
                last = window_get_attribute(window, set[n - 1]);
                if (i)
                        cr_assert(!strcmp(window_get_string(window, last->key, NULL), "spanprof.file") &&
                                  last->integer == (int64_t)i + 1);
        }
        window_free(window);
}

static uint32_t cpu_profile(Window *window, uint64_t key) {
        uint32_t resource, profile;

        cr_assert_eq(window_resource(window, key, &resource), 0);
        cr_assert_eq(window_profile(window, resource, PROFILE_CPU, &profile), 0);
        return profile;
}

Test(window, has_an_empty_row_at_0_of_every_table) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        WindowModule no_module = { 0 };
        WindowFunction no_function = { 0 };
        WindowLink no_link = { 0 };
        uint32_t index;
        size_t n;

        cr_assert_eq(string(window, ""), 0);
        cr_assert_str_eq(window_get_string(window, 0, &n), "");
        cr_assert_eq(n, 0);
        cr_assert_eq(window_module(window, &no_module, &index), 0);
        cr_assert_eq(index, 0);
        cr_assert_eq(window_function(window, &no_function, &index), 0);
        cr_assert_eq(index, 0);
        cr_assert_eq(window_link(window, &no_link, &index), 0);
        cr_assert_eq(index, 0);
        cr_assert_eq(window_stack(window, NULL, 0, &index), 0);
        cr_assert_eq(index, 0);
        cr_assert_eq(window_attribute_set(window, NULL, 0, &index), 0);
        cr_assert_eq(index, 0);
        cr_assert_eq(window_n_stacks(window), 1);
        cr_assert_eq(window_n_resources(window), 1);
        cr_assert_eq(window_n_profiles(window), 0);
}

Test(window, has_a_serial_of_its_own) {
        _cleanup_(window_freep) Window *a = new_window(NULL), *b = new_window(NULL);

        cr_assert_neq(window_serial(a), 0);
        cr_assert_neq(window_serial(a), window_serial(b));
}

Test(window, gives_profiles_ids_that_differ_in_little) {
        enum { N = 600 };
        Window *windows[2] = { new_window(NULL), new_window(NULL) };
        static uint8_t ids[2][N][16];

        for (int w = 0; w < 2; w++)
                for (uint32_t i = 0; i < N; i++) {
                        uint32_t resource, profile;

                        cr_assert_eq(window_resource(windows[w], i + 1, &resource), 0);
                        cr_assert_eq(window_profile(windows[w], resource, PROFILE_CPU, &profile), 0);
                        memcpy(ids[w][i], window_get_profile(windows[w], profile)->id, 16);
                }
        for (int w = 0; w < 2; w++)
                for (int i = 1; i < N; i++) {
                        cr_assert_eq(memcmp(ids[w][i], ids[w][0], 10), 0);
                        cr_assert_eq(memcmp(ids[w][i] + 12, ids[w][0] + 12, 4), 0);
                        for (int j = 0; j < i; j++)
                                cr_assert_neq(memcmp(ids[w][i], ids[w][j], 16), 0);
                }
        cr_assert_neq(memcmp(ids[0][0], ids[1][0], 8), 0, "of another window");
        for (int w = 0; w < 2; w++)
                window_free(windows[w]);
}

Test(window, gives_equal_rows_equal_indexes_whatever_their_padding) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        WindowFunction a, b;
        uint32_t first, second;

        memset(&a, 0xAA, sizeof(a));
        memset(&b, 0x55, sizeof(b));
        a.name = b.name = string(window, "main");
        a.system_name = b.system_name = a.filename = b.filename = 0;
        a.start_line = b.start_line = 12;
        cr_assert_eq(window_function(window, &a, &first), 0);
        cr_assert_eq(window_function(window, &b, &second), 0);
        cr_assert_eq(first, 1);
        cr_assert_eq(second, 1);
        cr_assert_eq(window_get_function(window, 1)->start_line, 12);
}

Test(window, repairs_strings_once_and_counts_them) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint32_t index;
        size_t size;

        stat_reset();
        cr_assert_eq(window_string(window, "a\xFF\0z", 4, &index), 0);
        cr_assert_str_eq(window_get_string(window, index, &size), "a\xEF\xBF\xBD\xEF\xBF\xBDz");
        cr_assert_eq(size, 8);
        cr_assert_eq(stat_get(COUNTER_UTF8_REPAIRED), 1);
        cr_assert_eq(string(window, "a\xEF\xBF\xBD\xEF\xBF\xBDz"), index);
        cr_assert_eq(stat_get(COUNTER_UTF8_REPAIRED), 1, "this one was whole");
}

Test(window, cuts_a_long_string_between_characters) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        static char text[WINDOW_MAX_STRING + 10];
        uint32_t index;
        size_t size;

        memset(text, 'x', sizeof(text));
        memcpy(text + WINDOW_MAX_STRING - 2, "\xE2\x82\xAC", 3);        /* the euro sign crosses the cap */
        cr_assert_eq(window_string(window, text, sizeof(text), &index), 0);
        window_get_string(window, index, &size);
        cr_assert_eq(size, WINDOW_MAX_STRING - 2);
        memset(text, 0x80, sizeof(text));
        cr_assert_eq(window_string(window, text, sizeof(text), &index), 0);
        window_get_string(window, index, &size);
        cr_assert_leq(size, 3 * WINDOW_MAX_STRING);
}

Test(window, packs_a_native_frame_and_takes_it_apart) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        FrameWord word;
        WindowFrame frame;
        uint32_t last = 0;

        for (uint32_t i = 0; i < 10000; i++)
                last = module(window, 0, i + 1);
        cr_assert_eq(window_native_frame(window, FRAME_MARK_NATIVE, last, 0xFFFFFFFFFFF, &word), 0);
        cr_assert_eq(window_n_frames(window), 1, "no row is needed");
        frame = window_expand_frame(window, word);
        cr_assert_eq(frame.module, 10000);
        cr_assert_eq(frame.address, 0xFFFFFFFFFFF);
        cr_assert_eq(frame.function, 0);
        cr_assert_str_eq(window_get_string(window, frame.type, NULL), "native");
}

Test(window, puts_what_does_not_fit_into_the_frame_table) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        WindowFrame named = { .address = 7, .line = 40, .function = 2 }, frame;
        FrameWord kernel, again, table;

        cr_assert_eq(window_native_frame(window, FRAME_MARK_KERNEL, 0, 0xffffffff81000010, &kernel), 0);
        cr_assert_eq(window_native_frame(window, FRAME_MARK_KERNEL, 0, 0xffffffff81000010, &again), 0);
        cr_assert_eq(kernel, again);
        frame = window_expand_frame(window, kernel);
        cr_assert_eq(frame.address, 0xffffffff81000010);
        cr_assert_str_eq(window_get_string(window, frame.type, NULL), "kernel");
        cr_assert_eq(window_frame(window, &named, &table), 0);
        frame = window_expand_frame(window, table);
        cr_assert_eq(frame.line, 40);
        cr_assert_eq(frame.function, 2);
        cr_assert_eq(window_n_frames(window), 3);
}

Test(window, makes_one_word_of_one_frame_from_either_call) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint32_t a = module(window, 0x9000, 0);
        WindowFrame frame = { .module = a, .address = 0x1234, .type = string(window, "native") };
        FrameWord word, native;

        cr_assert_eq(window_frame(window, &frame, &word), 0);
        cr_assert_eq(window_native_frame(window, FRAME_MARK_NATIVE, a, 0x1234, &native), 0);
        cr_assert_eq(word, native);
        frame.line = -3;
        cr_assert_eq(window_frame(window, &frame, &word), 0);
        cr_assert_eq(word, native, "a negative line is none");
        frame.line = 3;
        cr_assert_eq(window_frame(window, &frame, &word), 0);
        cr_assert_neq(word, native);
}

Test(window, leaves_the_module_out_of_a_frame_outside_it) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint32_t a = module(window, 0x9000, 0);
        FrameWord word;

        stat_reset();
        cr_assert_eq(window_native_frame(window, FRAME_MARK_NATIVE, a, 0x8FFF, &word), 0);
        cr_assert_eq(window_expand_frame(window, word).module, a);
        cr_assert_eq(window_native_frame(window, FRAME_MARK_NATIVE, a, 0x9000, &word), 0);
        cr_assert_eq(window_expand_frame(window, word).module, 0);
        cr_assert_eq(window_expand_frame(window, word).address, 0x9000);
        cr_assert_eq(stat_get(COUNTER_FRAMES_OUTSIDE_MODULE), 1);
}

Test(window, takes_a_module_without_build_id_for_none) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        WindowModule row = { .path = string(window, "/bin/x"), .limit = 7 };
        uint32_t index = 9;

        cr_assert_eq(window_module(window, &row, &index), 0);
        cr_assert_eq(index, 0);
        cr_assert_eq(window_n_modules(window), 1);
}

Test(window, keeps_build_ids_and_frame_types_as_attributes) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint32_t a = module(window, 0x9000, 0), b = module(window, 0xA000, 0);
        const WindowAttribute *attribute;
        const uint32_t *set;
        FrameWord word;
        size_t n;

        cr_assert_neq(a, b);
        cr_assert_eq(window_get_module_attributes(window, a), window_get_module_attributes(window, b));
        set = window_get_attribute_set(window, window_get_module_attributes(window, a), &n);
        cr_assert_eq(n, 1);
        attribute = window_get_attribute(window, set[0]);
        cr_assert_str_eq(window_get_string(window, attribute->key, NULL), "process.executable.build_id.gnu");
        cr_assert_str_eq(window_get_string(window, attribute->string, NULL), "0a1b");

        cr_assert_eq(window_native_frame(window, FRAME_MARK_KERNEL, 0, 5, &word), 0);
        attribute = window_get_attribute(
                window, window_get_type_attribute(window, window_expand_frame(window, word).type));
        cr_assert_str_eq(window_get_string(window, attribute->key, NULL), "profile.frame.type");
        cr_assert_str_eq(window_get_string(window, attribute->string, NULL), "kernel");
        cr_assert_eq(window_get_type_attribute(window, 0), 0);
}

Test(window, takes_half_a_link_for_none) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        WindowLink link = { .trace_id = { [15] = 1 } };
        uint32_t index = 9;

        cr_assert_eq(window_link(window, &link, &index), 0);
        cr_assert_eq(index, 0);
        link.span_id[7] = 2;
        cr_assert_eq(window_link(window, &link, &index), 0);
        cr_assert_eq(index, 1);
}

Test(window, takes_attributes_as_a_set_without_doubles) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint32_t tid, other_tid, name, a, b, c;
        const uint32_t *set;
        size_t n;

        cr_assert_eq(window_attribute_int(window, "thread.id", 7, &tid), 0);
        cr_assert_eq(window_attribute_int(window, "thread.id", 8, &other_tid), 0);
        cr_assert_eq(window_attribute_string(window, "thread.name", "main", 4, &name), 0);
        cr_assert_eq(window_attribute_set(window, (uint32_t[]){ tid, name }, 2, &a), 0);
        cr_assert_eq(window_attribute_set(window, (uint32_t[]){ name, tid, name, 0 }, 4, &b), 0);
        cr_assert_eq(a, b);
        cr_assert_eq(window_attribute_set(window, (uint32_t[]){ tid, other_tid, name }, 3, &c), 0);
        cr_assert_eq(c, a, "of two with one key the first wins");
        set = window_get_attribute_set(window, a, &n);
        cr_assert_eq(n, 2);
        cr_assert_eq(set[0], tid);
        cr_assert_eq(window_get_attribute(window, set[0])->integer, 7);
}

Test(window, merges_samples_of_one_identity_and_keeps_their_times) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint32_t profile = cpu_profile(window, 42), stack, other;
        WindowSample sample;

        cr_assert_eq(window_stack(window, (FrameWord[]){ 1, 2 }, 2, &stack), 0);
        cr_assert_eq(window_stack(window, (FrameWord[]){ 2, 1 }, 2, &other), 0);
        cr_assert_eq(window_sample(window, profile, stack, 0, 0, 1, 1100), 0);
        cr_assert_eq(window_sample(window, profile, other, 0, 0, 1, 1200), 0);
        cr_assert_eq(window_sample(window, profile, stack, 0, 0, 1, 1050), 0);
        cr_assert_eq(window_close(window, 2000), 0);

        cr_assert_eq(window_n_events(window), 3);
        cr_assert_eq(window_get_profile(window, profile)->n_samples, 2);
        cr_assert_eq(window_get_profile(window, profile)->first_ns, 1050);
        cr_assert_eq(window_get_profile(window, profile)->last_ns, 1200);
        window_get_sample(window, profile, 0, &sample);
        cr_assert_eq(sample.stack, stack);
        cr_assert_eq(sample.value, 2);
        cr_assert_eq(sample.n_times, 2);
        cr_assert_eq(sample.times_ns[0], 1100, "in order of arrival");
        cr_assert_eq(sample.times_ns[1], 1050);
        cr_assert_null(sample.values);
        window_get_sample(window, profile, 1, &sample);
        cr_assert_eq(sample.times_ns[0], 1200);
}

Test(window, keeps_profiles_apart_when_their_samples_interleave) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint32_t profiles[] = { cpu_profile(window, 1), cpu_profile(window, 2) }, stack;
        WindowSample sample;

        for (uint64_t i = 0; i < 5000; i++) {
                cr_assert_eq(window_stack(window, &(FrameWord){ i / 2 }, 1, &stack), 0);
                cr_assert_eq(window_sample(window, profiles[i % 2], stack, 0, 0, 1, 2000 + i), 0);
        }
        cr_assert_eq(window_close(window, 9000), 0);
        for (uint32_t p = 0; p < 2; p++) {
                cr_assert_eq(window_get_profile(window, profiles[p])->n_samples, 2500);
                for (uint32_t i = 0; i < 2500; i++) {
                        window_get_sample(window, profiles[p], i, &sample);
                        cr_assert_eq(sample.n_times, 1);
                        cr_assert_eq(sample.times_ns[0], 2000 + 2 * i + p);
                }
        }
}

Test(window, keeps_the_value_of_each_event_where_it_is_not_1) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint32_t cpu = cpu_profile(window, 1), resource, off;
        WindowSample sample;

        cr_assert_eq(window_resource(window, 1, &resource), 0);
        cr_assert_eq(window_profile(window, resource, PROFILE_OFF_CPU, &off), 0);
        cr_assert_eq(window_sample(window, cpu, 0, 0, 0, 1, 1001), 0);
        cr_assert_eq(window_sample(window, off, 0, 0, 0, 500, 1002), 0);
        cr_assert_eq(window_sample(window, off, 0, 0, 0, 70, 1003), 0);
        cr_assert_eq(window_close(window, 2000), 0);
        window_get_sample(window, off, 0, &sample);
        cr_assert_eq(sample.value, 570);
        cr_assert_eq(sample.values[0], 500);
        cr_assert_eq(sample.values[1], 70);
        window_get_sample(window, cpu, 0, &sample);
        cr_assert_eq(sample.values[0], 1);
}

Test(window, saturates_sums) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint32_t profile = cpu_profile(window, 1);
        WindowSample sample;

        cr_assert_eq(window_sample_untimed(window, profile, 0, 0, 0, INT64_MAX), 0);
        cr_assert_eq(window_sample_untimed(window, profile, 0, 0, 0, 2), 0);
        cr_assert_eq(window_close(window, 2000), 0);
        window_get_sample(window, profile, 0, &sample);
        cr_assert_eq(sample.value, INT64_MAX);
        cr_assert_eq(sample.n_times, 0);
}

Test(window, sets_the_period_of_profiles_made_before_and_after) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint32_t a = cpu_profile(window, 1), b;

        window_set_period(window, PROFILE_CPU, 10101010);
        b = cpu_profile(window, 2);
        cr_assert_eq(window_get_profile(window, a)->period, 10101010);
        cr_assert_eq(window_get_profile(window, b)->period, 10101010);
        cr_assert_neq(memcmp(window_get_profile(window, a)->id, window_get_profile(window, b)->id, 16), 0);
}

Test(window, knows_its_own_types_by_their_names) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        WindowProfileNames names = { .type = string(window, "samples"), .unit = string(window, "count"),
                                     .period_type = string(window, "cpu"),
                                     .period_unit = string(window, "nanoseconds") };
        uint32_t resource, profile, other;

        cr_assert_eq(window_resource(window, 5, &resource), 0);
        cr_assert_eq(window_profile_named(window, resource, &names, 77, &profile), 0);
        cr_assert_eq(window_get_profile(window, profile)->type, PROFILE_CPU);
        cr_assert_eq(window_get_profile(window, profile)->period, 77);
        cr_assert_eq(window_profile(window, resource, PROFILE_CPU, &other), 0);
        cr_assert_eq(other, profile);
        names.type = string(window, "goroutine");
        cr_assert_eq(window_profile_named(window, resource, &names, 0, &other), 0);
        cr_assert_eq(window_get_profile(window, other)->type, PROFILE_OTHER);
}

/* Of a boost, before which and beside which others have the frequency of all. */
Test(window, keeps_ticks_of_different_periods_apart) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        WindowProfileNames names = { .type = string(window, "samples"), .unit = string(window, "count"),
                                     .period_type = string(window, "cpu"),
                                     .period_unit = string(window, "nanoseconds") };
        static const struct {
                int64_t period;
                bool is_second;
        } cases[] = { { 2000, false }, { 3300, false }, { 0, false },     { 10000, true },
                      { 7000, true },  { 20000, true }, { 1100, false }, { 2000, false } };
        uint32_t resource, profiles[2], profile;

        cr_assert_eq(window_resource(window, 5, &resource), 0);
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                cr_assert_eq(window_profile_named(window, resource, &names, cases[i].period, &profile), 0);
                if (!i)
                        profiles[0] = profile;
                if (i == 3)
                        profiles[1] = profile;
                cr_assert_eq(profile, profiles[cases[i].is_second], "%zu", i);
        }
        cr_assert_neq(profiles[0], profiles[1]);
        cr_assert_eq(window_get_profile(window, profiles[0])->period, 2000);
        cr_assert_eq(window_get_profile(window, profiles[1])->period, 10000);
        cr_assert(profile_is_cpu(window_get_profile(window, profiles[1])->type));
        names.type = string(window, "alloc_space");
        names.unit = names.period_unit = string(window, "bytes");
        names.period_type = string(window, "space");
        cr_assert_eq(window_profile_named(window, resource, &names, 10, &profiles[0]), 0);
        cr_assert_eq(window_profile_named(window, resource, &names, 100, &profiles[1]), 0);
        cr_assert_eq(profiles[0], profiles[1], "values of these stand for themselves");
}

Test(window, moves_its_end_for_a_late_sample) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint32_t profile = cpu_profile(window, 1);

        cr_assert_eq(window_sample(window, profile, 0, 0, 0, 1, 3000), 0);
        cr_assert_eq(window_close(window, 2000), 0);
        cr_assert_eq(window_end_ns(window), 3001, "the end is exclusive");
}

Test(window, keeps_the_order_of_resource_attributes_and_the_first_of_a_key) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint32_t resource, again, a, b, c;
        const uint32_t *attributes;
        size_t n;

        cr_assert_eq(window_resource(window, 0, &resource), 0);
        cr_assert_eq(resource, 1);
        cr_assert_eq(window_resource(window, 0, &again), 0);
        cr_assert_eq(again, 1);
        cr_assert_eq(window_attribute_string(window, "service.name", "x", 1, &a), 0);
        cr_assert_eq(window_attribute_int(window, "process.pid", 3, &b), 0);
        cr_assert_eq(window_attribute_string(window, "service.name", "y", 1, &c), 0);
        cr_assert_eq(window_resource_attributes(window, resource, (uint32_t[]){ b, c, a }, 3), 0);
        attributes = window_get_resource(window, resource, &n);
        cr_assert_eq(n, 2);
        cr_assert_eq(attributes[0], b);
        cr_assert_eq(attributes[1], c);
}

Test(window, refuses_new_rows_at_each_cap_and_still_finds_the_old) {
        WindowLimits limits = { .max_strings = 4, .max_modules = 2, .max_functions = 2, .max_frames = 2,
                                .max_stacks = 2, .max_links = 2, .max_attributes = 3, .max_samples = 2,
                                .max_resources = 2, .max_times = 3, .max_bytes = 1 << 20 };
        _cleanup_(window_freep) Window *window = new_window(&limits);
        WindowModule row = { .path = 1, .build_id_gnu = 1, .limit = 1 };
        WindowFunction function = { .name = 1 };
        WindowFrame frame = { .address = 1 };
        WindowLink link = { .trace_id = { 1 }, .span_id = { 1 } };
        WindowAttribute attribute = { .key = 1 };
        FrameWord word, before = 99;
        uint32_t index = 99;

#define FULL(_first, _second, _out) \
        cr_assert_eq(_first, 0); \
        (_out) = 99; \
        cr_assert_eq(_second, WINDOW_E_FULL); \
        cr_assert_eq(_out, 99, "an output is written on success only"); \
        cr_assert_eq(window_string(window, "a", 1, &index), 0); \
        index = 99
        string(window, "a");
        string(window, "process.executable.build_id.gnu");
        FULL(window_string(window, "b", 1, &index), window_string(window, "c", 1, &index), index);
        FULL(window_module(window, &row, &index), (row.limit = 2, window_module(window, &row, &index)),
             index);
        FULL(window_function(window, &function, &index),
             (function.start_line = 2, window_function(window, &function, &index)), index);
        FULL(window_frame(window, &frame, &word), (frame.line = 2, window_frame(window, &frame, &before)),
             before);
        FULL(window_stack(window, &word, 1, &index), window_stack(window, (FrameWord[]){ 5 }, 1, &index),
             index);
        FULL(window_link(window, &link, &index), (link.span_id[1] = 2, window_link(window, &link, &index)),
             index);
        FULL(window_attribute(window, &attribute, &index),
             (attribute.unit = 2, window_attribute(window, &attribute, &index)), index);
        FULL(window_resource(window, 8, &index), window_resource(window, 9, &index), index);
#undef FULL
}

Test(window, refuses_samples_and_times_at_their_caps) {
        WindowLimits limits = window_default_limits;
        _cleanup_(window_freep) Window *window = NULL;
        uint32_t profile;

        limits.max_samples = 2;
        limits.max_times = 3;
        window = new_window(&limits);
        profile = cpu_profile(window, 1);
        cr_assert_eq(window_sample(window, profile, 0, 0, 0, 1, 1001), 0);
        cr_assert_eq(window_sample(window, profile, 0, 0, 1, 1, 1002), 0);
        cr_assert_eq(window_sample(window, profile, 0, 0, 2, 1, 1003), WINDOW_E_FULL, "a third identity");
        cr_assert_eq(window_sample(window, profile, 0, 0, 1, 1, 1004), 0);
        cr_assert_eq(window_sample(window, profile, 0, 0, 1, 1, 1005), WINDOW_E_FULL, "a fourth time");
        cr_assert_eq(window_n_events(window), 3, "what was refused is not counted");
        cr_assert_eq(window_close(window, 2000), 0);
        cr_assert_eq(window_get_profile(window, profile)->last_ns, 1004);
}

/* Every sample new in everything: what a hostile target can do. */
static uint64_t fill_until_full(Window *window) {
        uint64_t n = 0;
        int r;

        for (;; n++) {
                FrameWord frames[512];
                uint32_t profile, resource, stack, attribute, set = 0;
                char name[64];

                for (size_t i = 0; i < ARRAY_SIZE(frames); i++)
                        frames[i] = n * 1000 + i;
                r = window_resource(window, n % 1000, &resource);
                if (!r)
                        r = window_profile(window, resource, PROFILE_OFF_CPU, &profile);
                if (!r)
                        r = window_stack(window, frames, ARRAY_SIZE(frames), &stack);
                if (!r)
                        r = window_attribute_string(window, "thread.name", name,
                                                    (size_t)snprintf(name, sizeof(name), "thread %lu", n),
                                                    &attribute);
                if (!r)
                        r = window_attribute_set(window, &attribute, 1, &set);
                if (!r)
                        r = window_sample(window, profile, stack, set, 0, 100, 2000 + n);
                if (r)
                        break;
        }
        cr_assert_eq(r, WINDOW_E_FULL);
        return n;
}

Test(window, stays_under_64_mib_whatever_comes) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint64_t n = fill_until_full(window);

        cr_assert_gt(n, 5000);
        while (!window_sample(window, 0, 0, 0, 0, 7, 5000))     /* identities that are known still pass … */
                n++;
        cr_assert_leq(window_memory(window), 48 << 20, "%zu", window_memory(window));
        cr_assert_eq(window_close(window, 9000), 0);
        cr_assert_eq(window_n_events(window), n);
        cr_assert_leq(window_memory(window), 64 << 20, "%zu", window_memory(window));
}

Test(window, stays_under_64_mib_with_as_many_times_as_it_takes) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint32_t profile = cpu_profile(window, 1), stack;
        uint64_t n = 0;

        cr_assert_eq(window_stack(window, &(FrameWord){ 1 }, 1, &stack), 0);
        while (!window_sample(window, profile, stack, 0, 0, 2, 5000 + n))
                n++;
        cr_assert_eq(n, window_default_limits.max_times);
        cr_assert_leq(window_memory(window), 40 << 20);
        cr_assert_eq(window_close(window, 9000), 0);
        cr_assert_leq(window_memory(window), 64 << 20);
}

Test(window, holds_a_typical_interval_in_a_few_mib) {
        _cleanup_(window_freep) Window *window = new_window(NULL);
        uint32_t profile = cpu_profile(window, 1), stack;
        FrameWord frames[30] = { 0 };

        /* 99 Hz, 2 CPUs, 15 s; a third of the stacks distinct */
        for (uint64_t i = 0; i < 3000; i++) {
                frames[0] = i % 1000;
                cr_assert_eq(window_stack(window, frames, 30, &stack), 0);
                cr_assert_eq(window_sample(window, profile, stack, 0, 0, 1, 2000 + i), 0);
        }
        cr_assert_leq(window_memory(window), 1 << 20, "%zu", window_memory(window));
}

Test(window, puts_inlined_functions_into_stacks_after_it_was_closed) {
        WindowModule module = { .start = 0x1000, .limit = 0x9000 };
        WindowName names[2] = { { .line = 12 }, { .line = 40 } };
        const char *const texts[] = { "parse", "main" };
        uint32_t i_module, stacks[2], n_lost = 9;
        const FrameWord *words;
        FrameWord word[2];
        Window *window;
        size_t n;

        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        cr_assert_eq(window_string(window, "abcd", 4, &module.build_id_gnu), 0);
        cr_assert_eq(window_module(window, &module, &i_module), 0);
        for (size_t i = 0; i < 2; i++)
                cr_assert_eq(window_native_frame(window, FRAME_MARK_NATIVE, i_module, 0x1234 + i, &word[i]),
                             0);
        cr_assert_eq(window_stack(window, word, 2, &stacks[0]), 0);
        cr_assert_eq(window_stack(window, &word[1], 1, &stacks[1]), 0);
        cr_assert_eq(window_close(window, 2), 0);
        for (size_t i = 0; i < 2; i++) {
                WindowFunction function = { 0 };

                cr_assert_eq(window_string(window, texts[i], strlen(texts[i]), &function.name), 0);
                cr_assert_eq(window_function(window, &function, &names[i].function), 0);
        }
        cr_assert(!window_has_inlined(window));
        cr_assert_eq(window_name_inlined(window, word[0], names, 2), 0);
        cr_assert_eq(window_expand_frame(window, word[0]).function, names[1].function, "main has the code");
        cr_assert_eq(window_spread_names(window, &n_lost), 0);
        cr_assert_eq(n_lost, 0);
        cr_assert(window_has_inlined(window));
        words = window_get_stack(window, stacks[0], &n);
        cr_assert_eq(n, 3);
        for (size_t i = 0; i < 2; i++) {
                WindowFrame frame = window_expand_frame(window, words[i]);

                cr_assert_eq(frame.function, names[i].function);
                cr_assert_eq(frame.line, names[i].line);
                cr_assert_eq(frame.address, 0x1234);
                cr_assert_eq(frame.module, i_module);
                cr_assert_eq(frame.is_inlined, i == 0);
        }
        cr_assert_eq(words[2], word[1]);
        cr_assert_eq(window_get_stack(window, stacks[1], &n)[0], word[1]);
        cr_assert_eq(n, 1);
        window_free(window);
}

Test(window, names_frames_after_it_was_closed) {
        WindowModule module = { .start = 0x1000, .limit = 0x9000 };
        WindowFunction function = { 0 };
        FrameWord words[2], named;
        uint32_t index, i_module, i_function;
        Window *window;

        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        cr_assert_eq(window_string(window, "/bin/x", 6, &module.path), 0);
        cr_assert_eq(window_string(window, "abcd", 4, &module.build_id_gnu), 0);
        cr_assert_eq(window_module(window, &module, &i_module), 0);
        cr_assert_eq(window_native_frame(window, FRAME_MARK_NATIVE, i_module, 0x1234, &words[0]), 0);
        cr_assert_eq(window_native_frame(window, FRAME_MARK_NATIVE, i_module, 0x1235, &words[1]), 0);
        cr_assert_eq(window_stack(window, words, 2, &index), 0);
        cr_assert_eq(window_close(window, 2), 0);
        cr_assert_eq(window_string(window, "main", 4, &function.name), 0);
        cr_assert_eq(window_function(window, &function, &i_function), 0);
        cr_assert_eq(window_name_frame(window, words[0], i_function), 0);
        cr_assert_eq(window_expand_frame(window, words[0]).function, i_function);
        cr_assert_eq(window_expand_frame(window, words[0]).module, i_module);
        cr_assert_eq(window_expand_frame(window, words[1]).function, 0);
        cr_assert_eq(window_get_stack(window, index, &(size_t){ 0 })[0], words[0],
                     "the stack stays as it was");
        cr_assert_eq(window_native_frame(window, FRAME_MARK_NATIVE, i_module, 0x1234, &named), 0);
        cr_assert_eq(named, words[0]);
        window_free(window);
}
