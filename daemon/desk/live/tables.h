/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tables
 *
 * What a recording ends with on the terminal: what was hot, in which spans, and how far the figures can be
 * trusted.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "desk/live/counts.h"
#include "host/service/control/summary.h"

typedef struct TablesFormat {
        size_t rows;                    /* of each table */
        unsigned width;                 /* columns; 0 = 100 */
        bool has_java, has_python, has_v8;      /* their functions are read (option `runtimes`) */
        bool lacks_waits;               /* waits could have been counted, and were not */
        bool is_all;                    /* every process was chosen */
        const char *tracing;            /* how a process that was met would publish spans; NULL = none */
} TablesFormat;

/* Return: 0, -ENOMEM; what @out does is the caller's to check. */
int tables_print(const Counts *counts, const Summary *summary, const TablesFormat *format, FILE *out);
