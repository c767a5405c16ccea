/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Go's Idle Threads
 *
 * Tells by a stack whether a thread of Go waits because there is nothing to do, and not for a lock.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/runtime/go/go-program.h"

/* Functions of the runtime that idle threads are in. */
typedef enum GoIdleFunction {
        GO_IDLE_STOP,                   /* runtime.stopm: a thread without a goroutine lies down, … */
        GO_IDLE_SLEEP,                  /* … by runtime.notesleep */
        GO_IDLE_MONITOR,                /* runtime.sysmon, … */
        GO_IDLE_MONITOR_SLEEP,          /* … by runtime.notetsleep */
        GO_IDLE_FIND,                   /* runtime.findRunnable asks … */
        GO_IDLE_POLL,                   /* … runtime.netpoll */
        GO_IDLE_N,
} GoIdleFunction;

typedef struct GoIdle {
        struct {
                uint64_t start, end;    /* end 0 = the program has no such function */
        } functions[GO_IDLE_N];
} GoIdle;

/* Sets ELF addresses of @idle. Return: whether one was found. Reads .gopclntab, up to 16 MiB. */
bool go_idle_find(const GoInput *input, GoIdle *idle);

/*
 * Pure. Whether the whole stack @words, the innermost frame first, is of a thread that has nothing to do.
 * @bias: of the program. @polls: it waits for events, else for a futex.
 */
bool go_idle_is(const GoIdle *idle, uint64_t bias, bool polls, const uint64_t *words, size_t n);
