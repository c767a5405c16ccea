/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sets the bit of a forked child to that of its parent.
 */

#include "host/sampling/discover/tree.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/util/error.h"

enum { MAX_PID = 1 << 22 };             /* the kernel's PID_MAX_LIMIT */

/* Pages of it that no process of the tree has ever touched take no memory. */
struct Tree {
        uint64_t bits[MAX_PID / 64];
};

static void set(Tree *tree, uint32_t pid, bool on) {
        uint64_t bit = UINT64_C(1) << pid % 64;

        if (pid >= MAX_PID || on == tree_contains(tree, pid))
                return;
        tree->bits[pid / 64] ^= bit;
}

int tree_new(Tree **treep, const uint32_t *roots, size_t n_roots) {
        Tree *tree = calloc(1, sizeof(*tree));

        if (!tree)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < n_roots; i++)
                set(tree, roots[i], true);
        *treep = tree;
        return 0;
}

Tree *tree_free(Tree *tree) {
        free(tree);
        return NULL;
}

void tree_fork(Tree *tree, uint32_t pid, uint32_t parent) {
        set(tree, pid, tree_contains(tree, parent));
}

bool tree_contains(const Tree *tree, uint32_t pid) {
        return tree && pid < MAX_PID && tree->bits[pid / 64] >> pid % 64 & 1;
}
