/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tracing Hint
 *
 * For people (`targets --verbose`, `doctor`): which tracing library runs in a process that publishes no span,
 * and the line that switches publishing on (docs/SPANS.md).
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct TracingHint {
        const char *library;    /* as people call it */
        const char *line;       /* setting or package that helps */
} TracingHint;

/* Texts of a process, any bytes; NULL with size 0 = not known. */
typedef struct TracingTexts {
        /* each word ends with a NUL, as in /proc/PID/cmdline and environ */
        const char *arguments, *variables;
        size_t arguments_size, variables_size;
        const char *mappings;                   /* lines of /proc/PID/maps */
        size_t mappings_size;
        bool has_java_package;                  /* spanprof-otel-java is installed on this machine */
} TracingTexts;

/* Pure. Return: a constant; NULL = no library that is known, or its line is set already. */
const TracingHint *tracing_hint_find(const TracingTexts *texts);

/* The same of a process that runs; what cannot be read says nothing. */
const TracingHint *tracing_hint_read(pid_t pid);
