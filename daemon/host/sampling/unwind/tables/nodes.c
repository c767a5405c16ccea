/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Joins neighbours that have no table, and splits mappings into leaves under one root.
 */

#include "host/sampling/unwind/tables/nodes.h"

#include <string.h>

#include "core/base/util/macro.h"

static bool joins(const struct unwind_mapping *a, const struct unwind_mapping *b) {
        return a->table == UNWIND_NO_TABLE && b->table == UNWIND_NO_TABLE &&
               a->start + ((uint64_t)a->n_pages << UNWIND_PAGE_SHIFT) == b->start &&
               (uint64_t)a->n_pages + b->n_pages <= UINT32_MAX;
}

uint32_t nodes_join(struct unwind_mapping *mappings, uint32_t n) {
        uint32_t n_left = 0;

        for (uint32_t i = 0; i < n; i++) {
                if (n_left > 0 && joins(&mappings[n_left - 1], &mappings[i]))
                        mappings[n_left - 1].n_pages += mappings[i].n_pages;
                else
                        mappings[n_left++] = mappings[i];
        }
        return n_left;
}

static void fill(struct unwind_node *node, const struct unwind_mapping *mappings, uint32_t n,
                 uint64_t generation) {
        memset(node, 0, sizeof(*node));
        node->generation = generation;
        node->n = (uint16_t)n;
        node->is_leaf = true;
        if (n)                          /* a process may have none left */
                memcpy(node->mappings, mappings, n * sizeof(*mappings));
}

void nodes_build(Nodes *nodes, const struct unwind_mapping *mappings, uint32_t n, uint64_t generation) {
        struct unwind_node *root = &nodes->nodes[0];

        nodes->n = 1;
        if (n <= UNWIND_MAX_MAPPINGS) {
                fill(root, mappings, n, generation);
                return;
        }
        memset(root, 0, sizeof(*root));
        root->generation = generation;
        for (uint32_t i = 0; i < n; i += UNWIND_MAX_MAPPINGS) {
                fill(&nodes->nodes[nodes->n], mappings + i, MIN(n - i, (uint32_t)UNWIND_MAX_MAPPINGS),
                     generation);
                root->mappings[root->n++] = (struct unwind_mapping){ .start = mappings[i].start,
                                                                     .table = nodes->n };
                nodes->n++;
        }
}
