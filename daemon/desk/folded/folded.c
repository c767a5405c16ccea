/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Splits a line at its last blank or tab and its stack at semicolons, and interns each frame by its text.
 */

#include "desk/folded/folded.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "core/base/util/error.h"

enum {
        MAX_FRAMES = 4096,              /* frames of a line; the outermost are kept */
        MAX_EXPONENT = 30,
        /* lines that are looked at for one with a stack: tools put warnings first */
        MAX_HEAD_LINES = 64,
};

/* A number at the end of a line. */
typedef struct FoldedNumber {
        int64_t whole;
        long double real;
        bool is_real;                   /* with a fraction or an exponent: `real` counts */
        bool is_over;                   /* `whole` is above 64 bits */
} FoldedNumber;

static bool is_blank(char c) {
        return c == ' ' || c == '\t';
}

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

/* 12, 1.5, .5 or 1e3: digits, a fraction, an exponent. Return: whether all of the text is one. */
static bool parse_number(const char *at, const char *end, FoldedNumber *number) {
        long double value = 0, unit = 1;
        int exponent = 0, sign = 1;
        bool any = false;

        *number = (FoldedNumber){ 0 };
        for (; at < end && is_digit(*at); at++, any = true) {
                value = value * 10 + (*at - '0');
                number->is_over |= __builtin_mul_overflow(number->whole, 10, &number->whole) ||
                        __builtin_add_overflow(number->whole, *at - '0', &number->whole);
        }
        if (at == end)
                return any;
        number->is_real = true;
        if (*at == '.')
                for (at++; at < end && is_digit(*at); at++, any = true)
                        value += (*at - '0') * (unit /= 10);
        if (any && at < end && (*at == 'e' || *at == 'E')) {
                at++;
                sign = at < end && *at == '-' ? -1 : 1;
                at += at < end && (*at == '-' || *at == '+');
                any = at < end;
                for (; at < end && is_digit(*at) && exponent <= MAX_EXPONENT; at++)
                        exponent = exponent * 10 + (*at - '0');
        }
        for (; exponent > 0; exponent--)
                value = sign > 0 ? value * 10 : value / 10;
        number->real = value;
        return any && at == end;
}

/* The number behind the last blank. Return: 0, or 1 = there is none, or nothing before it. */
static int find_number(const char *line, size_t size, size_t *stack_sizep, FoldedNumber *number) {
        size_t end = size, at;

        while (end && (is_blank(line[end - 1]) || line[end - 1] == '\r'))
                end--;
        at = end;
        while (at && !is_blank(line[at - 1]))
                at--;
        if (!parse_number(line + at, line + end, number))
                return 1;
        while (at && is_blank(line[at - 1]))
                at--;
        *stack_sizep = at;
        return !at;
}

/*
 * A profile counts whole numbers. What a fraction lacks is carried to the next one, so that the sum of all is
 * right within one; what is above 64 bits is the largest number.
 */
static int64_t count_of(Folded *folded, const FoldedNumber *number) {
        long double value = number->real + folded->carry;
        int64_t whole;

        if (!number->is_real) {
                folded->n_over += number->is_over;
                return number->is_over ? INT64_MAX : number->whole;
        }
        folded->n_rounded++;
        if (value >= 0x1p63L) {
                folded->n_over++;
                return INT64_MAX;
        }
        whole = (int64_t)value;
        folded->carry = value - (long double)whole;
        return whole;
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

int folded_add_line(Folded *folded, const char *line, size_t size) {
        FrameWord words[MAX_FRAMES];
        const char *at = line, *end;
        size_t n = MAX_FRAMES;
        FoldedNumber number;
        uint32_t stack;
        int64_t value;
        int r = 0;

        if (find_number(line, size, &size, &number))
                return FOLDED_E_MALFORMED;
        for (end = line + size; at < end && n && !r;) {
                const char *semicolon = memchr(at, ';', (size_t)(end - at));
                const char *stop = semicolon ? semicolon : end;

                if (stop > at)
                        r = add_frame(folded->window, at, (size_t)(stop - at), &words[--n]);
                at = stop + 1;
        }
        folded->n_cut += at < end;
        if (!r && n == MAX_FRAMES)
                return FOLDED_E_MALFORMED;
        r = r ? r : window_stack(folded->window, words + n, MAX_FRAMES - n, &stack);
        value = r ? 0 : count_of(folded, &number);
        if (value)
                r = window_sample_untimed(folded->window, folded->profile, stack, 0, 0, value);
        return r == WINDOW_E_FULL ? FOLDED_E_FULL : r;
}

size_t folded_bom(const uint8_t *data, size_t size) {
        return size >= 3 && !memcmp(data, "\xEF\xBB\xBF", 3) ? 3 : 0;
}

static bool is_text(const char *text, size_t size) {
        for (size_t i = 0; i < size; i++)
                if ((unsigned char)text[i] < ' ' && !memchr("\t\r\n", text[i], 3))
                        return false;
        return true;
}

bool folded_recognize(const uint8_t *data, size_t size) {
        const char *line = (const char *)data + folded_bom(data, size), *end = (const char *)data + size;
        FoldedNumber number;
        size_t stack_size, n = 0;

        if (line == end || memchr("{[<", *line, 3) || !is_text(line, (size_t)(end - line)))
                return false;
        while (line < end && n < MAX_HEAD_LINES) {
                const char *newline = memchr(line, '\n', (size_t)(end - line)), *stop = newline ? newline : end;
                bool is_stack = !find_number(line, (size_t)(stop - line), &stack_size, &number);

                /* async-profiler and others put comments first */
                if (*line != '#' && stop > line) {
                        /* behind other text a stack has two frames at least */
                        if (is_stack && (!n || memchr(line, ';', stack_size)))
                                return true;
                        if (!n && !newline && size > 1024 && memchr(line, ';', (size_t)(stop - line)))
                                return true;
                        n++;
                }
                line = stop + (newline != NULL);
        }
        return false;
}
