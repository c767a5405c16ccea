/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts
 *
 * What the kernel half has sent of new processes (struct abi_start), until the sample comes that it was sent
 * with. They are a target's memory, secrets among it: capped, kept for a second, and overwritten at the end.
 */

#include <stddef.h>
#include <stdint.h>

#include "border/abi.h"
#include "core/base/util/macro.h"

typedef struct Start {
        struct Start *next;
        size_t size;                    /* bytes of the struct with its texts */
        struct abi_start told;          /* with its texts */
} Start;

typedef struct Starts {
        Start *first, *last;            /* in the order of their ring */
        size_t n_bytes;
} Starts;

void starts_deinit(Starts *starts);

/* Copies a sound record. What finds no room is counted (STARTS_LOST). */
void starts_add(Starts *starts, const struct abi_start *told);

/* Takes out the one that was sent with @sample, which is the caller's to free; NULL = it is lost. */
Start *starts_take(Starts *starts, const struct abi_sample *sample);

/*
 * Finds a start of @tgid that was sent after @since_ns, and before @until_ns, 0 = whenever. An exec that is
 * under way has no texts yet: they come with a later sample. Borrowed; NULL = there is none.
 */
const Start *starts_find(const Starts *starts, uint32_t tgid, uint64_t since_ns, uint64_t until_ns);

/* Drops those of before @until_ns: their samples found the ring full. */
void starts_expire(Starts *starts, uint64_t until_ns);

Start *start_free(Start *start);
DEFINE_CLEANUP(Start, start_free)
