/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Goroutines That Wait
 *
 * Looks at goroutines of targets that do not run, and adds them to the open window: stack, reason, labels.
 */

#include <stdint.h>

#include "host/sampling/walks/walks.h"

typedef struct Goroutines Goroutines;

enum {
        /* looked at in one look at all processes; beyond it, processes take turns */
        GOROUTINES_MAX_LOOK = 20000,
};

/* Counts of goroutines that a look has met. */
typedef struct GoroutinesSeen {
        uint64_t n_added;               /* with their stacks */
        uint64_t n_running, n_moved, n_unreadable, n_pending, n_window_full, n_not_looked_at;
        uint64_t n_lists_unreadable;    /* processes */
        uint64_t n_processes;           /* processes whose lists were read */
} GoroutinesSeen;

/* @stages: borrowed. @n_each: goroutines of a process that a look takes at most. Return: 0, -ENOMEM. */
int goroutines_new(Goroutines **goroutinesp, const WalkStages *stages, uint64_t n_each);
Goroutines *goroutines_free(Goroutines *goroutines);

/* Looks at all processes of Go. Return: 0, -errno. */
int goroutines_look(Goroutines *goroutines);

/* The same; later calls of goroutines_look() look at nothing. Return: 0, -errno. */
int goroutines_look_once(Goroutines *goroutines, GoroutinesSeen *seen);
