/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Terminal
 *
 * What verbs ask of the terminal that they were typed at.
 */

#include <stdio.h>

#include "core/base/util/text.h"

/* Columns of the terminal, else COLUMNS; 0 = neither is known. */
unsigned cli_output_width(void);

/*
 * Prints lines, each wrapped between words so that it ends before column @width; what goes on in a further
 * line begins at column @indent. @width: 0 = as they are.
 */
void cli_print_wrapped(const char *text, unsigned width, unsigned indent, FILE *out);

/* Logs each line of @text as an error. */
void cli_log_lines(const Text *text);
