/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Node Shim
 *
 * Lets node_walk.h compile for the host. Include behind bpf-shim.h.
 */

#include "runtimes/node_walk.h"

NODE_PART bool node_read(const void *memory, void *to, uint32_t size, uint64_t from) {
        return !bpf_probe_read_user(to, size, (const void *)(uintptr_t)from);
}
