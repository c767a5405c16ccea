/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Comparison with a baseline, for continuous integration: `report --diff --fail-above`, `record --compare`. */

#include <stdio.h>

#include "core/profile/window.h"
#include "desk/report/report.h"
#include "host/cli/cli.h"

/*
 * If --fail-above was given, says on standard error which functions got slower beyond it and beyond noise.
 * Return: 0, STATUS_SLOWER, STATUS_FAILURE after a message, -ENOMEM.
 */
int comparison_check(const Config *config, const Report *before, const Report *after);

/* Does so for closed windows. @symbolizer: NULL = names of the windows alone. */
int comparison_check_windows(const Config *config, Symbolizer *symbolizer, const Window *before,
                             const Window *after);

/*
 * Reads a baseline into a report. Return: 0 with *reportp owned by the caller, STATUS_FAILURE after messages,
 * -ENOMEM.
 */
int comparison_read_baseline(const char *path, Symbolizer *symbolizer, Report **reportp);

/* Prints the comparison as text. Return: 0, -ENOMEM. */
int comparison_print(const Config *config, const Report *before, const Report *after, FILE *out);
