/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Namer
 *
 * Gives the frames of a window the names that this host knows: a closed window in, another one out.
 */

#include "profile/window.h"
#include "symbol/symbolizer.h"
#include "util/macro.h"

/* Adds @from to @into, with names; *n_lostp grows by the events that found no room. Return: 0, -ENOMEM. */
int namer_merge(Window *into, const Window *from, Symbolizer *symbolizer, uint64_t *n_lostp);
