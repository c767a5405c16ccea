/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "host/sampling/runtime/runtimes.h"

/*
 * Go: ids and labels of goroutines (bpf/runtimes/go.bpf.h); its frames are native ones. With @userdata,
 * anything but NULL, a state is kept for each process: GoGoroutines (goroutine.h), whose list is 0 if it is
 * not known.
 */
extern const RuntimeOps go_runtime;
