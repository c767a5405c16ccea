/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPANPROF_COROUTINE_H
#define SPANPROF_COROUTINE_H

/*
 * Stations of Coroutines
 *
 * A program that calls this tells a tracer when each of its coroutines runs and waits: `spanprof coro --
 * PROGRAM` starts it with a region of stations (spanprof/station.h), in which every coroutine has one.
 * Without a tracer all calls return at once and cost a comparison.
 *
 *     spanprof_coroutine_start();                             once, early
 *     struct spanprof_coroutine c;                            in the coroutine's frame
 *     spanprof_coroutine_begin(&c, id);                       it is made
 *     spanprof_coroutine_suspend(&c, frame);                  right before it gives up its thread
 *     spanprof_coroutine_resume(&c);                          right after it has one again
 *     spanprof_coroutine_end(&c);                             it is destroyed
 *
 * One coroutine's calls never overlap; different ones' may, on any threads. A write takes some 30 ns
 * and never waits. spanprof/coroutine.hpp does the same for C++20 coroutines.
 */

#include <stdint.h>

#include "spanprof/station.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef SPANPROF_PUBLIC
#if defined(__GNUC__)
#define SPANPROF_PUBLIC __attribute__((__visibility__("default")))
#else
#define SPANPROF_PUBLIC
#endif
#endif

struct spanprof_coroutine {
        struct spanprof_station *station;       /* NULL = not traced */
        uint64_t n_events;
};

/*
 * Maps the region that CTP_SHM_PATH names and connects to the socket for wake-ups. Not for signal handlers.
 * Return: 0; -ENOENT = there is no tracer; -EINVAL = what is there is no region; else -errno of what failed.
 */
SPANPROF_PUBLIC int spanprof_coroutine_start(void);

/*
 * Takes a station. @id: tells coroutines apart for people, e.g. the frame's address; addresses may come
 * again.
 */
SPANPROF_PUBLIC void spanprof_coroutine_begin(struct spanprof_coroutine *coroutine, uint64_t id);

/* @address: of the frame, or of the code that it waits at. */
SPANPROF_PUBLIC void spanprof_coroutine_suspend(struct spanprof_coroutine *coroutine, const void *address);
SPANPROF_PUBLIC void spanprof_coroutine_resume(struct spanprof_coroutine *coroutine);
SPANPROF_PUBLIC void spanprof_coroutine_end(struct spanprof_coroutine *coroutine);

/* Coroutines that found every station taken and are not traced. */
SPANPROF_PUBLIC uint64_t spanprof_coroutine_overflow(void);

#ifdef __cplusplus
}
#endif

#endif
