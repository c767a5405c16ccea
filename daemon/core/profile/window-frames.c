/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Frames and stacks of a window.
 *
 * Most frames are native, and most of those fit one word, which says all of it and needs no table:
 *
 *     63 61 60      44 43                                0
 *     mark | module   | address
 *     mark 7 | index into the frame table                     a function, a line, or too large
 *
 * The same frame is always the same word, so equal stacks are equal bytes.
 */
#include "core/profile/window-private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/stat.h"

#define WORD_MARK_SHIFT 61
#define WORD_ADDRESS_MASK ((UINT64_C(1) << FRAME_ADDRESS_BITS) - 1)
#define WORD_MODULE_MASK ((UINT64_C(1) << FRAME_MODULE_BITS) - 1)

static const char *const mark_names[FRAME_MARK_TABLE] = {
        [FRAME_MARK_NATIVE] = "native",
        [FRAME_MARK_KERNEL] = "kernel",
        [FRAME_MARK_UNKNOWN] = "unknown",
};

static int add_frame_type(Window *window, uint32_t string) {
        FrameType *type = &window->types.rows[window->types.n];
        const char *text = window_get_string(window, string, NULL);
        int r;

        if (window->types.n == MAX_FRAME_TYPES)
                return WINDOW_E_FULL;
        r = window_attribute_string(window, "profile.frame.type", text, strlen(text), &type->attribute);
        if (r)
                return r;
        type->string = string;
        type->mark = FRAME_MARK_TABLE;
        for (int i = 0; i < FRAME_MARK_TABLE; i++)
                if (mark_names[i] && !strcmp(text, mark_names[i]))
                        type->mark = (FrameMark)i;
        if (type->mark != FRAME_MARK_TABLE)
                window->types.by_mark[type->mark] = string;
        window->types.n++;
        return 0;
}

/* Mark with the same meaning as @string; FRAME_MARK_TABLE = there is none. */
static int find_mark(Window *window, uint32_t string, FrameMark *markp) {
        uint32_t i;
        int r;

        *markp = FRAME_MARK_TABLE;
        if (!string)
                return 0;
        for (i = 0; i < window->types.n && window->types.rows[i].string != string; i++)
                ;
        if (i == window->types.n) {
                r = add_frame_type(window, string);
                if (r)
                        return r;
        }
        *markp = window->types.rows[i].mark;
        return 0;
}

static uint32_t checked_module(Window *window, uint32_t module, uint64_t address) {
        const WindowModule *row = window_get_module(window, module);

        if (!row->limit || (address >= row->start && address < row->limit))
                return module;
        stat_add(COUNTER_FRAMES_OUTSIDE_MODULE, 1);
        return 0;
}

static bool fits_word(uint32_t module, uint64_t address) {
        return address <= WORD_ADDRESS_MASK && module <= WORD_MODULE_MASK;
}

static FrameWord make_word(FrameMark mark, uint32_t module, uint64_t address) {
        return (FrameWord)mark << WORD_MARK_SHIFT | (FrameWord)module << FRAME_ADDRESS_BITS | address;
}

int window_frame(Window *window, const WindowFrame *frame, FrameWord *wordp) {
        WINDOW_ROW(WindowFrame, row);
        FrameMark mark;
        uint32_t index;
        int r;

        row.module = checked_module(window, frame->module, frame->address);
        row.function = frame->function;
        row.address = frame->address;
        row.line = MAX(frame->line, 0);
        row.type = frame->type;
        row.attribute = frame->attribute;
        row.is_inlined = frame->is_inlined;
        r = find_mark(window, row.type, &mark);
        if (r)
                return r;
        if (mark != FRAME_MARK_TABLE && !row.function && !row.line && !row.attribute && !row.is_inlined &&
            fits_word(row.module, row.address)) {
                *wordp = make_word(mark, row.module, row.address);
                return 0;
        }
        r = window_add_row(window, &window->tables.frames, &row, sizeof(row), &index);
        if (r)
                return r;
        window->has_inlined |= row.is_inlined;
        *wordp = make_word(FRAME_MARK_TABLE, 0, index);
        return 0;
}

int window_native_frame(Window *window, FrameMark mark, uint32_t module, uint64_t address, FrameWord *wordp) {
        uint32_t string;
        int r;

        if (!window->types.by_mark[mark]) {
                r = window_string(window, mark_names[mark], strlen(mark_names[mark]), &string);
                if (!r)
                        r = add_frame_type(window, string);
                if (r)
                        return r;
        }
        module = checked_module(window, module, address);
        if (fits_word(module, address)) {
                *wordp = make_word(mark, module, address);
                return 0;
        }
        return window_frame(window,
                            &(WindowFrame){ .module = module, .address = address,
                                            .type = window->types.by_mark[mark] },
                            wordp);
}

