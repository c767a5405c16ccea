/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finding of Erlang's Variables
 *
 * Where a process keeps its modules, schedulers and atoms, and the code that ends its stacks.
 */

#include "host/runtime/beam/beam-code.h"
#include "host/runtime/beam/beam-program.h"

typedef struct BeamFound {
        struct beam_process process;    /* for the kernel half, but for its generation */
        uint64_t atoms;                 /* the table of atoms */
} BeamFound;

/*
 * Looks through a process of @opened, whose file lies at @bias. Reads by @reader->read alone. Return: 0 with
 * *found; or BEAM_CODE_E_LATER, _UNKNOWN, _MANY, _POINTERS.
 */
int beam_find(const BeamReader *reader, const BeamOpened *opened, uint64_t bias, BeamFound *found);

/* Pure. Whether what another process says of one may be so. */
bool beam_found_check(const BeamFound *found);
