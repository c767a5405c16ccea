/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Folded stacks, as flame graph tools read them: one line a stack, outermost function first, and a number.
 *
 *     java.lang.Thread.run;Work.run;Work.fib 172
 *
 * There is one number a line and no word for what it counts, so all must be of one profile type
 * (core/profile/shown.h); a notice says that there were others.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/profile/shown.h"
#include "desk/convert/format.h"

enum { FLUSH = 1 << 20 };

/* Bytes that would end a frame or a line become `_`, a `;` in a name `:`. */
static void append_name(Text *text, const char *name, size_t size) {
        size_t at = text->size;

        text_append(text, name, size);
        if (text->failed)
                return;
        for (; at < text->size; at++) {
                if (text->data[at] == ';')
                        text->data[at] = ':';
                else if ((unsigned char)text->data[at] < ' ')
                        text->data[at] = '_';
        }
}

static void append_frame(const Window *window, FrameWord word, Text *text) {
        WindowFrame frame = window_expand_frame(window, word);
        const char *name;
        size_t size = 0;

        if (frame.function) {
                name = window_get_string(window, window_get_function(window, frame.function)->name, &size);
                append_name(text, name, size);
        }
        if (size)
                return;
        if (frame.module) {
                const char *path = window_get_string(window, window_get_module(window, frame.module)->path,
                                                     NULL);

                path = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
                append_name(text, *path ? path : "[object]", strlen(*path ? path : "[object]"));
                text_printf(text, "+0x%" PRIx64, frame.address);
        } else if (frame.address)
                text_printf(text, "0x%" PRIx64, frame.address);
        else
                text_append(text, "[unknown]", 9);
}

static void append_stack(const Window *window, uint32_t stack, Text *text) {
        size_t n;
        const FrameWord *words = window_get_stack(window, stack, &n);

        if (!n)
                text_append(text, "[no stack]", 10);
        for (size_t i = n; i-- > 0;) {
                append_frame(window, words[i], text);
                if (i)
                        text_append(text, ";", 1);
        }
}

/* Whether two profiles have one type, whatever their resources. */
static bool same_type(const WindowProfile *a, const WindowProfile *b) {
        return a->names.type == b->names.type && a->names.unit == b->names.unit;
}

static const WindowProfile *choose(const Convert *convert) {
        const Window *window = convert->window;
        const WindowProfile *best = shown_find(window);
        bool others = false;

        if (best && profile_is_cpu(best->type))
                convert_say_uneven(convert);
        for (uint32_t i = 0; i < window_n_profiles(window); i++)
                others |= !same_type(best, window_get_profile(window, i));
        if (others)
                convert_notice(convert, "folded stacks have one number a line: only %s in %s is written",
                               window_get_string(window, best->names.type, NULL),
                               window_get_string(window, best->names.unit, NULL));
        return best;
}

/* Samples with one stack, whatever their threads and spans, are one line. */
static int sum_stacks(const Window *window, const WindowProfile *chosen, int64_t *sums) {
        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);

                for (uint32_t j = 0; same_type(profile, chosen) && j < profile->n_samples; j++) {
                        WindowSample sample;

                        window_get_sample(window, i, j, &sample);
                        if (__builtin_add_overflow(sums[sample.stack], MAX(sample.value, INT64_C(0)),
                                                   &sums[sample.stack]))
                                sums[sample.stack] = INT64_MAX;
                }
        }
        return 0;
}

/* Stacks that differ only in lines or addresses are one line. */
typedef struct Lines {
        Intern texts;
        int64_t *sums;
        size_t room;
} Lines;

static int add_line(Lines *lines, const Text *text, int64_t value) {
        uint32_t index;
        int r = array_reserve(&lines->sums, &lines->room, lines->texts.n_items + 1u, 1024);

        if (r)
                return r;
        r = intern_add(&lines->texts, text->data, text->size, &index);
        if (r < 0 || r == INTERN_E_FULL)
                return r < 0 ? r : error_origin(-ENOMEM);
        if (r == 0)
                lines->sums[index] = 0;
        if (__builtin_add_overflow(lines->sums[index], value, &lines->sums[index]))
                lines->sums[index] = INT64_MAX;
        return 0;
}

static int make_lines(const Window *window, const int64_t *sums, Lines *lines) {
        Text text = { 0 };
        int r = 0;

        for (uint32_t i = 0; i < window_n_stacks(window) && !r; i++) {
                if (!sums[i])
                        continue;
                text.size = 0;
                append_stack(window, i, &text);
                r = text.failed ? error_origin(-ENOMEM) : add_line(lines, &text, sums[i]);
        }
        text_deinit(&text);
        return r;
}

static int write_lines(const Lines *lines, ConvertSink sink, void *userdata) {
        Text text = { 0 };
        int r = 0;

        for (uint32_t i = 0; i < lines->texts.n_items && !r; i++) {
                const InternItem *item = intern_get(&lines->texts, i);

                text_append(&text, item->data, item->size);
                text_printf(&text, " %" PRId64 "\n", lines->sums[i]);
                if (text.failed)
                        r = error_origin(-ENOMEM);
                else if (text.size > FLUSH || i + 1 == lines->texts.n_items) {
                        r = sink((const uint8_t *)text.data, text.size, 0, userdata);
                        text.size = 0;
                }
        }
        text_deinit(&text);
        return r;
}

static int write_folded(const Convert *convert, ConvertSink sink, void *userdata, Text *problem) {
        const Window *window = convert->window;
        _cleanup_(freep) int64_t *sums = calloc(window_n_stacks(window), sizeof(*sums));
        Lines lines = { 0 };
        int r;

        if (!sums)
                return error_origin(-ENOMEM);
        sum_stacks(window, choose(convert), sums);
        intern_init(&lines.texts, UINT32_MAX - 1);
        r = make_lines(window, sums, &lines);
        if (!r)
                r = write_lines(&lines, sink, userdata);
        intern_deinit(&lines.texts);
        free(lines.sums);
        return r;
}

/* Losses beside a stack. choose() tells of types that are not chosen. */
void convert_stack_losses(const Convert *convert, Text *words) {
        uint64_t n_times = 0, n_links = 0, n_attributes = 0;

        for (uint32_t i = 0; i < window_n_profiles(convert->window); i++)
                for (uint32_t j = 0; j < window_get_profile(convert->window, i)->n_samples; j++) {
                        WindowSample sample;

                        window_get_sample(convert->window, i, j, &sample);
                        n_times += sample.n_times;
                        n_links += sample.link ? sample.n_events : 0;
                        n_attributes += sample.attributes ? sample.n_events : 0;
                }
        convert_loss(words, n_times, "time", "times");
        convert_loss(words, n_links, "span of an event", "spans of events");
        convert_loss(words, n_attributes, "attribute of an event", "attributes of events");
        convert_loss(words, window_n_resources(convert->window) - 1, "resource", "resources");
}

const ConvertWriter convert_write_folded = {
        .name = "folded",
        .suffixes = ".folded .collapsed",
        .names = true,
        .write = write_folded,
        .losses = convert_stack_losses,
};
