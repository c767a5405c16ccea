/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "desk/page/build.h"
#include "desk/page/page-decode.h"
#include "desk/page/page-encode.h"
#include "fill-window.h"

/* A window that is filled by hand: stacks are names with blanks between, the outermost first. */
typedef struct Hand {
        Window *window;
        uint32_t profile;
} Hand;

static Hand hand_new_limited(const WindowLimits *limits) {
        Hand hand = { 0 };
        uint32_t resource, attributes[2];

        cr_assert_eq(window_new(&hand.window, 1000, 0, limits), 0);
        cr_assert_eq(window_resource(hand.window, 1, &resource), 0);
        attributes[0] = fill_attribute(hand.window, "process.executable.name", "shop");
        attributes[1] = fill_int(hand.window, "process.pid", 7);
        cr_assert_eq(window_resource_attributes(hand.window, resource, attributes, 2), 0);
        cr_assert_eq(window_profile(hand.window, resource, PROFILE_CPU, &hand.profile), 0);
        window_set_period(hand.window, PROFILE_CPU, 10000000);
        return hand;
}

static Hand hand_new(void) {
        return hand_new_limited(NULL);
}

static FrameWord hand_frame(const Hand *hand, const char *name, size_t size, uint64_t address) {
        WindowFunction function = { 0 };
        WindowFrame frame = { .address = address };
        FrameWord word;

        cr_assert_eq(window_string(hand->window, name, size, &function.name), 0);
        cr_assert_eq(window_function(hand->window, &function, &frame.function), 0);
        frame.type = fill_string(hand->window, "native");
        cr_assert_eq(window_frame(hand->window, &frame, &word), 0);
        return word;
}

/* Frames have the address that stands behind their name: `main@5`; none = 0. */
static uint32_t hand_stack(const Hand *hand, const char *names) {
        FrameWord words[32];
        uint32_t stack;
        size_t n = 0;

        for (size_t size; *names; names += size + (names[size] == ' ')) {
                size_t name_size = strcspn(names, "@ ");

                size = strcspn(names, " ");
                words[31 - n++] = hand_frame(hand, names, name_size,
                                             name_size < size ? strtoull(names + name_size + 1, NULL, 10)
                                                              : 0);
        }
        cr_assert_eq(window_stack(hand->window, words + 32 - n, n, &stack), 0);
        return stack;
}

static void hand_sample(const Hand *hand, const char *names, uint64_t time_ns) {
        cr_assert_eq(window_sample(hand->window, hand->profile, hand_stack(hand, names), 0, 0, 1, time_ns),
                     0);
}

static PageModel *model_of(Hand *hand) {
        PageModel *model;

        cr_assert_eq(window_close(hand->window, 2000), 0);
        cr_assert_eq(page_model_new(&model, hand->window, NULL, NULL), 0);
        return model;
}

static const char *name_of_node(const PageModel *model, uint32_t node) {
        return page_get_string(model, page_get_frame(model, model->nodes[node].frame)->name);
}

static uint64_t value_at(const PageModel *model, uint32_t node) {
        uint64_t sum = 0;

        for (size_t i = 0; i < model->n_rows; i++)
                sum += model->rows[i].node == node ? model->rows[i].value : 0;
        return sum;
}

Test(page, walks_the_tree_in_the_order_of_names) {
        static const struct {
                const char *name;
                uint32_t parent;
                uint64_t value;
        } expected[] = {
                { "main", 0, 0 }, { "read", 1, 2 }, { "work", 1, 1 }, { "fib", 3, 1 }, { "hash", 3, 1 }
        };
        Hand hand = hand_new();
        PageModel *model;

        hand_sample(&hand, "main work hash", 1001);
        hand_sample(&hand, "main read", 1002);
        hand_sample(&hand, "main work", 1003);
        hand_sample(&hand, "main work fib", 1004);
        hand_sample(&hand, "main read", 1005);
        model = model_of(&hand);
        cr_assert_eq(model->n_nodes, 6);
        for (uint32_t i = 0; i < 5; i++) {
                cr_assert_str_eq(name_of_node(model, i + 1), expected[i].name);
                cr_assert_eq(model->nodes[i + 1].parent, expected[i].parent);
                cr_assert_eq(value_at(model, i + 1), expected[i].value);
        }
        page_model_free(model);
        window_free(hand.window);
}

