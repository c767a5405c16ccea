/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Process Tree
 *
 * Which processes descend from given ones, by the forks that the kernel tells of: also of a parent that is
 * gone, and of one that has left its session and its parent behind, as daemons do. A bit for each id that the
 * kernel gives, so it never grows; an id that is used again is judged by its new parent.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"

typedef struct Tree Tree;

/* The tree of @roots. Return: 0, -ENOMEM. */
int tree_new(Tree **treep, const uint32_t *roots, size_t n_roots);
Tree *tree_free(Tree *tree);
DEFINE_CLEANUP(Tree, tree_free)

/* There is a new process @pid, forked by @parent. In the order of time. */
void tree_fork(Tree *tree, uint32_t pid, uint32_t parent);

/* @tree may be NULL: then it contains no process. */
bool tree_contains(const Tree *tree, uint32_t pid);
