/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Python Shim
 *
 * As sampler.bpf.c does it: the thread's state, then its chain. Include behind rows-shim.h.
 */

/* @python: thread_id is set. Return: whether there are frames. */
static inline bool shim_python_begin(struct python *python, const struct python_process *process) {
        if (!python_look_begin(python, process))
                return false;
        for (unsigned i = 0; i < PYTHON_MAX_THREADS && python_look(python, process); i++)
                ;
        if (!python_look_end(python) || !python_chain_begin(python, process))
                return false;
        for (unsigned i = 0; i < PYTHON_MAX_STEPS && python_chain_step(python, process); i++)
                ;
        return python_chain_end(python);
}
