/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A Look at Goroutines
 *
 * Reads some goroutines of a process in one bounded call.
 */

#include <sys/types.h>

#include "host/runtime/go/goroutine.h"

enum {
        GOROUTINE_LOOK_BATCH = 16,
        GOROUTINE_LOOK_ROOM = 2 * GOROUTINE_MAX_STACK,
};

/* Copied as bytes: what it refers to are descriptors alone. */
typedef struct GoroutineLook {
        pid_t pid;
        int memory_fd, pagemap_fd;      /* descriptors of /proc/PID/mem and /proc/PID/pagemap */
        GoGoroutines where;
        uint32_t n_wanted;
        uint64_t wanted[GOROUTINE_LOOK_BATCH];  /* indexes */
        /* outcome; `result` also says whether the list itself could be read */
        int result;                     /* 0, GOROUTINE_E_UNREADABLE */
        uint64_t n;                     /* places in the list */
        uint32_t n_read;                /* wanted places that were read; the others had no room */
        int results[GOROUTINE_LOOK_BATCH];      /* results of goroutine_read() */
        Goroutine found[GOROUTINE_LOOK_BATCH];  /* where that is 0 */
        uint32_t stacks_at[GOROUTINE_LOOK_BATCH];
        uint8_t stacks[GOROUTINE_LOOK_ROOM];
} GoroutineLook;

/* Reads what is wanted; of at least one, if any. Return: 0, BOUNDED_E_STUCK (counted), -ENOMEM. */
int goroutine_look(GoroutineLook *look);
