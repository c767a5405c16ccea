/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Goroutines That Wait
 *
 * Looks at goroutines of targets that do not run, and adds them to the open window: stack, reason, labels.
 */

#include <stdint.h>

#include "host/service/run/daemon.h"

typedef struct Goroutines Goroutines;

enum {
        /* looked at in one look at all processes; beyond it, processes take turns */
        GOROUTINES_MAX_LOOK = 20000,
};

/* What a look has met. */
typedef struct GoroutinesSeen {
        uint64_t n_added;               /* with their stacks */
        uint64_t n_running, n_moved, n_unreadable, n_pending, n_window_full, n_not_looked_at;
        uint64_t n_lists_unreadable;    /* processes */
        uint64_t n_processes;           /* whose lists were read */
} GoroutinesSeen;

/* For a daemon with config->goroutines. Return: 0, -ENOMEM. */
int goroutines_new(Goroutines **goroutinesp, Daemon *daemon);
Goroutines *goroutines_free(Goroutines *goroutines);

/* Looks at `config->goroutines` of each process at most. Return: 0, -errno. */
int goroutines_look(Goroutines *goroutines);

/* For a daemon that samples: the same, and then no more. Without config->goroutines, at none. */
int daemon_look_at_goroutines(Daemon *daemon, GoroutinesSeen *seen);
