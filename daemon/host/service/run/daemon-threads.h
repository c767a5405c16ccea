/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Threads as They Are Now
 *
 * Adds a wait of each thread of a target that has no CPU to the open window: its stack, span, state and
 * reason, and for how long it has waited at most.
 */

#include <stddef.h>
#include <stdint.h>

#include "host/service/run/daemon.h"

/* A thread that was met. */
typedef struct DaemonThread {
        uint32_t tgid, tid;
        bool was_added;                 /* its wait is in the window; else it runs, or ran in between */
        /* if what it waits for is a mutex of glibc: the thread that has it; 0 = none of this process */
        uint32_t holder;
        char comm[16];                  /* any bytes, NUL-terminated */
} DaemonThread;

typedef struct DaemonThreads {
        DaemonThread *threads;          /* by process and thread; to be freed */
        size_t n;
        uint64_t n_over_cap;            /* threads that were not looked at */
        bool lacks_rights;              /* memory of some may not be read */
        bool knows_times;               /* else the waits are 1 ns long: this kernel does not tell */
} DaemonThreads;

/*
 * Notes who waits already, before the kernel half begins to count waits: it learns of a wait as that begins.
 * Then daemon_count_early_waits() adds to the open window what such waits have taken since the last call, or
 * since the sampler was started. It drops those that have ended: their last part is not known. Return: 0,
 * -errno.
 */
int daemon_note_early_waits(Daemon *daemon);
int daemon_count_early_waits(Daemon *daemon);
void daemon_drop_early_waits(Daemon *daemon);

/* For a daemon that samples. Takes a second at most. Return: 0, DAEMON_E_UNUSABLE (logged), -errno. */
int daemon_look_at_threads(Daemon *daemon, DaemonThreads *threads);
