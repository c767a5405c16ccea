/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Nodes
 *
 * The mappings of a process in the form in which the kernel half searches them:
 * one leaf of up to 32, or a root over up to 32 leaves. Pure: values in, values out.
 */

#include <stdbool.h>
#include <stdint.h>

#include "border/unwind_abi.h"

enum {
        NODES_MAX_LEAVES = UNWIND_MAX_MAPPINGS,
        NODES_MAX_MAPPINGS = NODES_MAX_LEAVES * UNWIND_MAX_MAPPINGS,
        NODES_MAX_GAP = 16,             /* pages: what leads into a gap is taken for code without rows */
};

/* A root with its leaves, or one leaf alone: nodes[0] is what the kernel finds first. */
typedef struct Nodes {
        uint32_t n;                     /* nodes: 1, or 1 + leaves */
        struct unwind_node nodes[1 + NODES_MAX_LEAVES];
} Nodes;

/*
 * Makes @mappings fit, in place: joins neighbours that go on in the same table, or have none (a heap of JIT
 * code may be thousands of them). If there are still too many, areas without rows are joined across gaps of
 * up to NODES_MAX_GAP pages, then left out.
 * @mappings: sorted, disjoint. Return: how many there are now, NODES_MAX_MAPPINGS at most.
 */
uint32_t nodes_fit(struct unwind_mapping *mappings, uint32_t n, uint32_t *n_left_outp);

/* @n: 1 … NODES_MAX_MAPPINGS. */
void nodes_build(Nodes *nodes, const struct unwind_mapping *mappings, uint32_t n, uint64_t generation);
