/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Terminal
 *
 * What verbs ask of the terminal that they were typed at.
 */

#include "core/base/util/text.h"

/* Columns of the terminal, else COLUMNS; 0 = neither is known. */
unsigned cli_output_width(void);

/* Logs each line of @text as an error. */
void cli_log_lines(const Text *text);
