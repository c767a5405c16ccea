/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/text.h"
#include "core/profile/reshape.h"
#include "fill-window.h"

/* Two processes of one service, three threads, one stack in two of them; a span; a coroutine's suspension. */
static Window *filled(void) {
        static const WindowLink link = { .trace_id = { 0xAB, 1 }, .span_id = { 0xCD, 2 } };
        Window *window = NULL;
        uint32_t stack[2], span, set, profile;

        FILL(window_new(&window, FILL_START_NS, FILL_OFFSET_NS, NULL));
        FILL(window_link(window, &link, &span));
        for (uint32_t i = 0; i < 2; i++) {
                FrameWord word = fill_native(window, FRAME_MARK_UNKNOWN, 0, 0x1000 + i);

                FILL(window_stack(window, &word, 1, &stack[i]));
        }
        for (uint32_t i = 0; i < 3; i++) {
                uint32_t thread = fill_int(window, "thread.id", 70 + i);

                FILL(window_attribute_set(window, &thread, 1, &set));
                profile = fill_profile(window, fill_resource(window, 1 + i / 2, 7 + i / 2, "shop"), PROFILE_CPU);
                FILL(window_sample(window, profile, stack[0], set, i ? 0 : span, 1, FILL_START_NS + i));
                FILL(window_sample(window, profile, stack[1], set, 0, 1, FILL_START_NS + 10 + i));
        }
        profile = fill_profile(window, fill_resource(window, 1, 7, "shop"), PROFILE_SUSPENDED);
        FILL(window_sample(window, profile, stack[0], 0, 0, 500, FILL_START_NS + 5));
        FILL(window_sample(window, profile, stack[0], 0, 0, 700, FILL_START_NS + 6));
        FILL(window_close(window, FILL_START_NS + 100));
        return window;
}

static Window *reshape(const Window *from, const ReshapeOptions *options) {
        Window *to = NULL;
        ReshapeLost lost = { 9, 9 };

        cr_assert(reshape_is_needed(options));
        cr_assert_eq(window_reshape(&to, from, options, &lost), 0);
        cr_assert_eq(lost.n_events, 0);
        cr_assert_eq(lost.n_cpu, 0);
        cr_assert_eq(window_n_events(to), window_n_events(from));
        cr_assert_eq(window_n_events_of(to, PROFILE_CPU), window_n_events_of(from, PROFILE_CPU));
        return to;
}

static const WindowProfile *find(const Window *window, const char *type, uint32_t *indexp) {
        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);

                if (!strcmp(window_get_string(window, profile->names.type, NULL), type)) {
                        *indexp = i;
                        return profile;
                }
        }
        cr_assert_fail("no %s", type);
        return NULL;
}

/* `key=value …` of some attributes. */
static char *shown(const Window *window, const uint32_t *attributes, size_t n) {
        Text text = { 0 };

        text_printf(&text, "%s", "");
        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *row = window_get_attribute(window, attributes[i]);

                text_printf(&text, "%s%s=", i ? " " : "", window_get_string(window, row->key, NULL));
                if (row->kind == ATTRIBUTE_STRING)
                        text_printf(&text, "%s", window_get_string(window, row->string, NULL));
                else
                        text_printf(&text, "#%d", (int)row->integer);
        }
        return text.data;
}

static void assert_resource(const Window *window, uint32_t resource, const char *expected) {
        size_t n;
        const uint32_t *attributes = window_get_resource(window, resource, &n);
        _cleanup_(freep) char *text = shown(window, attributes, n);

        cr_assert_str_eq(text, expected);
}

static void assert_set(const Window *window, uint32_t set, const char *expected) {
        size_t n;
        const uint32_t *attributes = window_get_attribute_set(window, set, &n);
        _cleanup_(freep) char *text = shown(window, attributes, n);

        cr_assert_str_eq(text, expected);
}

Test(reshape, changes_nothing_unless_asked) {
        cr_assert_not(reshape_is_needed(&(ReshapeOptions){ 0 }));
}

