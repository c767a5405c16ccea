/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sampling/runtime/runtimes.h"

/* Go: ids and labels of goroutines (bpf/go.bpf.h); its frames are native ones. */
extern const RuntimeOps go_runtime;
