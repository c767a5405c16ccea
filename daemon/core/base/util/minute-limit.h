/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Minute Limit
 *
 * At most so many of something in a minute. A minute begins with the first one that comes when none is under
 * way.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/clock.h"

typedef struct MinuteLimit {
        uint64_t begin_ns;              /* MONOTONIC */
        uint32_t n;
} MinuteLimit;

/* Counts one. Return: whether it is one of the first @most. */
static inline bool minute_limit(MinuteLimit *limit, uint32_t most, uint64_t now_ns) {
        if (!limit->n || now_ns - limit->begin_ns >= 60 * NS_PER_SEC)
                *limit = (MinuteLimit){ .begin_ns = now_ns };
        if (limit->n == most)
                return false;
        limit->n++;
        return true;
}
