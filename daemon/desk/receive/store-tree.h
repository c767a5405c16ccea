/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Store Tree
 *
 * Which files of a partitioned store (desk/receive/partition.h) may hold what is asked for, by the names
 * of their directories alone. What a name leaves open is read: the requests themselves decide.
 */

#include <stdint.h>

#include "core/profile/filter.h"

typedef struct StoreTree {
        FilterWords services, hosts;
        uint64_t start_ns, end_ns;      /* REALTIME; 0 and UINT64_MAX: all */
        int (*add)(const char *path, void *userdata);   /* Return: 0, -errno. */
        void *userdata;
        uint64_t n_left_out;            /* directories, by their names */
        uint64_t n_unreadable;
} StoreTree;

/* Adds files in the order of their paths. Return: 0, what `add` returned, -ENOMEM. */
int store_tree_walk(StoreTree *tree, const char *directory);
