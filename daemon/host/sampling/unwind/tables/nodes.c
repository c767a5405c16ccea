/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes the mappings of a process fit into one root: neighbours that go on in the same table are one, so are
 * areas without rows, across small gaps if there is no other room. What does not fit then is left out, areas
 * without rows first: each library below main is worth more than a page of code made at run time.
 */

#include "host/sampling/unwind/tables/nodes.h"

#include <string.h>

#include "core/base/util/macro.h"

static uint64_t size_of(const struct unwind_mapping *mapping) {
        return (uint64_t)mapping->n_pages << UNWIND_PAGE_SHIFT;
}

/* @max_gap: pages that may lie between two areas without rows. */
static bool joins(const struct unwind_mapping *a, const struct unwind_mapping *b, uint64_t max_gap) {
        uint64_t gap = b->start - a->start - size_of(a);

        if (a->table != b->table || ((gap + size_of(b)) >> UNWIND_PAGE_SHIFT) + a->n_pages > UINT32_MAX)
                return false;
        if (a->table == UNWIND_NO_TABLE)
                return a->offset == b->offset && gap <= max_gap << UNWIND_PAGE_SHIFT;
        return a->table < UNWIND_MAX_TABLES && !gap && a->offset + size_of(a) == b->offset;
}

static uint32_t join(struct unwind_mapping *mappings, uint32_t n, uint64_t max_gap) {
        uint32_t n_left = 0;

        for (uint32_t i = 0; i < n; i++) {
                struct unwind_mapping *last = n_left > 0 ? &mappings[n_left - 1] : NULL;

                if (last && joins(last, &mappings[i], max_gap))
                        last->n_pages = (uint32_t)((mappings[i].start - last->start) >> UNWIND_PAGE_SHIFT) +
                                mappings[i].n_pages;
                else
                        mappings[n_left++] = mappings[i];
        }
        return n_left;
}

/* Keeps the mappings of files, as many as fit, and of the areas without rows what there is room for then. */
static uint32_t leave_out(struct unwind_mapping *mappings, uint32_t n) {
        uint32_t n_areas, n_files = 0, n_left = 0;

        for (uint32_t i = 0; i < n; i++)
                n_files += mappings[i].table != UNWIND_NO_TABLE;
        n_files = MIN(n_files, (uint32_t)NODES_MAX_MAPPINGS);
        n_areas = NODES_MAX_MAPPINGS - n_files;
        for (uint32_t i = 0; i < n; i++) {
                uint32_t *room = mappings[i].table == UNWIND_NO_TABLE ? &n_areas : &n_files;

                if (!*room)
                        continue;
                --*room;
                mappings[n_left++] = mappings[i];
        }
        return n_left;
}

uint32_t nodes_fit(struct unwind_mapping *mappings, uint32_t n, uint32_t *n_left_outp) {
        uint32_t n_joined = join(mappings, n, 0);

        for (uint64_t gap = 1; n_joined > NODES_MAX_MAPPINGS && gap <= NODES_MAX_GAP; gap *= 2)
                n_joined = join(mappings, n_joined, gap);
        n = n_joined > NODES_MAX_MAPPINGS ? leave_out(mappings, n_joined) : n_joined;
        *n_left_outp = n_joined - n;
        return n;
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
