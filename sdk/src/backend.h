/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Storages of a context, inside of the library
 *
 * One of them is in use at a time. A ring that is published gets its sets first (ring.c: that path is the one
 * that is counted in nanoseconds); what it does not take goes on to context_set_elsewhere().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spanprof/context.h"
#include "spanprof/otel.h"

/*
 * Variables of a thread, reached without a call and never allocated inside of a signal handler. musl's loader
 * refuses initial-exec in a library that is loaded late, but allocates at dlopen() what the usual model
 * needs.
 */
#if defined(__GLIBC__)
#define BACKEND_TLS __attribute__((__tls_model__("initial-exec")))
#else
#define BACKEND_TLS
#endif

struct backend_ids {
        uint64_t high, low, span;
};

/* context.c */
int backend_storage(void);              /* enum spanprof_context_storage; 0 = none is in use */
void context_set_elsewhere(uint64_t trace_high, uint64_t trace_low, uint64_t span);

/*
 * ring.c. Return of ring_read(): whether this thread id's slot holds a span, whole. ring_read_own() takes the
 * slot that the calling thread's first set() found: no system call; false before that set().
 */
int ring_publish_new(uint32_t capacity);
void ring_withdraw(void);
bool ring_read(uint32_t tid, struct backend_ids *ids);
bool ring_read_own(struct backend_ids *ids);

/* otel.c */
int otel_publish_empty(void);
bool otel_read(struct backend_ids *ids);
const void *otel_this_thread(void);     /* NULL = the calling one has set no context yet */
/* As spanprof_otel_set_root() and spanprof_otel_name(), for who keeps number and name by itself. */
void otel_set_named(uint64_t trace_high, uint64_t trace_low, uint64_t span, uint64_t root,
                    const struct spanprof_otel_name *name);
void otel_rename(uint64_t root, const struct spanprof_otel_name *name, bool everywhere);

/* name.c: attributes of a record, as they lie in it */
enum { OTEL_NAME_ROOM = 2 * (2 + SPANPROF_OTEL_MAX_NAME) };

struct spanprof_otel_name {
        uint16_t size;
        uint8_t bytes[];
};

/* Return: lives as long as the process; NULL = no name, names are off, or there are too many. */
const struct spanprof_otel_name *otel_name(const char *name, size_t name_size, const char *route,
                                           size_t route_size);
uint64_t otel_new_root(void);           /* never 0 */

/* local.c: the root span is in `low` */
void local_write(uint64_t span, uint64_t root);
bool local_read(struct backend_ids *ids);
void local_clear(void);