Test(reshape, makes_one_series_of_a_service) {
        char *const keys[] = { (char *)"service.*" };
        const ReshapeOptions options = { .lean = true, .always = { keys, 1 }, .links = RESHAPE_LINKS_OFF };
        _cleanup_(window_freep) Window *from = filled(), *to = reshape(from, &options);
        const WindowProfile *cpu;
        WindowSample sample;
        uint32_t index;

        cr_assert_eq(window_n_resources(to), 2, "row 0, and one for both processes");
        assert_resource(to, 1, "service.name=shop");
        cpu = find(to, "samples", &index);
        cr_assert_eq(cpu->n_samples, 2, "one for each stack");
        for (uint32_t i = 0; i < 2; i++) {
                window_get_sample(to, index, i, &sample);
                cr_assert_eq(sample.value, 3);
                cr_assert_eq(sample.n_times, 3);
                assert_set(to, sample.attributes, "");
        }
        cr_assert_eq(cpu->id[0], 0x11, "the id of the first");
}

Test(reshape, keeps_what_is_asked_for_beside_the_usual) {
        char *const always[] = { (char *)"service.name" }, *const keep[] = { (char *)"thread.*" };
        const ReshapeOptions options = { .lean = true, .always = { always, 1 }, .keep = { keep, 1 } };
        _cleanup_(window_freep) Window *from = filled(), *to = reshape(from, &options);
        WindowSample sample;
        uint32_t index;

        cr_assert_eq(find(to, "samples", &index)->n_samples, 6);
        window_get_sample(to, index, 0, &sample);
        assert_set(to, sample.attributes, "thread.id=#70");
        cr_assert_neq(sample.link, 0);
}

Test(reshape, says_the_trace_alone_by_an_attribute) {
        const ReshapeOptions options = { .links = RESHAPE_LINKS_TRACE };
        _cleanup_(window_freep) Window *from = filled(), *to = reshape(from, &options);
        WindowSample sample;
        uint32_t index;

        find(to, "samples", &index);
        window_get_sample(to, index, 0, &sample);
        assert_set(to, sample.attributes, "thread.id=#70 trace_id=ab010000000000000000000000000000");
        cr_assert_eq(sample.link, 0);
        cr_assert_eq(window_n_links(to), 1, "row 0");
        window_get_sample(to, index, 1, &sample);
        assert_set(to, sample.attributes, "thread.id=#70");
}

Test(reshape, turns_numbers_of_resources_into_text_or_leaves_them_out) {
        ReshapeOptions options = { .numbers = RESHAPE_NUMBERS_TEXT };
        _cleanup_(window_freep) Window *from = filled(), *text = reshape(from, &options), *none = NULL;

        assert_resource(text, 1,
                        "service.name=shop process.pid=7 process.executable.name=shop host.name=test-host");
        options.numbers = RESHAPE_NUMBERS_OFF;
        none = reshape(from, &options);
        assert_resource(none, 1, "service.name=shop process.executable.name=shop host.name=test-host");
        cr_assert_eq(window_n_resources(none), 2, "the pid alone told them apart");
}

Test(reshape, repeats_attributes_of_the_resource_on_samples_as_text) {
        char *const keys[] = { (char *)"service.name", (char *)"process.pid" };
        const ReshapeOptions options = { .repeat = { keys, 2 }, .numbers = RESHAPE_NUMBERS_OFF };
        _cleanup_(window_freep) Window *from = filled(), *to = reshape(from, &options);
        bool seen[2] = { 0 };
        WindowSample sample;
        uint32_t index;

        for (uint32_t i = 0; i < find(to, "samples", &index)->n_samples; i++) {
                size_t n;
                const uint32_t *set;
                _cleanup_(freep) char *text = NULL;

                window_get_sample(to, index, i, &sample);
                set = window_get_attribute_set(to, sample.attributes, &n);
                text = shown(to, set, n);
                cr_assert(strstr(text, "service.name=shop"), "%s", text);
                seen[0] |= strstr(text, "process.pid=7") != NULL;
                seen[1] |= strstr(text, "process.pid=8") != NULL;
        }
        cr_assert(seen[0] && seen[1]);
}

