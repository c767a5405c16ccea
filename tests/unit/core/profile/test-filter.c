/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/profile/copy.h"
#include "core/profile/reshape.h"

/*
 * Two processes, each with a sample of two threads; those of the first belong to a span and have times 10, 20
 * and 30.
 */
static Window *make_window(void) {
        static const WindowLink link = { { 1, 2, 3 }, { 0, 0, 0, 0, 0, 0, 0, 0xab } };
        uint32_t resource[2], profile[2], pid[2], thread[2], set[2], stack, link_index, module;
        WindowModule row = { .start = 0x1000, .limit = 0x2000 };
        FrameWord frames[2];
        Window *window;

        cr_assert_eq(window_new(&window, 5, 0, NULL), 0);
        cr_assert_eq(window_string(window, "/bin/x", 6, &row.path), 0);
        cr_assert_eq(window_string(window, "abcdef", 6, &row.build_id_gnu), 0);
        cr_assert_eq(window_module(window, &row, &module), 0);
        for (int i = 0; i < 2; i++) {
                cr_assert_eq(window_native_frame(window, FRAME_MARK_NATIVE, module, 0x1000 + (uint64_t)i,
                                                 &frames[i]),
                             0);
                cr_assert_eq(window_resource(window, (uint64_t)i, &resource[i]), 0);
                cr_assert_eq(window_attribute_int(window, "process.pid", 100 + i, &pid[i]), 0);
                cr_assert_eq(window_resource_attributes(window, resource[i], &pid[i], 1), 0);
                cr_assert_eq(window_profile(window, resource[i], PROFILE_CPU, &profile[i]), 0);
                cr_assert_eq(window_attribute_string(window, "thread.name", i ? "worker" : "main", i ? 6 : 4,
                                                     &thread[i]),
                             0);
                cr_assert_eq(window_attribute_set(window, &thread[i], 1, &set[i]), 0);
        }
        cr_assert_eq(window_stack(window, frames, 2, &stack), 0);
        cr_assert_eq(window_link(window, &link, &link_index), 0);
        for (uint64_t i = 1; i <= 3; i++)
                cr_assert_eq(window_sample(window, profile[0], stack, set[0], link_index, 1, 10 * i), 0);
        cr_assert_eq(window_sample_untimed(window, profile[1], stack, set[1], 0, 7), 0);
        cr_assert_eq(window_close(window, 40), 0);
        return window;
}

static Window *copy(const FilterOptions *filter, CopyNamer namer, CopyCounts *counts) {
        CopyOptions options = { .filter = filter, .namer = namer };
        Window *window = make_window(), *to;

        cr_assert_eq(window_copy(&to, window, &options, counts), 0);
        window_free(window);
        return to;
}

static uint64_t count(FilterOptions filter, CopyCounts *counts) {
        Window *window;
        uint64_t n;

        filter.end_ns = filter.end_ns ? filter.end_ns : UINT64_MAX;
        window = copy(&filter, NULL, counts);
        n = window_n_events(window);
        cr_assert_eq(n, counts->n_kept);
        cr_assert_eq(n + counts->n_filtered + counts->n_untimed, 4);
        window_free(window);
        return n;
}

#define WORDS(_word) { (char *[]){ (char[]){ _word } }, 1 }

Test(filter, chooses_by_each_kind_of_word) {
        CopyCounts counts;

        cr_assert_eq(count((FilterOptions){ 0 }, &counts), 4);
        cr_assert_eq(count((FilterOptions){ .pids = (uint32_t[]){ 100 }, .n_pids = 1 }, &counts), 3);
        cr_assert_eq(count((FilterOptions){ .processes = WORDS("101") }, &counts), 1);
        cr_assert_eq(count((FilterOptions){ .threads = WORDS("work*") }, &counts), 1);
        cr_assert_eq(count((FilterOptions){ .spans = WORDS("ab") }, &counts), 3);
        cr_assert_eq(count((FilterOptions){ .spans = WORDS("00000000000000AB") }, &counts), 3);
        cr_assert_eq(count((FilterOptions){ .spans = WORDS("ac") }, &counts), 0);
        cr_assert_eq(count((FilterOptions){ .traces = WORDS("01020300000000000000000000000000") }, &counts),
                     3);
        cr_assert_eq(count((FilterOptions){ .services = WORDS("*") }, &counts), 0);
        cr_assert_eq(count((FilterOptions){ .types = WORDS("sampl*") }, &counts), 4);
        cr_assert_eq(count((FilterOptions){ .types = WORDS("suspended") }, &counts), 0);
        cr_assert_eq(count((FilterOptions){ .processes = WORDS("101"), .threads = WORDS("main") }, &counts),
                     0);
}

