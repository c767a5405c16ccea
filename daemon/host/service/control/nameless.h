/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Nameless
 *
 * How many samples have no name of their innermost function in user space, and why. Functions in files count
 * with `symbols = local` alone, since else the backend names them.
 */

#include <stdint.h>

#include "core/base/util/text.h"

/* Samples without a name, and samples with a frame in user space. */
typedef struct Nameless {
        uint64_t n, n_samples;
} Nameless;

Nameless nameless_count(void);

/* Pure. Share of samples without a name, 0 to 1. */
double nameless_ratio(const Nameless *nameless);

/* Appends shares by reason in words, the greatest first; nothing where all have names. */
void nameless_append_reasons(Text *text);

/* Pure. A command for the first reason in @line that has a cure; NULL = there is none. Static. */
const char *nameless_fix_in(const char *line);

/* Pure. Percent of samples without a name in @line, less those for reasons without a cure. */
double nameless_curable_in(const char *line);