Test(reshape, gives_types_a_name_and_a_period_that_every_reader_takes) {
        const ReshapeOptions options = { .plain_types = true };
        Window *window = NULL;
        _cleanup_(window_freep) Window *from = filled(), *to = reshape(from, &options), *plain = NULL;
        WindowProfileNames names = { 0 };
        uint32_t index, resource;

        cr_assert_eq(find(to, "suspended", &index)->period, 1);
        cr_assert_eq(find(to, "samples", &index)->period, find(from, "samples", &index)->period);
        FILL(window_new(&window, FILL_START_NS, FILL_OFFSET_NS, NULL));
        resource = fill_resource(window, 1, 7, "shop");
        names.type = fill_string(window, "wall-samples");
        names.unit = fill_string(window, "count");
        FILL(window_profile_named(window, resource, &names, 0, &index));
        FILL(window_sample(window, index, 0, 0, 0, 1, FILL_START_NS));
        names.type = fill_string(window, "a-b-c");
        FILL(window_profile_named(window, resource, &names, 5, &index));
        FILL(window_sample(window, index, 0, 0, 0, 1, FILL_START_NS));
        index = fill_profile(window, resource, PROFILE_OFF_CPU);
        FILL(window_sample(window, index, 0, 0, 0, 1, FILL_START_NS));
        index = fill_profile(window, resource, PROFILE_WAKER);
        FILL(window_sample(window, index, 0, 0, 0, 1, FILL_START_NS));
        FILL(window_close(window, FILL_START_NS + 100));
        plain = reshape(window, &options);
        cr_assert_eq(find(plain, "wall", &index)->period, 1);
        cr_assert_str_eq(window_get_string(plain, find(plain, "wall", &index)->names.period_type, NULL), "wall");
        cr_assert_eq(find(plain, "a_b_c", &index)->period, 5);
        cr_assert_eq(find(plain, "off_cpu", &index)->period, 0);
        cr_assert_eq(find(plain, "off_cpu_waker", &index)->period, 1);
        window_free(window);
}

Test(reshape, forgets_times_and_keeps_sums) {
        const ReshapeOptions options = { .untimed = true };
        _cleanup_(window_freep) Window *from = filled(), *to = reshape(from, &options);
        const WindowProfile *profile;
        WindowSample sample;
        uint32_t index;

        profile = find(to, "suspended", &index);
        window_get_sample(to, index, 0, &sample);
        cr_assert_eq(sample.value, 1200);
        cr_assert_eq(sample.n_events, 2);
        cr_assert_eq(sample.n_times, 0);
        cr_assert_eq(profile->first_ns, FILL_START_NS + 5, "when it was is known");
        cr_assert_eq(profile->last_ns, FILL_START_NS + 6);
}

static FrameWord leaf(const Window *window) {
        WindowSample sample;
        size_t n;

        window_get_sample(window, 0, 0, &sample);
        return window_get_stack(window, sample.stack, &n)[0];
}

static const char *leaf_name(const Window *window) {
        WindowFrame frame = window_expand_frame(window, leaf(window));

        return window_get_string(window, window_get_function(window, frame.function)->name, NULL);
}

static Window *named(const char *type) {
        Window *window = NULL;
        uint32_t module, stack, profile;
        FrameWord word;

        FILL(window_new(&window, FILL_START_NS, FILL_OFFSET_NS, NULL));
        module = fill_module(window, "/bin/a", "abcd", 0x1000, 0x9000);
        word = fill_named(window, module, 0x1234, "main", 7, type);
        FILL(window_stack(window, &word, 1, &stack));
        profile = fill_profile(window, fill_resource(window, 1, 7, "shop"), PROFILE_CPU);
        FILL(window_sample(window, profile, stack, 0, 0, 1, FILL_START_NS));
        FILL(window_close(window, FILL_START_NS + 100));
        return window;
}

