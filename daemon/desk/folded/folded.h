/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Folded Stacks
 *
 * Lines of `outermost;…;innermost NUMBER`, as stackcollapse scripts, perf, async-profiler and others print
 * them → samples of one profile, whose type is not known: samples/count. Text in, rows out. `name+0x1f` and
 * the endings that other tools put behind names (`_[k]` and so on) stay parts of a name; `_[k]` alone also
 * makes it a kernel frame.
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

/* Whether a file begins like that: its first line has a stack and a number, or is too long to tell. */
bool folded_recognize(const uint8_t *data, size_t size);

/* Adds a line without its newline. Return: 0, FOLDED_E_*, -ENOMEM. */
int folded_add_line(Window *window, uint32_t profile, const char *line, size_t size);
