/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Nothing
 *
 * Why a recording has not one sample, and what to do about it, for those who have just made it.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/util/text.h"
#include "host/service/config/config.h"

typedef struct NothingFacts {
        bool command;                   /* one was started */
        size_t n_processes;             /* that were chosen at one time, at most */
        uint64_t cpu_ns, period_ns;     /* what they used; what a sample stands for */
        uint64_t n_lost;
} NothingFacts;

/* Appends a line without its end. */
void nothing_explain(const NothingFacts *facts, const Config *config, Text *text);
