/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Engines of Coroutines
 *
 * A region of stations is mapped by the program whose coroutines write to it, and by the engine that reads
 * it. Only the first one publishes. Engines are told by what they run: ours, or coroTracer.
 */

#include <stdbool.h>
#include <sys/types.h>

/* Whether @pid is a coroutine engine. A process that is gone, or that we may not look into, is none. */
bool engine_is(pid_t pid);
