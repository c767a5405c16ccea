/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libspanprof-convert from within
 *
 * `spanprof convert` goes through the library's own functions. Beside these it has what a configuration says:
 * options of all kinds, inputs that it has opened itself, and a look at the window, for sizes and sending.
 */

#include "desk/convert/convert.h"
#include "spanprof-convert.h"

/* As spanprof_convert_open(). @options: borrowed until the close. Return: 0, -ENOMEM. */
int convert_library_open(spanprof_convert **convertp, const ConvertOptions *options);

/* As spanprof_convert_add_file(), of a source that is open. */
int convert_library_add(spanprof_convert *convert, const Source *source);

Convert *convert_library_inside(spanprof_convert *convert);
