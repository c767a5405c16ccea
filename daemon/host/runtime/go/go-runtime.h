/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "host/sampling/runtime/runtimes.h"

/* Userdata of runtimes_register(): reasons to look at a process; NULL = for its labels alone. */
typedef struct GoWants {
        bool goroutines;                /* goroutines that wait */
        bool idle;                      /* threads that have nothing to do */
} GoWants;

/*
 * Go: ids and labels of goroutines (bpf/runtimes/go.bpf.h); its frames are native ones. With @userdata, a
 * state is kept for each process: GoGoroutines (goroutine.h), whose list is 0 if it is not known.
 */
extern const RuntimeOps go_runtime;
