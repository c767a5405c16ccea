/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Differences of two reports: for each kind of profile that either has, the functions by how much their share
 * of the whole has changed. Recordings are rarely of one length, so shares are compared; values stand beside
 * them. A function is known by its name and its object's.
 */

#include <limits.h>

#include "core/base/util/text.h"
#include "desk/report/report.h"

/* Return: 0, -ENOMEM; what @out does is the caller's to check. */
int report_diff_print(const Report *before, const Report *after, const ReportFormat *format, FILE *out);
/*
 * Judges which functions got slower by more than @points of the whole, and by more than chance explains, one
 * line each into @text. If none did, a line says what grew most within chance, or that nothing grew so.
 * Chance: a sample falls into a function or not. The bound holds for all functions together with 99 %. It
 * knows nothing of how two runs differ. Values that are no samples have none, and are not judged. Return: how
 * many functions, DIFF_NOT_JUDGED (with a line that says so), -ENOMEM.
 */
enum { DIFF_NOT_JUDGED = INT_MAX };

int report_diff_judge(const Report *before, const Report *after, unsigned points, Text *text);
int report_diff_print_json(const Report *before, const Report *after, const ReportFormat *format, FILE *out);
