/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rowless
 *
 * Says of a process that no rows exist for any of its code: the kernel half walks it by frame pointers.
 */

#include "border/unwind_abi.h"
#include "host/sampling/unwind/tables/bpfmap.h"

/* @nodes_fd: row_nodes. Return: 0, -errno. */
static inline int rowless_set(int nodes_fd, uint32_t tgid) {
        enum { N = 8, SHIFT = 44 };     /* 8 mappings of 2^44 bytes: all user addresses */
        const struct unwind_node_key key = unwind_node_key(tgid, 0);  /* the space of sample-dump's rows */
        struct unwind_node node = { .generation = (1ull << 40) + tgid, .n = N, .is_leaf = 1 };

        for (uint32_t i = 0; i < N; i++)
                node.mappings[i] = (struct unwind_mapping){ .start = (uint64_t)i << SHIFT,
                                                            .n_pages = UINT32_MAX,
                                                            .table = UNWIND_NO_TABLE };
        return bpfmap_update(nodes_fd, &key, &node);
}
