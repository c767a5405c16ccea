/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Missing Lines
 *
 * Why --lines has told less than hoped for: most programs come without debug information.
 */

#include "core/symbol/function/symbolizer.h"

/* Logs a line for each reason, with the objects that it holds for. @symbolizer: NULL = nothing was asked. */
void missing_lines_say(const Symbolizer *symbolizer);
