/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sweeper
 *
 * Does at the end what only root may, for a daemon that was root's and has given its rights up. It is a fork
 * of that daemon, made before. When its socket ends, it removes the daemon's sockets, if they are still the
 * same files. When it is told to, it gives an output file its name. It reads nothing else, and a filter
 * leaves it no other call.
 */

#include "core/base/file/outfile.h"
#include "core/base/util/macro.h"

#define SWEEPER_COMM "spanprof-sweep"   /* name of the process in /proc */

typedef struct Sweeper Sweeper;

/*
 * For a process with one thread. @paths: of sockets, ended by NULL; what is no socket is left alone. @file:
 * an output that is open, whose bytes the caller will write, for sweeper_finish_file(); NULL = none. Return:
 * 0, -errno.
 */
int sweeper_new(Sweeper **sweeperp, const char *const *paths, const Outfile *file);

/* Gives the file its name, once; it waits a few seconds at most. Return: as outfile_finish(), -ETIMEDOUT. */
int sweeper_finish_file(Sweeper *sweeper);

/* Lets it sweep, and waits for that. */
Sweeper *sweeper_free(Sweeper *sweeper);
DEFINE_CLEANUP(Sweeper, sweeper_free)
