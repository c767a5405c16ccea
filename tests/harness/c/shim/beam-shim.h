/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Erlang Shim
 *
 * What the sampler does behind a walk by rows, for a process that runs Erlang. Include behind rows-shim.h.
 */

#include "runtimes/beam.bpf.h"

/*
 * @pointer: of the thread. Return: whether the walk by rows has ended in code of the JIT, or is that of a
 * dirty scheduler; then it went on there.
 */
static inline bool shim_beam_walk(struct beam *beam, const struct beam_process *process,
                                  struct unwind *unwind, const struct rules *rules, uint64_t pointer,
                                  uint64_t *frames) {
        if (!beam_is_met(beam, process, unwind, rules, pointer))
                return false;
        if (beam_begin(beam, process, unwind, rules, frames))
                for (unsigned i = 0; i < BEAM_MAX_STEPS * BEAM_STEP_WORDS; i++)
                        if (!beam_take(beam, process, unwind, frames))
                                break;
        return true;
}
