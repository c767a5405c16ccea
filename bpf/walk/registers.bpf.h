/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Registers
 *
 * The registers of user code that a walk begins with: those that a tick has interrupted, or those that the
 * kernel saved as the thread entered it. All of the processor that the programs know is in the files whose
 * names end with it: registers, rules and kernel types. Each of them has here
 *
 *     is_user_mode             whether a tick has interrupted user code
 *     interrupted_registers    general registers of that code, for the rules of frame 0
 *     saved_registers          the same, of a thread that has entered the kernel
 *     user_registers           pc, stack pointer and frame pointer of either
 *     narrow_registers         as user_registers, of code of 32 bits, for which that finds none
 *     registers_of_entry       those of a thread that has entered the kernel
 *     narrow_of_entry          the same of code of 32 bits
 *     copied_registers         the same, from a copy of what the kernel saved of another thread
 *     entered_call             number of its system call
 *     entered_argument         the call's first argument
 *     place_of_goroutine       where the goroutine of a thread is: in that register, or by the thread pointer
 */

#include "border/threads_abi.h"

#if UNWIND_ARM64
#include "walk/registers-arm64.bpf.h"
#else
#include "walk/registers-x86_64.bpf.h"
#endif

/* Notes the thread's calls through return probes, which the daemon needs to walk its stack. */
static __always_inline void probes_of(const struct task_struct *task, struct abi_thread *thread) {
        uint64_t at = probe_first(task);
        struct rules_probe probe;

        if (!at)
                return;
        thread->trampoline = probe_trampoline(task);
        for (int i = 0; i < THREAD_MAX_PROBES; i++) {
                if (!at || !rules_probe_read(at, &probe))
                        return;
                thread->probes[i].stack = probe.stack;
                thread->probes[i].address = probe.address;
                at = probe.next;
        }
}