Test(reshape, takes_back_names_that_this_machine_has_found) {
        const ReshapeOptions unnamed = { .unnamed = true }, nameless = { .nameless = true };
        _cleanup_(window_freep) Window *native = named("native"), *kernel = named("kernel");
        _cleanup_(window_freep) Window *a = reshape(native, &unnamed), *b = reshape(kernel, &unnamed);
        _cleanup_(window_freep) Window *c = reshape(kernel, &nameless);

        cr_assert_str_eq(leaf_name(native), "main");
        cr_assert_str_eq(leaf_name(a), "");
        cr_assert_eq(window_expand_frame(a, leaf(a)).address, 0x1234);
        cr_assert_str_eq(leaf_name(b), "main", "no backend knows those of the kernel");
        cr_assert_str_eq(leaf_name(c), "");
}

static bool has_string(const Window *window, const char *wanted) {
        for (uint32_t i = 0; i < window_n_strings(window); i++)
                if (!strcmp(window_get_string(window, i, NULL), wanted))
                        return true;
        return false;
}

/* Not even the table of strings has the path. */
/* A backend that finds names itself wants one frame for each address. */
Test(reshape, takes_back_functions_that_were_inlined) {
        const ReshapeOptions unnamed = { .unnamed = true };
        _cleanup_(window_freep) Window *window = NULL, *bare = NULL;
        uint32_t module, stack, profile;
        WindowFrame inner;
        WindowSample sample;
        FrameWord words[2];
        size_t n;

        FILL(window_new(&window, FILL_START_NS, FILL_OFFSET_NS, NULL));
        module = fill_module(window, "/bin/a", "abcd", 0x1000, 0x9000);
        inner = window_expand_frame(window, fill_named(window, module, 0x1234, "parse", 9, "native"));
        inner.is_inlined = true;
        FILL(window_frame(window, &inner, &words[0]));
        words[1] = fill_named(window, module, 0x1234, "main", 7, "native");
        FILL(window_stack(window, words, 2, &stack));
        profile = fill_profile(window, fill_resource(window, 1, 7, "shop"), PROFILE_CPU);
        FILL(window_sample(window, profile, stack, 0, 0, 1, FILL_START_NS));
        FILL(window_close(window, FILL_START_NS + 100));
        bare = reshape(window, &unnamed);
        window_get_sample(bare, 0, 0, &sample);
        cr_assert_eq(window_get_stack(bare, sample.stack, &n)[0],
                     fill_native(bare, FRAME_MARK_NATIVE, 1, 0x1234));
        cr_assert_eq(n, 1);
}

Test(reshape, keeps_paths_of_mapped_files_back) {
        const ReshapeOptions name = { .paths = REMAP_PATHS_NAME }, none = { .paths = REMAP_PATHS_NONE };
        _cleanup_(window_freep) Window *from = fill_window(3, 40);
        _cleanup_(window_freep) Window *short_ = reshape(from, &name), *bare = reshape(from, &none);
        const char *path = NULL, *last;

        for (uint32_t i = 1; i < window_n_modules(from) && !path; i++) {
                path = window_get_string(from, window_get_module(from, i)->path, NULL);
                path = *path == '/' ? path : NULL;
        }
        cr_assert_not_null(path);
        last = strrchr(path, '/') + 1;
        cr_assert(has_string(from, path));
        cr_assert_not(has_string(short_, path));
        cr_assert(has_string(short_, last));
        cr_assert_not(has_string(bare, path));
        for (uint32_t i = 0; i < window_n_modules(bare); i++)
                cr_assert_neq(*window_get_string(bare, window_get_module(bare, i)->path, NULL), '/');
        cr_assert_eq(window_n_stacks(bare), window_n_stacks(from), "they differ by their build ids");
}

Test(reshape, keeps_all_of_a_rich_window) {
        const ReshapeOptions options = { .plain_types = true };
        _cleanup_(window_freep) Window *from = fill_window(3, 40), *to = reshape(from, &options);

        cr_assert_eq(window_n_profiles(to), window_n_profiles(from));
        cr_assert_eq(window_n_stacks(to), window_n_stacks(from));
        cr_assert_eq(window_n_links(to), window_n_links(from));
}

