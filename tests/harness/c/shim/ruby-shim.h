/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ruby Shim
 *
 * What the sampler does in front of a walk over frames of Ruby. Include behind rows-shim.h.
 */

/* @pointer: the thread's; @unwind, @rules: as the walk begins. Return: whether there are frames. */
static inline bool shim_ruby_begin(struct python *python, const struct ruby_process *process,
                                   uint64_t pointer, const struct unwind *unwind, struct rules *rules) {
        rules->is_strict = 1;
        if (!ruby_chain_begin(python, process, pointer, unwind->sp))
                return false;
        python_chain_place(python, unwind, rules);
        for (unsigned i = 0; i < PYTHON_MAX_CHAIN && ruby_chain_step(python, process); i++)
                ;
        return python_chain_end(python);
}
