/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sweep
 *
 * A pass over /proc that never ends: which process to look at next, and when. Its caller says what a look is.
 */

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

#include "border/abi.h"

/* ---- what was found ---- */

/*
 * The sweep keeps its finds until it is known whether a notice told of them as well: notices wait in a ring,
 * so the sweep may be there before one that was posted in time. It counts what no notice told of
 * (SWEEP_FOUND).
 */

/* over it the oldest find is counted at once */
enum { SWEEP_RESULTS_MAX = 256 };

typedef enum SweepResultKind {
        /* another program than was known under this id: exec and exit tell of it */
        SWEEP_PROGRAM,
        SWEEP_PUBLICATION,              /* a ring, or a process that publishes: a change of mappings does */
} SweepResultKind;

typedef struct SweepResult {
        uint64_t time_ns;               /* MONOTONIC */
        uint32_t tgid;
        SweepResultKind kind;
} SweepResult;

typedef struct SweepResults {
        SweepResult results[SWEEP_RESULTS_MAX];         /* in the order of time */
        size_t n;
} SweepResults;

void sweep_results_add(SweepResults *results, uint32_t tgid, SweepResultKind kind, uint64_t now_ns);

/* A notice has come: what it tells of was not found by us. */
void sweep_results_told(SweepResults *results, const struct abi_notice *notice);

/* All notices that were posted before @until_ns have come. Finds of a second before that are counted. */
void sweep_results_settle(SweepResults *results, uint64_t until_ns);

/* ---- the pass ---- */

typedef struct Sweep {
        DIR *dir;                       /* where it is; NULL = at the start */
        uint64_t next_ns;
        bool is_resync;                 /* notices were lost: all processes, at once and thoroughly, */
        bool is_again;                  /* more were lost meanwhile: another pass follows */
        uint64_t cost_ns;               /* CPU time of this pass over all processes so far */
        uint64_t rest_ns;               /* no such pass before this time */
        SweepResults results;
} Sweep;

/* Return: 0, or a code that ends the step. */
typedef int (*SweepLook)(void *userdata, uint32_t pid);

void sweep_deinit(Sweep *sweep);

/* Notices were lost: all processes are looked at, a few at each sweep_work(). */
void sweep_resync(Sweep *sweep);

/*
 * A step, if it is due at @now_ns. *next_nsp: when the next one is. Return: 0, what @look returned.
 */
int sweep_work(Sweep *sweep, uint64_t now_ns, SweepLook look, void *userdata, uint64_t *next_nsp);