Test(reshape, counts_what_finds_no_room) {
        WindowLimits limits = window_default_limits;
        ReshapeOptions options = { .plain_types = true, .limits = &limits };
        _cleanup_(window_freep) Window *from = filled(), *to = NULL;
        ReshapeLost lost;

        limits.max_samples = 2;
        cr_assert_eq(window_reshape(&to, from, &options, &lost), 0);
        cr_assert_gt(lost.n_events, 0);
        cr_assert_eq(window_n_events(to) + lost.n_events, window_n_events(from));
        cr_assert_eq(window_n_events_of(to, PROFILE_CPU) + lost.n_cpu, window_n_events_of(from, PROFILE_CPU));
}

/* Processes of a lean resource, one of them boosted. */
Test(reshape, keeps_a_profile_for_each_period) {
        const ProfileType types[] = { PROFILE_CPU, PROFILE_BOOST };
        const ReshapeOptions options = { .lean = true };
        uint32_t profile, stack;
        Window *window, *to;
        ReshapeLost lost;

        FILL(window_new(&window, FILL_START_NS, FILL_OFFSET_NS, NULL));
        for (uint32_t i = 0; i < 2; i++) {
                FrameWord word = fill_native(window, FRAME_MARK_UNKNOWN, 0, 0x1000);

                profile = fill_profile(window, fill_resource(window, i, 7 + i, "shop"), types[i]);
                FILL(window_stack(window, &word, 1, &stack));
                FILL(window_sample(window, profile, stack, 0, 0, 1, FILL_START_NS + i));
                FILL(window_profile(window, i + 1, types[!i], &profile));
                FILL(window_sample(window, profile, stack, 0, 0, 1, FILL_START_NS + i));
        }
        window_set_period(window, PROFILE_CPU, 1000);
        window_set_period(window, PROFILE_BOOST, 200);
        FILL(window_close(window, FILL_START_NS + 100));
        cr_assert_eq(window_n_profiles(window), 4);
        cr_assert_eq(window_reshape(&to, window, &options, &lost), 0);
        cr_assert_eq(window_n_profiles(to), 2);
        for (uint32_t i = 0; i < 2; i++) {
                const WindowProfile *made = window_get_profile(to, i);

                cr_assert_eq(made->n_events, 2);
                cr_assert_eq(made->period, made->type == PROFILE_BOOST ? 200 : 1000);
                cr_assert_str_eq(window_get_string(to, made->names.type, NULL), "samples");
        }
        cr_assert_neq(window_get_profile(to, 0)->type, window_get_profile(to, 1)->type);
        window_free(window);
        window_free(to);
}

/* Fine ticks stand first, and would fill the table. */
Test(reshape, leaves_the_room_of_ticks_that_are_not_exported_to_others) {
        WindowLimits limits = window_default_limits;
        ReshapeOptions options = { .untimed = true, .limits = &limits };
        ReshapeLost lost;
        Window *window, *to;
        uint32_t profile, stack;

        FILL(window_new(&window, FILL_START_NS, FILL_OFFSET_NS, NULL));
        for (uint32_t i = 0; i < 100; i++) {
                FrameWord word = fill_native(window, FRAME_MARK_UNKNOWN, 0, 0x1000 + i);
                ProfileType type = i < 99 ? PROFILE_FINE : PROFILE_CPU;

                profile = fill_profile(window, fill_resource(window, 1, 7, "shop"), type);
                FILL(window_stack(window, &word, 1, &stack));
                FILL(window_sample(window, profile, stack, 0, 0, 1, FILL_START_NS + i));
        }
        FILL(window_close(window, FILL_START_NS + 100));
        limits.max_stacks = 50;
        for (int i = 0; i < 2; i++) {
                options.no_fine = i;
                cr_assert_eq(window_reshape(&to, window, &options, &lost), 0);
                cr_assert_eq(lost.n_cpu, !options.no_fine);
                cr_assert_eq(window_n_profiles(to), options.no_fine ? 1 : 2);
                cr_assert_eq(window_n_events_of(to, PROFILE_CPU), options.no_fine);
                window_free(to);
        }
        window_free(window);
}
