/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Walks of Threads in the Kernel
 *
 * The user stack of the current thread, from the registers that it had as it entered the kernel: of one that
 * is about to wait, of one that wakes another, of one that a signal ends, and of one at a probe. No tick
 * comes in between: interrupts are off, or the object has all its working memory to itself.
 */

#include "walk/tables.bpf.h"

#include "walk/narrow.bpf.h"
#include "walk/registers.bpf.h"
#include "walk/settings.bpf.h"
#include "walk/walk.bpf.h"

/*
 * @first: word of the first frame; @depth: frames at most. The sample's head has its identity. Fills the
 * frames, and the head's words of them.
 */
static __always_inline void entry_walk(struct task_struct *task, const struct abi_process *process,
                                       struct scratch *scratch, uint32_t first, uint32_t depth) {
        struct unwind *unwind = &scratch->unwind;
        struct space space = { .version = rows_version };
        uint64_t nodes = 0;

        space_find(process, scratch->sample.tgid, scratch->sample.start_time_ns, &nodes, &space);
        scratch->has_runtime = false;
        unwind_begin(unwind, first, depth);
        if (!registers_of_entry(task, unwind, &scratch->rules)) {
                unwind->end = ABI_STACK_NO_USER;
                if (narrow_of_entry(task, unwind))
                        narrow_walk(scratch);
        } else {
                scratch->leaf.pc = unwind->pc;
                saved_registers((const struct pt_regs *)bpf_task_pt_regs(task), scratch->rules.registers);
                if (space.generation)
                        walk_by_rows(task, scratch, &space, true);
                else
                        pc_alone(scratch);
                beam_part(scratch);
        }
        scratch->sample.task_size = 0;          /* a record that is kept has no room for it */
        scratch->sample.n_user = unwind->n_frames - first;
        scratch->sample.stack_end = unwind->end;
}
