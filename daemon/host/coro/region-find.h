/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Region Find
 *
 * Looks through the mappings of a running process for shared files that begin as a region of stations does,
 * whatever their name, deleted or not. Opens only regular files of local filesystems (no FUSE, no network),
 * and for reading only.
 */

#include <stdint.h>
#include <sys/types.h>

#include "core/base/util/macro.h"

enum {
        _FIND_E_SUCCESS,
        FIND_E_GONE,                    /* no such process */
        FIND_E_DENIED,                  /* the process may not be read */
        FIND_E_MORE,                    /* enough for this turn: call again to go on */
};

/* @fd is owned by the callee. Return: 0 = go on; any other value ends the search and is passed on. */
typedef int (*FindFunc)(void *userdata, int fd, const char *path);

/* Hands on each region. Return: 0 (also when there is none), FIND_E_*, what @func returned, -ENOMEM. */
int find_regions(pid_t pid, FindFunc func, void *userdata);

/*
 * The same in turns of half a MiB of maps, about 3 ms each, for a loop that must not be held up. *findp: NULL
 * = begin; owned by the caller while there is more, else NULL. Return: also FIND_E_MORE.
 */
typedef struct Find Find;

int find_regions_some(pid_t pid, Find **findp, FindFunc func, void *userdata);
Find *find_free(Find *find);
DEFINE_CLEANUP(Find, find_free)
