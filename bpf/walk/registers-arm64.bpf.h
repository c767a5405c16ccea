/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Registers: arm64
 *
 * The processor's part of registers.bpf.h, which says what each function is for.
 */

#include "walk/tables.bpf.h"

static __always_inline bool is_user_mode(const volatile uint64_t *context) {
        return !(context[CONTEXT_WORD_PSTATE] & 0xf);   /* EL0, of either width */
}

/* Registers x16 … x28: a function may keep those across calls, but for x16 to x18, which PLTs use. */
static __always_inline void saved_registers(const struct pt_regs *saved, uint64_t *registers) {
        for (int i = 0; i < RULES_LAST_KEPT - RULES_FIRST_KEPT + 1; i++)
                registers[i] = saved->regs[RULES_FIRST_KEPT + i];
}

static __always_inline void interrupted_registers(const volatile uint64_t *context, uint64_t *registers) {
        for (int i = 0; i < RULES_LAST_KEPT - RULES_FIRST_KEPT + 1; i++)
                registers[i] = context[CONTEXT_WORD_X0 + RULES_FIRST_KEPT + i];
}

static __always_inline bool registers_of_entry(struct task_struct *task, struct unwind *unwind,
                                               struct rules *rules) {
        const struct pt_regs *registers;

        if (!BPF_CORE_READ(task, mm, start_code))       /* an exec has taken the memory away */
                return false;
        registers = (const struct pt_regs *)bpf_task_pt_regs(task);
        unwind->pc = registers->pc;
        unwind->sp = registers->sp;
        unwind->bp = registers->regs[29];
        rules->bx = unwind_return_address(registers->regs[30]);
        return (registers->pstate & KERNEL_PSTATE_MODE) == KERNEL_PSTATE_USER && unwind->pc;
}

static __always_inline bool copied_registers(const struct pt_regs *registers, struct abi_thread *thread) {
        thread->pc = registers->pc;
        thread->sp = registers->sp;
        thread->bp = registers->regs[29];
        thread->bx = unwind_return_address(registers->regs[30]);
        return (registers->pstate & KERNEL_PSTATE_MODE) == KERNEL_PSTATE_USER && thread->pc;
}

static __always_inline uint64_t entered_call(struct task_struct *task) {
        return (uint64_t)(int64_t)((const struct pt_regs *)bpf_task_pt_regs(task))->syscallno;
}

/* A tick in user mode has its registers there, too: it has entered the kernel by the same door. */
static __always_inline uint64_t place_of_goroutine(struct task_struct *task) {
        return ((const struct pt_regs *)bpf_task_pt_regs(task))->regs[28];
}

static __always_inline uint64_t entered_argument(struct task_struct *task) {
        return ((const struct pt_regs *)bpf_task_pt_regs(task))->orig_x0;
}

static __always_inline bool user_registers(const volatile uint64_t *context, struct task_struct *task,
                                           struct unwind *unwind, struct rules *rules) {
        if (!is_user_mode(context))
                return registers_of_entry(task, unwind, rules);
        unwind->pc = context[CONTEXT_WORD_PC];
        unwind->sp = context[CONTEXT_WORD_SP];
        unwind->bp = context[CONTEXT_WORD_X29];
        rules->bx = unwind_return_address(context[CONTEXT_WORD_X30]);
        return (context[CONTEXT_WORD_PSTATE] & KERNEL_PSTATE_MODE) == KERNEL_PSTATE_USER && unwind->pc;
}

/* Code of 32 bits has no frame pointer that all compilers agree on. */
static __always_inline bool narrow_of_entry(struct task_struct *task, struct unwind *unwind) {
        const struct pt_regs *registers;

        if (!BPF_CORE_READ(task, mm, start_code))
                return false;
        registers = (const struct pt_regs *)bpf_task_pt_regs(task);
        unwind->pc = registers->pc;
        return (registers->pstate & KERNEL_PSTATE_MODE) == KERNEL_PSTATE_NARROW && unwind->pc;
}

static __always_inline bool narrow_registers(const volatile uint64_t *context, struct task_struct *task,
                                             struct unwind *unwind) {
        if (!is_user_mode(context))
                return narrow_of_entry(task, unwind);
        unwind->pc = context[CONTEXT_WORD_PC];
        return (context[CONTEXT_WORD_PSTATE] & KERNEL_PSTATE_MODE) == KERNEL_PSTATE_NARROW && unwind->pc;
}
