/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rejects
 *
 * Remembers for a while which processes no selector chose, so that they are not
 * decided again at each sample. Bounded; in the order of their time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data/hashmap.h"

typedef struct Reject Reject;

typedef struct Rejects {
        Hashmap map;                    /* tgid → Reject */
        Reject *first, *last;
        size_t max;
} Rejects;

enum {
        _REJECTS_E_SUCCESS,
        REJECTS_E_KNOWN,                /* is there already */
        REJECTS_E_FULL,                 /* the cap is reached; nothing was added */
};

static inline void rejects_init(Rejects *rejects, size_t max) {
        *rejects = (Rejects){ .max = max };
}

void rejects_deinit(Rejects *rejects);

/* @until_ns must not be earlier than that of those added before. Return: 0, REJECTS_E_*, -ENOMEM. */
int rejects_add(Rejects *rejects, uint32_t tgid, uint64_t until_ns);
bool rejects_contains(const Rejects *rejects, uint32_t tgid);

/* Return: whether it was there. */
bool rejects_remove(Rejects *rejects, uint32_t tgid);

/* One whose time has come at @now_ns; it stays until it is removed. Return: its tgid, 0 = none. */
uint32_t rejects_expired(const Rejects *rejects, uint64_t now_ns);
