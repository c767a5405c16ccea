/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Spool, inside
 *
 * What its files share: spool-open.c finds what there is (and finds it anew), spool.c stores, gives out and
 * drops.
 */

#include "delivery/spool/spool.h"

#define SPOOL_SUFFIX ".batch"
#define SPOOL_TEMPORARY ".writing"

enum { SPOOL_NAME_ROOM = 96 };

struct Spool {
        int fd, lock;
        char *path;
        bool read_only;
        SpoolLimits limits;
        SpoolEntry *entries;            /* [first, n), by time and sequence */
        size_t first, n, room;
        uint64_t bytes, n_events;
        size_t n_held;
        uint64_t held_events;
        uint32_t sequence;              /* of the last file of ours */
        SpoolCounts counts;
};

/* By time and sequence, for qsort(). */
int spool_by_age(const void *a, const void *b);

/* Return: 0, -ENOMEM. */
int spool_append(Spool *spool, const SpoolEntry *entry);

/*
 * Goes on in the directory that is at our path now, if it is another one. Return: 0, SPOOL_E_FAILED, -ENOMEM.
 */
int spool_follow(Spool *spool);
