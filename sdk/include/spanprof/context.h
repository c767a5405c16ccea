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

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SPANPROF_PUBLIC __attribute__((__visibility__("default")))
#else
#define SPANPROF_PUBLIC
#endif

struct spanprof_context_options {
        uint32_t size;          /* sizeof(struct spanprof_context_options): later versions may be longer */
        uint32_t capacity;      /* slots, 1 … 2^24; 0 = 65536. Threads whose ids are equal modulo it share one */
};

/*
 * Publishes the region of this process; from here on readers may find it. Not
 * for signal handlers. 32 bytes of address space a slot; memory is used only
 * for slots of threads that set a context.
 *
 * A forked child has a region of its own from the start, with no context in it.
 *
 * @options: NULL = all defaults.
 *
 * Return: 0; -EALREADY = it is published; -EINVAL = no such capacity or size;
 * -ENOMEM, -EAGAIN = the system has no memory or no pthread key left.
 */
SPANPROF_PUBLIC int spanprof_context_start(const struct spanprof_context_options *options);

/*
 * Withdraws the region: readers find none, later sets do nothing until the next
 * start. Other threads may be inside of set(): the address space stays reserved,
 * the memory goes back. Not for signal handlers. Does nothing if not published.
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

/* Says that the calling thread works for no span. As safe and as fast as set(). */
SPANPROF_PUBLIC void spanprof_context_clear(void);

#ifdef __cplusplus
}
#endif

#endif
