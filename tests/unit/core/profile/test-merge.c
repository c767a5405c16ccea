/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/text.h"
#include "core/profile/merge.h"
#include "fill-window.h"

static Window *filled(void) {
        return fill_window(3, 40);
}

static Window *empty(int64_t offset_ns, const WindowLimits *limits) {
        Window *window = NULL;

        cr_assert_eq(window_new(&window, 1, offset_ns, limits), 0);
        return window;
}

/* ---- all that a sample says, as text: what is equal there is equal ---- */

static const char *string(const Window *window, uint32_t index) {
        return window_get_string(window, index, NULL);
}

static void print_attributes(Text *text, const Window *window, const uint32_t *set, size_t n) {
        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *row = window_get_attribute(window, set[i]);

                text_printf(text, " %s[%s]%u=%s%" PRId64, string(window, row->key), string(window, row->unit),
                            row->kind, string(window, row->string), row->integer);
        }
}

static void print_frame(Text *text, const Window *window, FrameWord word) {
        WindowFrame frame = window_expand_frame(window, word);
        const WindowModule *module = window_get_module(window, frame.module);
        const WindowFunction *function = window_get_function(window, frame.function);

        text_printf(text,
                    " {%s %s %s %s %" PRIx64 "-%" PRIx64 "+%" PRIx64 " | %" PRIx64 " %s %s %s:%" PRId64
                    " %" PRId64 " | %s}",
                    string(window, module->path), string(window, module->build_id_gnu),
                    string(window, module->build_id_go), string(window, module->build_id_htlhash),
                    module->start, module->limit, module->offset, frame.address,
                    string(window, function->name), string(window, function->system_name),
                    string(window, function->filename), function->start_line, frame.line,
                    string(window, frame.type));
}

static void print_sample(Text *text, const Window *window, const WindowProfile *profile,
                         const WindowSample *sample) {
        char trace[33], span[17];
        const FrameWord *words;
        const uint32_t *set;
        size_t n;

        set = window_get_resource(window, profile->resource, &n);
        print_attributes(text, window, set, n);
        text_printf(text, " | %s/%s |", string(window, profile->names.type),
                    string(window, profile->names.unit));
        set = window_get_attribute_set(window, sample->attributes, &n);
        print_attributes(text, window, set, n);
        text_to_hex(trace, window_get_link(window, sample->link)->trace_id, 16);
        text_to_hex(span, window_get_link(window, sample->link)->span_id, 8);
        text_printf(text, " | %s/%s |", trace, span);
        words = window_get_stack(window, sample->stack, &n);
        for (size_t i = 0; i < n; i++)
                print_frame(text, window, words[i]);
        text_printf(text, " | %" PRId64 ":", sample->value);
        for (uint32_t i = 0; i < sample->n_times; i++)
                text_printf(text, " %" PRIu64 "=%" PRId64,
                            sample->times_ns[i] + (uint64_t)window_realtime_offset_ns(window),
                            sample->values ? sample->values[i] : 1);
}

static int compare(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* One line a sample, in an order that no index decides. */
static char *dump(const Window *window) {
        char *lines[1024];
        Text all = { 0 };
        size_t n = 0;

        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);

                for (uint32_t j = 0; j < profile->n_samples; j++) {
                        WindowSample sample;
                        Text text = { 0 };

                        window_get_sample(window, i, j, &sample);
                        print_sample(&text, window, profile, &sample);
                        cr_assert_lt(n, 1024);
                        lines[n++] = text.data;
                }
        }
        cr_assert_gt(n, 5, "the window of the tests holds something");
        qsort(lines, n, sizeof(*lines), compare);
        for (size_t i = 0; i < n; i++) {
                text_printf(&all, "%s\n", lines[i]);
                free(lines[i]);
        }
        return all.data;
}

Test(merge, copies_all_that_samples_say) {
        _cleanup_(window_freep) Window *from = filled(), *into = empty(0, NULL);
        _cleanup_(freep) char *before = dump(from), *after = NULL;
        uint64_t n_lost = 0;

        cr_assert_eq(window_merge(into, from, &n_lost), 0);
        cr_assert_eq(n_lost, 0);
        cr_assert_eq(window_n_events(into), window_n_events(from));
        cr_assert_eq(window_close(into, 1), 0);
        after = dump(into);
        cr_assert_str_eq(after, before);
        cr_assert_eq(window_n_resources(into), window_n_resources(from));
        cr_assert_eq(window_n_profiles(into), window_n_profiles(from));
}

Test(merge, makes_one_of_what_is_equal_in_two_windows) {
        _cleanup_(window_freep) Window *from = filled(), *into = empty(FILL_OFFSET_NS - 7, NULL);
        uint32_t n_stacks, n_profiles;
        uint64_t n_lost = 0;

        cr_assert_eq(window_merge(into, from, &n_lost), 0);
        n_stacks = window_n_stacks(into);
        n_profiles = window_n_profiles(into);
        cr_assert_eq(window_merge(into, from, &n_lost), 0);
        cr_assert_eq(window_n_stacks(into), n_stacks);
        cr_assert_eq(window_n_profiles(into), n_profiles);
        cr_assert_eq(window_n_events(into), 2 * window_n_events(from));
        cr_assert_eq(window_close(into, 1), 0);
        for (uint32_t i = 0; i < n_profiles; i++)
                cr_assert_eq(window_get_profile(into, i)->n_samples, window_get_profile(from, i)->n_samples);
}

Test(merge, counts_what_finds_no_room) {
        WindowLimits limits = window_default_limits;
        _cleanup_(window_freep) Window *from = filled(), *into = NULL;
        uint64_t n_lost = 0;

        limits.max_stacks = 2;
        into = empty(0, &limits);
        cr_assert_eq(window_merge(into, from, &n_lost), 0);
        cr_assert_gt(n_lost, 0);
        cr_assert_gt(window_n_events(into), 0);
        cr_assert_eq(window_n_events(into) + n_lost, window_n_events(from));
}

static Window *ticks(uint32_t n, int64_t period) {
        uint32_t resource, profile;
        Window *window = empty(0, NULL);

        cr_assert_eq(window_resource(window, 1, &resource), 0);
        cr_assert_eq(window_profile(window, resource, PROFILE_CPU, &profile), 0);
        window_set_period(window, PROFILE_CPU, period);
        for (uint32_t i = 0; i < n; i++)
                cr_assert_eq(window_sample(window, profile, 0, 0, 0, 1, 2 + i), 0);
        cr_assert_eq(window_close(window, 1000), 0);
        return window;
}

Test(merge, counts_ticks_of_windows_with_other_periods_by_their_mean) {
        _cleanup_(window_freep) Window *first = ticks(30, 10000000), *second = ticks(10, 20000000);
        _cleanup_(window_freep) Window *into = empty(0, NULL);
        uint64_t n_lost = 0;

        cr_assert_eq(window_merge(into, first, &n_lost), 0);
        cr_assert_eq(window_get_profile(into, 0)->period, 10000000);
        cr_assert_eq(window_merge(into, second, &n_lost), 0);
        cr_assert_eq(window_get_profile(into, 0)->period, 12500000);
}
