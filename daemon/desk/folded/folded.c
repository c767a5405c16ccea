/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Splits a line at its last blank and its stack at semicolons, and interns each frame by its text.
 */

#include "desk/folded/folded.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "core/base/util/error.h"

enum { MAX_FRAMES = 4096 };             /* frames of a line; the outermost are kept */

/* Where the number at the end begins. Return: 0, or 1 = there is none, or nothing before it. */
static int find_number(const char *line, size_t size, size_t *stack_sizep, int64_t *valuep) {
        size_t at = size;
        int64_t value = 0;

        while (at && line[at - 1] >= '0' && line[at - 1] <= '9')
                at--;
        if (at == size || at < 2 || line[at - 1] != ' ')
                return 1;
        for (size_t i = at; i < size; i++)
                if (__builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, line[i] - '0', &value))
                        return 1;
        *stack_sizep = at - 1;
        *valuep = value;
        return 0;
}

static int add_frame(Window *window, const char *name, size_t size, FrameWord *wordp) {
        WindowFunction function = { 0 };
        WindowFrame frame = { 0 };
        int r = window_string(window, name, size, &function.name);

        if (!r && size > 4 && !memcmp(name + size - 4, "_[k]", 4))
                r = window_string(window, "kernel", 6, &frame.type);
        if (!r)
                r = window_function(window, &function, &frame.function);
        return r ? r : window_frame(window, &frame, wordp);
}

int folded_add_line(Window *window, uint32_t profile, const char *line, size_t size) {
        FrameWord words[MAX_FRAMES];
        const char *at = line, *end;
        size_t n = MAX_FRAMES;
        uint32_t stack;
        int64_t value;
        int r = 0;

        if (size && line[size - 1] == '\r')
                size--;
        if (find_number(line, size, &size, &value))
                return FOLDED_E_MALFORMED;
        for (end = line + size; at < end && n && !r;) {
                const char *semicolon = memchr(at, ';', (size_t)(end - at));
                const char *stop = semicolon ? semicolon : end;

                if (stop > at)
                        r = add_frame(window, at, (size_t)(stop - at), &words[--n]);
                at = stop + 1;
        }
        if (!r && n == MAX_FRAMES)
                return FOLDED_E_MALFORMED;
        r = r ? r : window_stack(window, words + n, MAX_FRAMES - n, &stack);
        if (!r && value)
                r = window_sample_untimed(window, profile, stack, 0, 0, value);
        return r == WINDOW_E_FULL ? FOLDED_E_FULL : r;
}

bool folded_recognize(const uint8_t *data, size_t size) {
        const char *line = (const char *)data, *newline;
        size_t length, stack_size;
        int64_t value;

        /* async-profiler and others put comments first */
        while (size && (*line == '\n' || *line == '#')) {
                newline = memchr(line, '\n', size);
                length = newline ? (size_t)(newline - line) + 1 : size;
                line += length;
                size -= length;
        }
        newline = memchr(line, '\n', size);
        length = newline ? (size_t)(newline - line) : size;
        for (size_t i = 0; i < length; i++)
                if ((unsigned char)line[i] < ' ' && line[i] != '\t' && line[i] != '\r')
                        return false;
        if (length && line[length - 1] == '\r')
                length--;
        if (!find_number(line, length, &stack_size, &value))
                return true;
        return !newline && size > 1024 && memchr(line, ';', length) && *line != '{';
}
