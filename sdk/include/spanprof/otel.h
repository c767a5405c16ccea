/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPANPROF_OTEL_H
#define SPANPROF_OTEL_H

/*
 * OpenTelemetry's Own Forms
 *
 * The same as spanprof/context.h in the forms that OpenTelemetry proposes: a
 * process context (resource attributes, once) and a record of each thread,
 * which may carry attributes. Other readers than spanprof know these too.
 *
 *     struct spanprof_otel_attribute resource[] = { { "service.name", "shop" } };
 *     const char *keys[] = { "http.route" };
 *     struct spanprof_otel_process process = { sizeof(process), 1, resource, 1, keys };
 *
 *     spanprof_otel_publish(&process);                        once, and again when something has changed
 *     spanprof_otel_set(trace_high, trace_low, span);         a thread begins to work for a span
 *     spanprof_otel_attribute(0, "/cart", 5);                 … on this route
 *     spanprof_otel_clear();                                  it no longer does
 *
 * A program that links the static library must export the variable:
 * -Wl,--export-dynamic-symbol=otel_thread_ctx_v1 or -rdynamic. With the shared library it is exported.
 */

#include <stddef.h>
#include <stdint.h>

#include "spanprof/context.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spanprof_otel_attribute {
        const char *key, *value;        /* UTF-8 */
};

struct spanprof_otel_process {
        size_t size;            /* sizeof(struct spanprof_otel_process): later versions may be longer */
        size_t n_attributes;
        const struct spanprof_otel_attribute *attributes;       /* of the resource */
        size_t n_keys;          /* 0 … 256 */
        const char *const *keys;        /* names of the indexes that spanprof_otel_attribute() takes */
};

/*
 * Publishes it, in place of what was published before. Copies everything. Not for signal handlers.
 * Return: 0; -E2BIG = over 64 KiB in all; -EINVAL = no such size; -ENOMEM.
 */
SPANPROF_PUBLIC int spanprof_otel_publish(const struct spanprof_otel_process *process);

/*
 * Says that the calling thread works for this span from now on, without attributes. A few nanoseconds; the
 * first call of a thread maps a page. Safe in signal handlers, also in one that interrupts set() itself. The
 * end of the thread clears it; a forked child begins without.
 */
SPANPROF_PUBLIC void spanprof_otel_set(uint64_t trace_high, uint64_t trace_low, uint64_t span);

/*
 * Adds an attribute to the span that was set; of two with one index the last counts. Not for signal handlers.
 * Return: 0; -EINVAL = no span is set; -ENOSPC = over 255 bytes, or 612 of all attributes of this span.
 */
SPANPROF_PUBLIC int spanprof_otel_attribute(uint8_t index, const char *value, size_t size);

/* Says that the calling thread works for no span. */
SPANPROF_PUBLIC void spanprof_otel_clear(void);

#ifdef __cplusplus
}
#endif

#endif
