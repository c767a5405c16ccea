/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Conversion of Traces
 *
 * What `convert` does when its output is a trace of coroutines (.jsonl, .csv, .db).
 */

#include <stdbool.h>

#include "cli/cli.h"

/* Whether the ending of @path is that of a trace. */
bool convert_is_trace(const char *path);

/* Return: enum status. */
int convert_traces(const Cli *cli);
