/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds
 *
 * What the safety sweep came by, until it is known whether a notice told of it
 * as well: notices wait in a ring, so the sweep may be there before one that was
 * posted in time. Only what nobody told of is the sweep's own (SWEEP_FOUND).
 */

#include <stddef.h>
#include <stdint.h>

#include "abi.h"

enum { FINDS_MAX = 256 };               /* over it what was found first is not waited for any longer */

typedef enum FindKind {
        FIND_PROGRAM,                   /* another one than was known under this id: exec and exit tell of it */
        FIND_PUBLICATION,               /* a ring, or a process that publishes: a change of mappings does */
} FindKind;

typedef struct Find {
        uint64_t time_ns;               /* MONOTONIC */
        uint32_t tgid;
        FindKind kind;
} Find;

typedef struct Finds {
        Find finds[FINDS_MAX];          /* in the order of time */
        size_t n;
} Finds;

void finds_add(Finds *finds, uint32_t tgid, FindKind kind, uint64_t now_ns);

/* A notice has come: what it tells of was not found by us. */
void finds_told(Finds *finds, const struct abi_notice *notice);

/* All notices that were posted before @until_ns have come. What was found long enough before that is counted. */
void finds_settle(Finds *finds, uint64_t until_ns);
