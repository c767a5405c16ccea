/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * PHP Shim
 *
 * What the sampler does in front of a walk over frames of PHP. Include behind rows-shim.h.
 */

/* @unwind, @rules: as the walk begins. Return: whether there are frames. */
static inline bool shim_php_begin(struct python *python, const struct php_process *process,
                                  const struct unwind *unwind, struct rules *rules) {
        rules->is_strict = 1;
        if (!php_chain_begin(python, process))
                return false;
        python_chain_place(python, unwind, rules);
        for (unsigned i = 0; i < PYTHON_MAX_CHAIN && php_chain_step(python, process, rules->registers); i++)
                ;
        return python_chain_end(python);
}
