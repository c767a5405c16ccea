/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Perf Map
 *
 * Reads the text of /tmp/perf-PID.map, in which a compiler at run time lists its code: one line a function,
 * `START SIZE NAME`, both numbers in hexadecimal, with or without 0x. Text in, code ranges out: it opens no
 * file. The file grows while it is read, so the text comes in pieces, and a line counts once its end is
 * there.
 *
 * The writer is not trusted. A malformed line is counted and skipped; a name is cut at CODE_MAX_NAME.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/symbol/jit/code.h"

/* bytes of a line that are kept; two numbers take 38 */
enum { PERF_MAP_MAX_LINE = CODE_MAX_NAME + 64 };

typedef struct PerfMap {
        char line[PERF_MAP_MAX_LINE];   /* beginning of a line whose end is not there yet */
        size_t size;
        uint64_t n_lines;               /* ended, of either kind */
        uint64_t n_malformed;
} PerfMap;

/* Forgets the begin of a line: what comes next begins one. Counts stay. */
void perf_map_restart(PerfMap *map);

/* The next piece of the text. Return: 0, or what @sink returned, which ends it: feed nothing more then. */
int perf_map_feed(PerfMap *map, const char *data, size_t size, CodeSink sink, void *userdata);
