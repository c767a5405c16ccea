/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A Look at Threads
 *
 * Reads the context record of each thread of a process, for people (`spanprof contexts`). A record may be
 * read only while its thread does not run, so each one is stopped for some microseconds, as a debugger does;
 * samples never do this, they are taken where the thread is interrupted anyway. Threads that sleep in a
 * system call which a stop would end are left alone.
 */

#include <stddef.h>
#include <stdint.h>

#include "abi.h"
#include "sampling/context/thread-context.h"
#include "sampling/process/process.h"

typedef enum ThreadLookOutcome {
        THREAD_LOOK_NOT,                /* it did not stop in time, is traced by another, or is gone */
        THREAD_LOOK_ASLEEP,             /* left alone: a stop would end the system call that it sleeps in */
        THREAD_LOOK_PRESENT,
        THREAD_LOOK_NONE,               /* no record, or no ids in it */
        THREAD_LOOK_INVALID,            /* a record that says not to read it: no span, or being written */
        THREAD_LOOK_UNREADABLE,         /* what leads to the record is not there, or is wrong */
} ThreadLookOutcome;

typedef struct ThreadLook {
        uint32_t tid;
        uint32_t outcome;               /* ThreadLookOutcome */
        struct abi_span span;           /* if PRESENT */
        uint16_t attributes_size;       /* also without a span */
        /* as a sample has them; of ABI_FORM_LABELS without the ids that are in `span` */
        uint8_t attributes[ABI_MAX_ATTRIBUTES_SIZE];
} ThreadLook;

/*
 * Looks at every thread of a process. @thread: how their contexts are reached; it has a form. *looksp: *np of
 * them, by id; release it with thread_look_free(). A process that is gone has none. Return: 0, -errno.
 */
int thread_look_all(const Process *process, const ThreadContext *thread, ThreadLook **looksp, size_t *np);
void thread_look_free(ThreadLook *looks, size_t n);
