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
        const struct spanprof_otel_attribute *attributes;       /* attributes of the resource */
        size_t n_keys;          /* 0 … 256 */
        const char *const *keys;        /* names of the indexes that spanprof_otel_attribute() takes */
};

/*
 * Publishes it, in place of what was published before. Copies everything. Not for signal handlers. A child of
 * fork() publishes the same anew, in some 25 us; one of a bare clone() publishes nothing until it calls this.
 * Keys are left out where no file of the process exports the variable that leads to attributes.
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

/*
 * Names of local roots
 *
 * A local root is the span that a request begins with in this process. Each span below it can be published
 * with the root's name and route: the attributes span.name and http.route, prepared once.
 *
 *     struct spanprof_otel_root root = { 0 };                 kept until no span of it is set any more
 *     spanprof_otel_name(&root, "GET", 3, NULL, 0);           its name; again when that changes
 *     spanprof_otel_set_root(trace_high, trace_low, span, &root);
 *     spanprof_otel_name(&root, "GET", 3, "/cart/:id", 9);    `GET /cart/:id`, also where it is set already
 *
 * They have the first two indexes of keys. spanprof_otel_publish() without keys publishes these two; a
 * program with keys of its own begins them with "span.name" and "http.route", or no name is written.
 */

/* Environment variable: `off` = names of spans stay in this process. */
#define SPANPROF_OTEL_NAMES_ENVIRONMENT "SPANPROF_SPAN_NAMES"

enum {
        SPANPROF_OTEL_KEY_NAME = 0,
        SPANPROF_OTEL_KEY_ROUTE = 1,
        SPANPROF_OTEL_MAX_NAME = 128,           /* bytes; longer ones are cut behind a whole character */
        SPANPROF_OTEL_MAX_NAMES = 1000,         /* names of a process; later ones are counted alone */
};

struct spanprof_otel_name;

/* All zero = it has no name yet. */
struct spanprof_otel_root {
        uint64_t number;
        const struct spanprof_otel_name *name;
        const void *thread;             /* the one that works for it; the root itself = several */
};

/*
 * Names it: spans that are set later have these attributes, and so have threads that it is set on now. One
 * thread at a time may name one root. @name, @route: UTF-8; a size of 0 = not known. A name that is nothing
 * but a method of HTTP is published with the route behind it. Not for signal handlers.
 */
SPANPROF_PUBLIC void spanprof_otel_name(struct spanprof_otel_root *root, const char *name, size_t name_size,
                                        const char *route, size_t route_size);

/* spanprof_otel_set(), with the name of @root (NULL = none). Not for signal handlers. */
SPANPROF_PUBLIC void spanprof_otel_set_root(uint64_t trace_high, uint64_t trace_low, uint64_t span,
                                            struct spanprof_otel_root *root);

/* How often a name was not published, since there were too many others. */
SPANPROF_PUBLIC uint64_t spanprof_otel_names_refused(void);

#ifdef __cplusplus
}
#endif

#endif