Test(page, makes_one_node_of_the_addresses_of_one_function) {
        Hand hand = hand_new();
        PageModel *model;

        hand_sample(&hand, "main@5 work@100", 1001);
        hand_sample(&hand, "main@6 work@101", 1002);
        model = model_of(&hand);
        cr_assert_eq(model->n_nodes, 3);
        cr_assert_eq(value_at(model, 2), 2);
        cr_assert_eq(model->n_rows, 1, "one context, one part of the time");
        page_model_free(model);
        window_free(hand.window);
}

static void check_inlined(const char *names, const char *expected) {
        Hand hand = hand_new();
        PageModel *model;

        hand_sample(&hand, names, 1001);
        model = model_of(&hand);
        cr_assert_eq(model->n_nodes, strlen(expected) + 1);
        for (uint32_t i = 1; i < model->n_nodes; i++)
                cr_expect_eq(page_get_frame(model, model->nodes[i].frame)->inlined, expected[i - 1] == 'i',
                             "%s: frame %u", names, i);
        page_model_free(model);
        window_free(hand.window);
}

Test(page, tells_what_was_inlined_by_its_address) {
        check_inlined("main@1 outer@9 middle@9 inner@9", "..ii");
        check_inlined("main@1 work@2", "..");
        check_inlined("main work", "..");                       /* no addresses: nothing is known */
        /* a function that calls itself from one place */
        check_inlined("main@1 fib@9 fib@9 fib@9", "....");
        check_inlined("main@1 outer@9 inner@9 outer@9 inner@9", "..i.i");
}

Test(page, keeps_samples_without_a_stack) {
        Hand hand = hand_new();
        PageModel *model;

        cr_assert_eq(window_sample(hand.window, hand.profile, 0, 0, 0, 1, 1001), 0);
        model = model_of(&hand);
        cr_assert_eq(model->n_nodes, 2);
        cr_assert_str_eq(name_of_node(model, 1), "[no stack]");
        cr_assert_eq(value_at(model, 1), 1);
        page_model_free(model);
        window_free(hand.window);
}

Test(page, cleans_and_cuts_texts) {
        static const struct {
                const char *text, *shown;
        } cases[] = {
                { "plain", "plain" },
                { "Grüße", "Grüße" },
                { "a\nb\x7f",
                  "a\xEF\xBF\xBD"
                  "b\xEF\xBF\xBD" },
                { "\xE2\x80\xAE"
                  "exe",
                  "\xEF\xBF\xBD"
                  "exe" }, /* U+202E turns what follows round */
                { "\xE2\x81\xA6x\xE2\x81\xA9", "\xEF\xBF\xBDx\xEF\xBF\xBD" },
                { "\xC2\x85x", "\xEF\xBF\xBDx" },   /* U+0085, a control */
                { "\xE2\x80\xA6", "\xE2\x80\xA6" }, /* an ellipsis is none */
                { "\xF3\xA0\x81\x81"
                  "a\xE1\xA0\x8E\xC2\xAD",
                  "\xEF\xBF\xBD"
                  "a\xEF\xBF\xBD\xEF\xBF\xBD" }, /* U+E0041, 180E, 00AD */
                { "bad\xFF", "bad\xEF\xBF\xBD" },
                { "cut\xE2\x80", "cut\xEF\xBF\xBD\xEF\xBF\xBD" },
        };
        static char large[1 << 20];
        Hand hand = hand_new();
        PageModel *model = model_of(&hand);
        uint32_t string;

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                cr_assert_eq(page_string(model, cases[i].text, strlen(cases[i].text), &string), 0);
                cr_expect_str_eq(page_get_string(model, string), cases[i].shown);
        }
        for (size_t i = 0; i + 1 < sizeof(large); i += 2)
                memcpy(large + i, "\xC3\xA9", 2);
        /* the cut falls into a letter */
        cr_assert_eq(page_string(model, large + 1, sizeof(large) - 1, &string), 0);
        cr_expect_lt(strlen(page_get_string(model, string)), 1100);
        cr_expect_not_null(strstr(page_get_string(model, string), "… (1048575 bytes)"));
        cr_expect(text_is_utf8(page_get_string(model, string), strlen(page_get_string(model, string))));
        page_model_free(model);
        window_free(hand.window);
}

