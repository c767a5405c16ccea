/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code
 *
 * What perf-map files and jitdumps tell: that from some time on there is a function at some place of a
 * process.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CODE_MAX_NAME = 4096 };          /* longer names are cut */

typedef struct CodeRange {
        uint64_t start, size;           /* addresses in the target; size > 0, and no end beyond 2^64 - 1 */
        uint64_t time_ns;               /* MONOTONIC: there since then; 0 = not told */
        const char *name;               /* not terminated; any bytes but NUL */
        size_t name_size;               /* 1 to CODE_MAX_NAME */
} CodeRange;

/* Takes one range. Return: 0 = go on; anything else ends the reading and is passed on. */
typedef int (*CodeSink)(void *userdata, const CodeRange *range);

/* A record of a jitdump, before it is known what it refers to; a line of a perf-map is one, too. */
typedef struct CodeRecord {
        CodeRange range;                /* new range of a move, without a name */
        uint64_t index, from;           /* index of the code; address that a move takes it from */
        bool is_move;
} CodeRecord;

/* As CodeSink. */
typedef int (*CodeRecordSink)(void *userdata, const CodeRecord *record);
