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

#include "host/sampling/context/thread-record.h"
#include "host/sampling/process/process.h"

/*
 * Looks at every thread of a process. @thread: how their contexts are reached; it has a form. *looksp: *np of
 * them, by id; release it with thread_look_free(). A process that is gone has none. Return: 0, -errno.
 */
int thread_look_all(const Process *process, const ThreadContext *thread, ThreadLook **looksp, size_t *np);
void thread_look_free(ThreadLook *looks, size_t n);
