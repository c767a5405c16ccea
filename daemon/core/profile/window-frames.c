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

int window_name_frame(Window *window, FrameWord word, uint32_t function) {
        int r;

        if (window->full)
                return WINDOW_E_FULL;
        r = hashmap_put(&window->names, word, (void *)(uintptr_t)function);
        if (r)
                return error_fold(r);
        window->full = window_memory(window) > window->limits.max_bytes;
        return 0;
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

        if (!frame.function && window->names.n_entries)
                frame.function = (uint32_t)(uintptr_t)hashmap_get(&window->names, word);
        return frame;
}

int window_stack(Window *window, const FrameWord *frames, size_t n_frames, uint32_t *indexp) {
        if (n_frames > WINDOW_MAX_DEPTH)
                return WINDOW_E_FULL;
        return window_add_row(window, &window->tables.stacks, frames, n_frames * sizeof(*frames), indexp);
}
