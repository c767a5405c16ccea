/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Differences of two reports: for each kind of profile that either has, the functions by how much their share
 * of the whole has changed. Recordings are rarely of one length, so shares are compared; values stand beside
 * them. A function is known by its name and its object's.
 */

#include "formats/report/report.h"

/* Return: 0, -ENOMEM; what @out does is the caller's to check. */
int report_diff_print(const Report *before, const Report *after, const ReportFormat *format, FILE *out);
int report_diff_print_json(const Report *before, const Report *after, const ReportFormat *format, FILE *out);
