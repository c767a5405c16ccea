/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Line Options
 *
 * What `lines` means at the desk: by default, source lines and inlined functions that a second is enough
 * for; asked for, all of them. And why there are fewer than hoped for: most programs come without debug
 * information.
 */

#include "core/symbol/function/symbolizer.h"
#include "host/service/config/config.h"

/* Sets what @options say of lines. @needed: the output is nothing without them, whatever the option says. */
void line_options_put(const Config *config, bool needed, SymbolizerOptions *options);

/*
 * Logs a line for each reason, with the objects that it holds for; where lines were not asked for, only that
 * a second was not enough. @symbolizer: NULL = nothing was asked.
 */
void line_options_say_missing(const Config *config, const Symbolizer *symbolizer);
