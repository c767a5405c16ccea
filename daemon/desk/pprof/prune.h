/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Frames that a profile wants hidden: drop_frames and keep_frames, regular expressions of whole names, as
 * `go tool pprof` applies them. C heap profilers hide their allocators so.
 */

#include <stddef.h>

#include "core/base/util/macro.h"

typedef struct Prune Prune;

enum {
        _PRUNE_E_SUCCESS,
        PRUNE_E_UNKNOWN,                /* an expression uses what is not known here; nothing is hidden */
};

/* Texts of size 0 are none. Return: 0, PRUNE_E_UNKNOWN, -ENOMEM. */
int prune_new(Prune **prunep, const char *drop, size_t drop_size, const char *keep, size_t keep_size);
Prune *prune_free(Prune *prune);
DEFINE_CLEANUP(Prune, prune_free)

/*
 * Whether a function of this name is hidden, with all that it calls. Its arguments do not count.
 * Return: 1, 0, -ENOMEM.
 */
int prune_matches(Prune *prune, const char *name, size_t size);
