/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Errand
 *
 * A conversation with one worker, in a thread that may wait for it until a deadline: for those that are asked several
 * things about one file. The event loop asks by helper.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jail/nursery.h"

enum {
        _ERRAND_E_SUCCESS,
        ERRAND_E_NONE,                  /* no worker can be had now */
        ERRAND_E_DIED,                  /* without an answer, or in its midst; the errand is over */
        ERRAND_E_LATE,                  /* the same, of one that was killed */
};

/* For the loop, which counts for all (util/stat.h). */
typedef struct ErrandCounts {
        uint32_t n_started, n_died, n_late, n_malformed;
} ErrandCounts;

typedef struct Errand {
        Nursery *nursery;               /* borrowed */
        uint64_t end_ns;                /* MONOTONIC: nothing is waited for beyond that */
        ErrandCounts *counts;           /* the same thread's */
        int socket;                     /* -1 = nobody is on it */
        uint32_t serial;
} Errand;

/* Unless there is a worker already. Return: 0, ERRAND_E_NONE. */
int errand_begin(Errand *errand);

/* @fd: -1 = none; borrowed. Return: 0, ERRAND_E_DIED, ERRAND_E_LATE. */
int errand_send(Errand *errand, const void *data, size_t size, int fd);

/* Exactly @size bytes. Return: the same. */
int errand_receive(Errand *errand, void *data, size_t size);

/* It has said what is not so: as good as dead. Return: ERRAND_E_DIED. */
int errand_refuse(Errand *errand);

/* No more is wanted of this worker. */
void errand_end(Errand *errand);

/* In the loop. */
void errand_count(const ErrandCounts *counts);
