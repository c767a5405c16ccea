/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of a Process
 *
 * Names for addresses of a process that runs, as its coroutines give them: of code, the function; of a
 * coroutine's frame (what C++20 has instead of an address of code), the function that will go on when it is
 * resumed, whose address is the frame's first word. What cannot be told has no name.
 */

#include <stdint.h>

#include "core/base/util/macro.h"
#include "core/symbol/function/symbolizer.h"

typedef struct ProcessNames ProcessNames;

/*
 * Opens the process, so that no later one with its id is taken for it. Return: 0; 1 = it cannot be looked
 * into; -ENOMEM.
 */
int process_names_new(ProcessNames **namesp, uint32_t pid);
ProcessNames *process_names_free(ProcessNames *names);
DEFINE_CLEANUP(ProcessNames, process_names_free)

/*
 * The function at @address; the first call reads the mappings. Return: text, as long-lived as @names, or
 * NULL.
 */
const char *process_names_get(ProcessNames *names, uint64_t address);