static WindowFrame expand(const Window *window, FrameWord word) {
        FrameMark mark = (FrameMark)(word >> WORD_MARK_SHIFT);

        if (mark == FRAME_MARK_TABLE)
                return *window_get_frame(window, (uint32_t)word);
        return (WindowFrame){ .module = (uint32_t)(word >> FRAME_ADDRESS_BITS & WORD_MODULE_MASK),
                              .address = word & WORD_ADDRESS_MASK,
                              .type = window->types.by_mark[mark] };
}

WindowFrame window_expand_frame(const Window *window, FrameWord word) {
        WindowFrame frame = expand(window, word);
        const FrameNames *names =
                !frame.function && window->names.n_entries ? hashmap_get(&window->names, word) : NULL;

        if (names && names->n)
                return expand(window, names->words[names->n - 1]);
        if (names)
                frame.function = names->function;
        return frame;
}

/* ---- names that come late ---- */

static int name_word(Window *window, WindowFrame frame, const WindowName *name, FrameWord *wordp) {
        frame.function = name->function;
        frame.line = name->line;
        return window_frame(window, &frame, wordp);
}

static int put_names(Window *window, FrameWord word, const FrameNames *names) {
        int r = hashmap_put(&window->names, word, (void *)names);

        if (r)
                return error_fold(r);
        window->full = window_memory(window) > window->limits.max_bytes;
        return 0;
}

static int new_names(Window *window, size_t n, uint32_t function, FrameNames **namesp) {
        if (window->full)
                return WINDOW_E_FULL;
        *namesp = arena_alloc(&window->arena, sizeof(**namesp) + n * sizeof((*namesp)->words[0]));
        if (!*namesp)
                return error_origin(-ENOMEM);
        **namesp = (FrameNames){ .function = function, .n = (uint32_t)n };
        return 0;
}

/* A function without a line takes no row of the frame table. */
int window_name_frame(Window *window, FrameWord word, uint32_t function) {
        FrameNames *names;
        int r = new_names(window, 0, function, &names);

        return r ? r : put_names(window, word, names);
}

int window_name_inlined(Window *window, FrameWord word, const WindowName *names, size_t n) {
        WindowFrame frame = expand(window, word);
        FrameNames *row;
        int r = new_names(window, n, names[n - 1].function, &row);

        for (size_t i = 0; i < n && !r; i++) {
                frame.is_inlined = i + 1 < n;
                r = name_word(window, frame, &names[i], &row->words[i]);
        }
        return r ? r : put_names(window, word, row);
}

/* The frames of @word, or the word itself: *singlep, which holds it. */
static const FrameWord *words_of(const Window *window, const FrameWord *singlep, size_t *np) {
        const FrameNames *names = hashmap_get(&window->names, *singlep);

        *np = names && names->n > 1 ? names->n : 1;
        return names && names->n > 1 ? names->words : singlep;
}

/* Return: 0, WINDOW_E_FULL, -ENOMEM. */
static int spread_stack(Window *window, uint32_t index, size_t n_spread) {
        const InternItem *item = intern_get(&window->tables.stacks, index);
        const FrameWord *words = item->data;
        FrameWord *to;
        size_t n, at = 0;

        if (window->full || n_spread > WINDOW_MAX_DEPTH)
                return WINDOW_E_FULL;
        to = arena_alloc(&window->arena, n_spread * sizeof(*to));
        if (!to)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < item->size / sizeof(*words); i++, at += n) {
                const FrameWord *named = words_of(window, &words[i], &n);

                memcpy(to + at, named, n * sizeof(*to));
        }
        window->spread[index] = (SpreadStack){ .words = to, .n = n_spread };
        window->full = window_memory(window) > window->limits.max_bytes;
        return 0;
}

static size_t spread_length(const Window *window, uint32_t index) {
        const InternItem *item = intern_get(&window->tables.stacks, index);
        const FrameWord *words = item->data;
        size_t total = 0, n;

        for (size_t i = 0; i < item->size / sizeof(*words); i++, total += n)
                words_of(window, &words[i], &n);
        return total;
}

int window_spread_names(Window *window, uint32_t *n_lostp) {
        *n_lostp = 0;
        if (!window->closed || !window->has_inlined || !window->names.n_entries)
                return 0;
        if (!window->spread)
                window->spread = calloc(window->tables.stacks.n_items, sizeof(*window->spread));
        if (!window->spread)
                return error_origin(-ENOMEM);
        for (uint32_t i = 1; i < window->tables.stacks.n_items; i++) {
                size_t n = spread_length(window, i);
                int r = n * sizeof(FrameWord) == intern_get(&window->tables.stacks, i)->size
                        ? 0
                        : spread_stack(window, i, n);

                if (r < 0)
                        return error_fold(r);
                *n_lostp += r > 0;
        }
        return 0;
}

int window_stack(Window *window, const FrameWord *frames, size_t n_frames, uint32_t *indexp) {
        if (n_frames > WINDOW_MAX_DEPTH)
                return WINDOW_E_FULL;
        return window_add_row(window, &window->tables.stacks, frames, n_frames * sizeof(*frames), indexp);
}
