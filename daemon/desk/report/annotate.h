/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Annotate
 *
 * A source file with what was measured beside its lines: in the line itself, and in it or what it calls.
 * Frames must have lines: from the profile, or from a symbolizer that wants them.
 */

#include "core/base/util/text.h"
#include "desk/report/report.h"

enum {
        _ANNOTATE_E_SUCCESS,
        ANNOTATE_E_SOURCE,      /* the file cannot be read, or no sample is in it: @problem says which */
};

/*
 * Writes the file @path of this machine with the values of a closed window beside its lines. Profiles name
 * sources as the compiler was told: a name means @path if the parts that both have are the same at the end.
 * Nothing but @path is opened. Return: 0, ANNOTATE_E_SOURCE, -ENOMEM; what @out does is the caller's to
 * check.
 */
int annotate_print(const Window *window, const char *path, const ReportFormat *format, FILE *out,
                   Text *problem);
