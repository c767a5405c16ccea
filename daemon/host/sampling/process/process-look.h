/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Look at a Process
 *
 * The files of /proc/PID that a target can hold up, read by one bounded call
 * (core/base/thread/bounded-call.h): maps, cmdline, environ. A hand-over to the thread of such calls takes
 * longer than to read any of them, and most processes have little in each.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/macro.h"

enum {
        PROCESS_LOOK_MAPS = 16 << 10,           /* bytes: 160 mappings */
        PROCESS_LOOK_ARGUMENTS = 1 << 10,
        PROCESS_LOOK_ENVIRONMENT = 4 << 10,
};

/*
 * Bytes of a file from its start to its end. -1 = it is longer, or could not be read: it is to be read apart.
 */
typedef struct ProcessLook {
        uint64_t begin_ns;                      /* MONOTONIC: before anything was read */
        bool is_stuck;                          /* nothing came back in time */
        bool with_maps;
        int proc_fd;                            /* owned by the caller */
        int32_t n_maps, n_arguments, n_environment;
        char arguments[PROCESS_LOOK_ARGUMENTS];
        char environment[PROCESS_LOOK_ENVIRONMENT];
        char maps[PROCESS_LOOK_MAPS];           /* there are none without `with_maps` */
} ProcessLook;

/* Looks at the process whose /proc directory is @proc_fd, at its maps if @with_maps. Return: 0, -ENOMEM. */
int process_look_new(ProcessLook **lookp, int proc_fd, bool with_maps);

/* Nothing of it stays in memory. */
ProcessLook *process_look_free(ProcessLook *look);
DEFINE_CLEANUP(ProcessLook, process_look_free)
