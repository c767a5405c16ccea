/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Folded Stacks
 *
 * Lines of `outermost;…;innermost NUMBER`, as stackcollapse scripts, perf, async-profiler and others print
 * them → samples of one profile, whose type is not known: samples/count. Text in, rows out. `name+0x1f` and
 * the endings that other tools put behind names (`_[k]` and so on) stay parts of a name; `_[k]` alone also
 * makes it a kernel frame. Numbers may have a fraction or an exponent; a tab may stand before them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/profile/window.h"

enum {
        _FOLDED_E_SUCCESS,
        FOLDED_E_MALFORMED,             /* a line without a stack or a number */
        FOLDED_E_FULL,                  /* a cap of the window is reached */
};

/* The window and profile that lines are added to, and counts of what was changed on the way. */
typedef struct Folded {
        Window *window;
        uint32_t profile;
        long double carry;              /* fractions that did not make a whole number yet */
        uint64_t n_rounded;             /* numbers that were not whole, */
        uint64_t n_over;                /* … above 64 bits, */
        uint64_t n_cut;                 /* … and stacks with too many frames */
} Folded;

/* Bytes of a mark of UTF-8 at the start. */
size_t folded_bom(const uint8_t *data, size_t size);

/*
 * Whether a file begins like that: text whose first line has a stack and a number or is too long to tell, or
 * where one of the next lines has a stack of several frames.
 */
bool folded_recognize(const uint8_t *data, size_t size);

/* Adds a line without its newline. Return: 0, FOLDED_E_*, -ENOMEM. */
int folded_add_line(Folded *folded, const char *line, size_t size);