Test(page, says_of_an_empty_window_that_nothing_was_sampled) {
        Hand hand = hand_new();
        char *data = NULL;
        size_t size;
        FILE *out = open_memstream(&data, &size);

        cr_assert_eq(window_close(hand.window, 2000), 0);
        cr_assert_eq(page_write(hand.window, NULL, out), 0);
        cr_assert_eq(page_write_svg(hand.window, NULL, out), 0);
        cr_assert_eq(fclose(out), 0);
        cr_expect_not_null(strstr(data, "</html>"));
        cr_expect_not_null(strstr(data, "</svg>"));
        free(data);
        window_free(hand.window);
}

Test(page, sums_values_and_measures_them_by_the_period) {
        Hand hand = hand_new();
        PageModel *model;

        hand_sample(&hand, "main", 1001);
        hand_sample(&hand, "main", 1002);
        cr_assert_eq(window_sample_untimed(hand.window, hand.profile, hand_stack(&hand, "main"), 0, 0, 40),
                     0);
        model = model_of(&hand);
        cr_assert_eq(model->n_kinds, 1);
        cr_assert_eq(model->kinds[0].value[0], 42);
        cr_assert_eq(model->kinds[0].measured[0], 42 * 1e7);
        cr_assert_eq(value_at(model, 1), 42);
        cr_assert_eq(model->rows[0].bucket, 0, "what has no time comes first");
        cr_assert_eq(model->rows[0].value, 40);
        page_model_free(model);
        window_free(hand.window);
}

/* The spans are nearly all of what is left behind their number. */
/* A profile of Go's heap: all types have the same stacks, and those in use fewer of them. */
Test(page, shows_memory_in_use_first) {
        static const char *const types[] = { "alloc_objects", "alloc_space", "inuse_space" };
        uint32_t resource, profiles[3];
        PageModel *model;
        Hand hand;

        cr_assert_eq(window_new(&hand.window, 1000, 0, NULL), 0);
        cr_assert_eq(window_resource(hand.window, 1, &resource), 0);
        for (uint32_t i = 0; i < 3; i++) {
                const WindowProfileNames names = { .type = fill_string(hand.window, types[i]),
                                                   .unit = fill_string(hand.window, i ? "bytes" : "count") };

                cr_assert_eq(window_profile_named(hand.window, resource, &names, 512, &profiles[i]), 0);
                FILL(window_sample_untimed(hand.window, profiles[i], hand_stack(&hand, "main"), 0, 0, 8));
                if (i < 2)
                        FILL(window_sample_untimed(hand.window, profiles[i], hand_stack(&hand, "main work"),
                                                   0, 0, 8));
        }
        model = model_of(&hand);
        cr_assert_str_eq(page_get_string(model, model->kinds[page_main_kind(model)].type), "inuse_space");
        page_model_free(model);
        window_free(hand.window);
}

Test(page, is_read_back_where_little_stands_behind_its_spans) {
        const WindowLink span = { .trace_id = { 1 }, .span_id = { 2 } };
        const PageOptions options = { 0 };
        Hand hand = hand_new();
        DecodedPage page;
        PageModel *model;
        uint8_t *data;
        uint32_t link;
        size_t size;

        cr_assert_eq(window_link(hand.window, &span, &link), 0);
        cr_assert_eq(window_sample(hand.window, hand.profile, hand_stack(&hand, "main"), 0, link, 1, 1001),
                     0);
        cr_assert_eq(window_close(hand.window, 2000), 0);
        cr_assert_eq(page_model_new(&model, hand.window, NULL, &options), 0);
        cr_assert_eq(page_encode(model, &data, &size), 0);
        cr_assert_eq(page_decode(&page, data, size), 0);
        cr_assert_eq(page.n_rows, 1);
        page_decode_deinit(&page);
        free(data);
        page_model_free(model);
        window_free(hand.window);
}

/* `main` on one line calls `work` on another. */
static uint32_t lined_stack(const Hand *hand, int64_t caller, int64_t callee) {
        static const char *const names[] = { "work", "main" };
        const int64_t lines[] = { callee, caller };
        FrameWord words[2];
        uint32_t stack;

        for (size_t i = 0; i < 2; i++) {
                WindowFunction function = { 0 };
                WindowFrame frame = { .line = lines[i] };

                cr_assert_eq(window_string(hand->window, names[i], strlen(names[i]), &function.name), 0);
                cr_assert_eq(window_function(hand->window, &function, &frame.function), 0);
                cr_assert_eq(window_frame(hand->window, &frame, &words[i]), 0);
        }
        cr_assert_eq(window_stack(hand->window, words, 2, &stack), 0);
        return stack;
}

