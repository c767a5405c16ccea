/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPANPROF_CONTEXT_H
#define SPANPROF_CONTEXT_H

/*
 * Trace Context of a Thread
 *
 * A program that calls this tells profilers outside of it, at any moment, which
 * span each of its threads works for. It writes to memory of its own that a
 * reader finds by itself (spanprof/ring.h has the layout): no socket, no system
 * call per span, nothing to do when nobody looks.
 *
 *     spanprof_context_start(NULL);                           once, at any time
 *     ...
 *     spanprof_context_set(trace_high, trace_low, span);      a thread begins to work for a span
 *     spanprof_context_clear();                               it no longer does
 *
 * Ids are plain numbers: the trace id 4bf92f3577b34da6a3ce929d0e0e4736 is
 * trace_high = 0x4bf92f3577b34da6 and trace_low = 0xa3ce929d0e0e4736. With
 * nested spans the caller sets the outer one again when the inner one ends.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SPANPROF_PUBLIC __attribute__((__visibility__("default")))
#else
#define SPANPROF_PUBLIC
#endif

/* Where a thread's context is stored. */
enum spanprof_context_storage {
        SPANPROF_CONTEXT_UNSAID = 0,    /* as the environment says, else the ring */
        SPANPROF_CONTEXT_RING = 1,      /* spanprof/ring.h */
        SPANPROF_CONTEXT_THREAD = 2,    /* OpenTelemetry's thread contexts: spanprof/otel.h */
        SPANPROF_CONTEXT_PROFILER = 3,  /* for readers inside of the process: spanprof/context-api.h */
};

/* Environment variable with words as for spanprof_context_parse(). A mistake in it counts as unset. */
#define SPANPROF_CONTEXT_ENVIRONMENT "SPANPROF_CONTEXT"

struct spanprof_context_options {
        uint32_t size;          /* sizeof(struct spanprof_context_options): later versions may be longer */
        /* slots of the ring, 1 … 2^24; 0 = 65536. Threads whose ids are equal modulo it share one */
        uint32_t capacity;
        uint32_t storage;       /* enum spanprof_context_storage */
};

/*
 * Reads options from words with commas between them: `ctxstorage=otel` (the ring; also `ring`),
 * `ctxstorage=thread`, `ctxstorage=profiler`, `capacity=N`. Other words are others'. Return: 0; -EINVAL = no
 * such storage or capacity.
 */
SPANPROF_PUBLIC int spanprof_context_parse(const char *text, struct spanprof_context_options *options);

/* Return: enum spanprof_context_storage; 0 = not started. */
SPANPROF_PUBLIC int spanprof_context_storage_in_use(void);

/*
 * Begins: the ring of this process is published, and from here on readers may find it. Not
 * for signal handlers. 32 bytes of address space a slot; memory is used only
 * for slots of threads that set a context. With thread contexts, a process context without attributes is
 * published unless there is one; spanprof_otel_publish() says more.
 *
 * A forked child goes on with what its parent has started (a ring is one of its own), with no context in it.
 *
 * @options: NULL = all defaults.
 *
 * Return: 0; -EALREADY = it is started; -EINVAL = no such capacity, storage or size;
 * -ENOMEM, -EAGAIN = the system has no memory or no pthread key left.
 */
SPANPROF_PUBLIC int spanprof_context_start(const struct spanprof_context_options *options);

/*
 * Withdraws the ring: readers find none, later sets do nothing until the next
 * start. Other threads may be inside of set(): the address space stays reserved for good,
 * the memory goes back. Of thread contexts the caller's is withdrawn at once, another thread's at its next
 * set() or clear(), or its end. Not for signal handlers. Does nothing if not started.
 */
SPANPROF_PUBLIC void spanprof_context_stop(void);

/*
 * Says that the calling thread works for this span from now on. A few
 * nanoseconds; the first call of a thread costs one system call more.
 *
 * Safe in signal handlers, also in one that interrupts set() itself (of the two
 * spans one wins as a whole; that handler must return, not longjmp). Before
 * start and after stop it does nothing. The end of the thread clears it.
 */
SPANPROF_PUBLIC void spanprof_context_set(uint64_t trace_high, uint64_t trace_low, uint64_t span);

/*
 * The same, with the name of the local root that the span belongs to: spanprof/otel.h has what that is. Only
 * thread contexts have names. Not for signal handlers. @root: NULL = none.
 */
struct spanprof_otel_root;
SPANPROF_PUBLIC void spanprof_context_set_root(uint64_t trace_high, uint64_t trace_low, uint64_t span,
                                               struct spanprof_otel_root *root);

/* Says that the calling thread works for no span. As safe and as fast as set(). */
SPANPROF_PUBLIC void spanprof_context_clear(void);

/*
 * Adds an attribute to the span that was set: spanprof_otel_attribute() has the details. Return: 0; -ENOTSUP
 * = only thread contexts have attributes; -EINVAL, -ENOSPC.
 */
SPANPROF_PUBLIC int spanprof_context_attribute(uint8_t index, const char *value, size_t size);

#ifdef __cplusplus
}
#endif

#endif
