/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sweeper
 *
 * Removes the sockets of a daemon that is gone, from directories in which only root may. It is a fork of
 * root's daemon, made before that gives its rights up: it waits for the end of a pipe, and then unlinks those
 * files that it was told of at its birth, if they are still the same. It reads nothing else, and a filter
 * leaves it no other call.
 */

#include "base/util/macro.h"

#define SWEEPER_COMM "spanprof-sweep"   /* its name in /proc */

typedef struct Sweeper Sweeper;

/*
 * For a process with one thread. @paths: of sockets, ended by NULL; what is no socket is left alone. Return:
 * 0, -errno.
 */
int sweeper_new(Sweeper **sweeperp, const char *const *paths);

/* Lets it sweep, and waits for that. */
Sweeper *sweeper_free(Sweeper *sweeper);
DEFINE_CLEANUP(Sweeper, sweeper_free)
