/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finding Regions
 *
 * Looks through the mappings of a running process for shared files that begin as a region of stations
 * does, whatever their name, deleted or not. Opens only regular files of filesystems that answer for
 * themselves (no FUSE, no network), and for reading only.
 */

#include <stdint.h>
#include <sys/types.h>

#include "base/util/macro.h"

enum {
        _FIND_E_SUCCESS,
        FIND_E_GONE,                    /* no such process */
        FIND_E_DENIED,                  /* we may not look into it */
        FIND_E_MORE,                    /* enough for this turn: call again to go on */
};

/* @fd is the visitor's from here on. Return: 0 = go on, anything else ends the search and is passed on. */
typedef int (*FindFunc)(void *userdata, int fd, const char *path);

/* Return: 0 (also when there is none), FIND_E_*, what @func returned, -ENOMEM. */
int find_regions(pid_t pid, FindFunc func, void *userdata);

/*
 * The same in turns, for a loop that has other things to do: half a MiB of maps each, about 3 ms. *@findp:
 * NULL = begin; the caller's while there is more, else NULL. Return: also FIND_E_MORE.
 */
typedef struct Find Find;

int find_regions_some(pid_t pid, Find **findp, FindFunc func, void *userdata);
Find *find_free(Find *find);
DEFINE_CLEANUP(Find, find_free)
