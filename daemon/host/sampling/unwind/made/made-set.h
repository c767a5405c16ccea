/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Areas of Made Code That Were Read
 *
 * All areas that one look at a process has found registered, each with the file that stands for it
 * (made-image.h), on their way from the reader to the process (made-areas.h) and its tables.
 */

#include <stdint.h>

#include "host/sampling/process/made-areas.h"
#include "host/sampling/unwind/made/frame-registry.h"

typedef struct MadeSet {
        uint64_t read_ns;               /* MONOTONIC: when the look began */
        MadePiece pieces[MADE_MAX_PIECES];      /* sorted, disjoint */
        int fds[MADE_MAX_PIECES];       /* -1 = taken */
        uint32_t n;
        uint32_t n_functions, n_malformed, n_over_cap;
} MadeSet;

/* Return: NULL = no memory. */
MadeSet *made_set_new(uint64_t read_ns);
MadeSet *made_set_free(MadeSet *set);

/* Adds the areas of one library. @frames: sound. Return: 0, -errno. */
int made_set_add(MadeSet *set, const FrameSet *frames);