/* A trace without a span is an attribute. */
Test(filter, finds_a_trace_that_is_an_attribute) {
        const ReshapeOptions reshape = { .links = RESHAPE_LINKS_TRACE };
        FilterOptions filter = { .end_ns = UINT64_MAX, .traces = WORDS("1020300000000000000000000000000") };
        CopyOptions options = { .filter = &filter };
        Window *window = make_window(), *shaped, *to;
        ReshapeLost lost;
        CopyCounts counts;

        cr_assert_eq(window_reshape(&shaped, window, &reshape, &lost), 0);
        cr_assert_eq(window_copy(&to, shaped, &options, &counts), 0);
        cr_assert_eq(counts.n_kept, 3);
        window_free(to);
        filter.traces = (FilterWords)WORDS("ff");
        cr_assert_eq(window_copy(&to, shaped, &options, &counts), 0);
        cr_assert_eq(counts.n_kept, 0);
        window_free(to);
        window_free(shaped);
        window_free(window);
}

Test(filter, chooses_by_time_and_counts_what_has_none) {
        CopyCounts counts;

        cr_assert_eq(count((FilterOptions){ .start_ns = 20 }, &counts), 2);
        cr_assert_eq(counts.n_untimed, 1);
        cr_assert_eq(count((FilterOptions){ .start_ns = 10, .end_ns = 30 }, &counts), 2);
        cr_assert_eq(count((FilterOptions){ .end_ns = 10 }, &counts), 0);
}

Test(copy, keeps_all_that_samples_have) {
        CopyCounts counts;
        Window *window = copy(NULL, NULL, &counts);
        WindowSample sample;
        size_t n;

        cr_assert_eq(window_n_profiles(window), 2);
        window_get_sample(window, 0, 0, &sample);
        cr_assert_eq(sample.n_times, 3);
        cr_assert_eq(sample.value, 3);
        cr_assert_eq(sample.times_ns[2], 30);
        cr_assert_eq(window_get_link(window, sample.link)->span_id[7], 0xab);
        window_get_stack(window, sample.stack, &n);
        cr_assert_eq(n, 2);
        window_get_sample(window, 1, 0, &sample);
        cr_assert_eq(sample.value, 7);
        cr_assert_eq(sample.n_times, 0);
        window_free(window);
}

Test(copy, copies_nothing_that_was_not_chosen) {
        FilterOptions filter = { .processes = WORDS("101"), .end_ns = UINT64_MAX };
        CopyCounts counts;
        Window *window = copy(&filter, NULL, &counts);

        cr_assert_eq(counts.n_resources_filtered, 1);
        cr_assert_eq(window_n_resources(window), 2, "row 0 and one");
        cr_assert_eq(window_n_links(window), 1, "row 0");
        for (uint32_t i = 0; i < window_n_strings(window); i++)
                cr_assert_str_neq(window_get_string(window, i, NULL), "main",
                                  "the name of the other's thread");
        window_free(window);
}

static size_t two_names(void *userdata, FrameWord word, CopyName names[static COPY_MAX_INLINED]) {
        names[0] = (CopyName){ .name = "inlined", .file = "x.c", .line = 3 };
        names[1] = (CopyName){ .name = "outer" };
        return 2;
}

Test(copy, makes_a_frame_of_each_name) {
        CopyCounts counts;
        Window *window = copy(NULL, two_names, &counts);
        const FrameWord *words;
        WindowSample sample;
        WindowFrame frame;
        size_t n;

        window_get_sample(window, 0, 0, &sample);
        words = window_get_stack(window, sample.stack, &n);
        cr_assert_eq(n, 4);
        frame = window_expand_frame(window, words[0]);
        cr_assert_eq(frame.line, 3);
        cr_assert_eq(frame.address, 0x1000);
        cr_assert_str_eq(window_get_string(window, window_get_function(window, frame.function)->name, NULL),
                         "inlined");
        frame = window_expand_frame(window, words[1]);
        cr_assert_str_eq(window_get_string(window, window_get_function(window, frame.function)->name, NULL),
                         "outer");
        window_free(window);
}
