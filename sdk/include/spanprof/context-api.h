/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPANPROF_CONTEXT_API_H
#define SPANPROF_CONTEXT_API_H

/*
 * Two Storages behind One Interface
 *
 * For profilers that run inside of the process and have known contexts as {span, root span} until now: the
 * same calls write either to a record of the thread that only they read (profiler mode), or to where readers
 * outside of the process find it (otel mode). spanprof/context-api.hpp has the same as C++ classes,
 * ThreadContext.java for Java.
 *
 *     spanprof_api_initialize("ctxstorage=otel");             once, single-threaded
 *     spanprof_api_set(span, root_span);                      a thread begins to work for a span
 *     spanprof_api_get(&span, &root_span);                    in a signal handler of that thread
 *
 * Behind it lies what spanprof/context.h starts and stops: both may be used on one process, and mean the same
 * context. In otel mode the root span is the low half of the trace id.
 */
#include <stdbool.h>
#include <stdint.h>

#include "spanprof/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
        SPANPROF_API_TAGS = 10,
};

enum spanprof_api_mode {
        SPANPROF_API_PROFILER = 0,
        SPANPROF_API_OTEL = 1,
};

/*
 * @arguments: as in spanprof_context_parse(); NULL = none. What they leave open the environment says, else it
 * is profiler mode. If the ring cannot be made, profiler mode is used. Not for signal handlers.
 *
 * Return: whether it is ready: also if it was before, in that storage. false = a word that is not understood,
 * or another storage is in use.
 */
SPANPROF_PUBLIC bool spanprof_api_initialize(const char *arguments);
SPANPROF_PUBLIC void spanprof_api_shutdown(void);
SPANPROF_PUBLIC bool spanprof_api_is_initialized(void);
SPANPROF_PUBLIC enum spanprof_api_mode spanprof_api_get_mode(void);

/*
 * Safe in signal handlers, each in its own thread. clear() is spanprof_context_clear(), setOtel
 * spanprof_context_set(); in profiler mode the latter keeps the span and the low half.
 */
SPANPROF_PUBLIC void spanprof_api_set(uint64_t span, uint64_t root_span);

/*
 * The calling thread's context, as it set it: no system call, some nanoseconds. Return: whether there is a
 * context, and no write to it is in progress; if not, nothing is stored. A thread that has set none has none,
 * also where another one with the same slot has.
 */
SPANPROF_PUBLIC bool spanprof_api_get(uint64_t *span, uint64_t *root_span);
SPANPROF_PUBLIC bool spanprof_api_get_otel(uint64_t *trace_high, uint64_t *trace_low, uint64_t *span);

/*
 * Another thread's, by its id: in a ring only, and what its slot holds (threads whose ids are equal modulo
 * the capacity share it). A span without a trace, or a trace without a span, is not found.
 */
SPANPROF_PUBLIC bool spanprof_api_get_by_tid(int tid, uint64_t *span, uint64_t *root_span);
SPANPROF_PUBLIC bool spanprof_api_get_otel_by_tid(int tid, uint64_t *trace_high, uint64_t *trace_low,
                                                  uint64_t *span);

/*
 * Tags 0 … 9 of the calling thread, in profiler mode; 0 = none. Clearing the context clears them. Return: 0,
 * -EINVAL, -ENOTSUP.
 */
SPANPROF_PUBLIC int spanprof_api_set_tag(unsigned int index, uint32_t value);
SPANPROF_PUBLIC uint32_t spanprof_api_get_tag(unsigned int index);

/* Computes the checksum by which profiler mode verifies a pair; never 0. */
SPANPROF_PUBLIC uint64_t spanprof_api_checksum(uint64_t span, uint64_t root_span);

#ifdef __cplusplus
}
#endif

#endif