static void lined_sample(const Hand *hand, int64_t caller, int64_t callee) {
        cr_assert_eq(window_sample_untimed(hand->window, hand->profile, lined_stack(hand, caller, callee), 0,
                                           0, 1),
                     0);
}

Test(page, keeps_the_lines_of_one_node_apart) {
        Hand hand = hand_new();
        PageModel *model;

        lined_sample(&hand, 10, 20);
        lined_sample(&hand, 10, 21);
        lined_sample(&hand, 0, 20);             /* a line is known behind one that is not */
        lined_sample(&hand, 10, 0);             /* and none behind one that is */
        lined_sample(&hand, 0, 0);
        model = model_of(&hand);
        cr_assert_eq(model->n_nodes, 3);
        cr_assert_eq(model->n_rows, 5);
        for (size_t i = 0; i < 5; i++)
                cr_expect_eq(model->rows[i].node, 2);
        cr_expect_eq(model->rows[0].lines, 0, "no line of it is known");
        cr_expect_eq(model->lines.n_items, 6, "none; 10; 10, 20; 10, 21; 0; 0, 20");
        for (size_t i = 0; i < 5; i++) {
                const PageLines *lines = page_get_lines(model, model->rows[i].lines);

                if (lines->line == 21)
                        cr_expect_eq(page_get_lines(model, lines->outer)->line, 10);
        }
        cr_expect(!model->lines_left_out);
        page_model_free(model);
        window_free(hand.window);
}

Test(page, forgets_lines_rather_than_have_too_many_rows) {
        enum { N_THREADS = 40, N_LINES = PAGE_MAX_ROWS / N_THREADS + 1 };
        WindowLimits limits = window_default_limits;
        uint32_t sets[N_THREADS];
        Hand hand;
        DecodedPage page;
        PageModel *model;
        uint8_t *data;
        size_t size;

        limits.max_samples = 1 << 20;
        limits.max_bytes = 1 << 30;
        hand = hand_new_limited(&limits);
        for (uint32_t i = 0; i < N_THREADS; i++) {
                uint32_t thread = fill_int(hand.window, "thread.id", i + 1);

                cr_assert_eq(window_attribute_set(hand.window, &thread, 1, &sets[i]), 0);
        }
        for (uint32_t i = 0; i < N_LINES; i++) {
                uint32_t stack = lined_stack(&hand, 1 + i % 1000, 1 + i / 1000);

                for (uint32_t j = 0; j < N_THREADS; j++)
                        cr_assert_eq(window_sample_untimed(hand.window, hand.profile, stack, sets[j], 0, 1),
                                     0);
        }
        model = model_of(&hand);
        cr_expect(model->lines_left_out);
        cr_assert_eq(model->n_rows, N_THREADS);
        cr_expect_eq(model->rows[0].value, N_LINES);
        cr_assert_eq(page_encode(model, &data, &size), 0);
        cr_expect_not_null(memmem(data, size, "\"linesLeftOut\":true", strlen("\"linesLeftOut\":true")));
        cr_assert_eq(page_decode(&page, data, size), 0);
        cr_expect_eq(page.n_lines, 1);
        cr_expect_eq(page.rows[0].value, N_LINES);
        page_decode_deinit(&page);
        free(data);
        page_model_free(model);
        window_free(hand.window);
}

/* A page of lines that are deeper than their node, as nothing of ours writes it. */
Test(page, refuses_more_lines_than_steps) {
        Hand hand = hand_new();
        DecodedPage page;
        PageModel *model;
        uint8_t *data;
        size_t size;

        lined_sample(&hand, 10, 20);
        model = model_of(&hand);
        cr_assert_eq(model->n_rows, 1);
        model->rows[0].node = 1;
        cr_assert_eq(page_encode(model, &data, &size), 0);
        cr_expect_eq(page_decode(&page, data, size), PAGE_DECODE_E_CORRUPT);
        page_decode_deinit(&page);
        free(data);
        page_model_free(model);
        window_free(hand.window);
}
