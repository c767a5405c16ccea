/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * No samples
 *
 * Explains why a recording has not one sample, and what to do about it, to those who have just made it.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/util/text.h"
#include "host/service/config/config.h"

typedef struct NoSamplesFacts {
        bool command;                   /* a command was started */
        size_t n_processes;             /* most processes that were chosen at one time */
        uint64_t cpu_ns, period_ns;     /* CPU time that they used; time of a sample */
        uint64_t n_lost;
} NoSamplesFacts;

/* Appends a line without its end. */
void no_samples_explain(const NoSamplesFacts *facts, const Config *config, Text *text);
