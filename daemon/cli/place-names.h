/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Place Names
 *
 * Names for addresses of a process that runs, as its coroutines give them: of code, the function; of a
 * coroutine's frame (what C++20 has instead of an address of code), the function that will go on when it is
 * resumed, whose address is the frame's first word. What cannot be told has no name.
 */

#include <stdint.h>

#include "base/util/macro.h"
#include "symbol/function/symbolizer.h"

typedef struct PlaceNames PlaceNames;

/*
 * Opens the process, so that no later one with its id is taken for it. Return: 0; 1 = it cannot be looked
 * into; -ENOMEM.
 */
int place_names_new(PlaceNames **namesp, uint32_t pid);
PlaceNames *place_names_free(PlaceNames *names);
DEFINE_CLEANUP(PlaceNames, place_names_free)

/* Its mappings are read at the first call. Return: a text that lives as long as @names, or NULL. */
const char *place_names_get(PlaceNames *names, uint64_t address);
