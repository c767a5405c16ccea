/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Dead Letters
 *
 * Requests that a receiver has refused for good: its credentials, its path or its limits were wrong. A
 * rollout mends that, so they are kept for `spanprof spool retry`. They lie in a spool of their own, the
 * directory `dead` in the spool, which the daemon opens for each letter alone. Who sends them again takes a lock
 * of its own, the file `retry`, so that the daemon can add letters meanwhile.
 */

#include "host/delivery/spool/spool.h"

/* The directory of the dead letters of the spool at @spool. *pathp is malloc()ed. Return: 0, -ENOMEM. */
int dead_letters_path(const char *spool, char **pathp);

/*
 * Stores one request beside those of @spool, as spool_put() does. The letters have an eighth of the spool's
 * bytes, and its age. Return: 0, SPOOL_E_FAILED with errno set, -ENOMEM.
 */
int dead_letters_put(const Spool *spool, const SpoolHeader *header, const void *request, size_t size,
                     uint64_t now_ns);

/*
 * The letters of the spool at @spool, to be looked at, and removed by spool_remove(). Return: as spool_new();
 * SPOOL_E_EMPTY = it has none.
 */
int dead_letters_open(Spool **lettersp, const char *spool, SpoolProblem *problem);

/*
 * For who sends them: *fdp holds the lock while it is open. Return: 0, SPOOL_E_LOCKED, SPOOL_E_FAILED with
 * errno set, -ENOMEM.
 */
int dead_letters_lock(const char *spool, int *fdp);
