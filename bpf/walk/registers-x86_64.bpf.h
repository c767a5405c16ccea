/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Registers: x86-64
 *
 * The processor's part of registers.bpf.h, which says what each function is for.
 */

#include "walk/tables.bpf.h"

static __always_inline bool is_user_mode(const volatile uint64_t *context) {
        return (context[CONTEXT_WORD_CS] & KERNEL_CS_RING) == KERNEL_CS_RING;
}

/*
 * Fills registers by their DWARF numbers (psABI, figure 3.36): those that were interrupted, or that the
 * kernel saved as the thread entered it. A system call has the caller's as well, but for rax, rcx and r11,
 * which it takes for itself.
 */
static __always_inline void saved_registers(const struct pt_regs *saved, uint64_t *registers) {
        registers[0] = saved->ax;
        registers[1] = saved->dx;
        registers[2] = saved->cx;
        registers[4] = saved->si;
        registers[5] = saved->di;
        registers[8] = saved->r8;
        registers[9] = saved->r9;
        registers[10] = saved->r10;
        registers[11] = saved->r11;
        registers[12] = saved->r12;
        registers[13] = saved->r13;
        registers[14] = saved->r14;
        registers[15] = saved->r15;
}

static __always_inline void interrupted_registers(const volatile uint64_t *context, uint64_t *registers) {
        registers[0] = context[CONTEXT_WORD_AX];
        registers[1] = context[CONTEXT_WORD_DX];
        registers[2] = context[CONTEXT_WORD_CX];
        registers[4] = context[CONTEXT_WORD_SI];
        registers[5] = context[CONTEXT_WORD_DI];
        registers[8] = context[CONTEXT_WORD_R8];
        registers[9] = context[CONTEXT_WORD_R9];
        registers[10] = context[CONTEXT_WORD_R10];
        registers[11] = context[CONTEXT_WORD_R11];
        registers[12] = context[CONTEXT_WORD_R12];
        registers[13] = context[CONTEXT_WORD_R13];
        registers[14] = context[CONTEXT_WORD_R14];
        registers[15] = context[CONTEXT_WORD_R15];
}

/*
 * Finds the registers that user code had as it entered the kernel. An exec that has taken the old program's
 * memory away still has its registers. Return: false if there are none.
 */
static __always_inline bool registers_of_entry(struct task_struct *task, struct unwind *unwind,
                                               struct rules *rules) {
        const struct pt_regs *registers;

        if (!BPF_CORE_READ(task, mm, start_code))
                return false;
        registers = (const struct pt_regs *)bpf_task_pt_regs(task);
        unwind->pc = registers->ip;
        unwind->sp = registers->sp;
        unwind->bp = registers->bp;
        rules->bx = registers->bx;
        /* No pc: a worker of io_uring, which never was in user mode. */
        return (uint16_t)registers->cs == KERNEL_USER_CS && unwind->pc;
}

static __always_inline bool copied_registers(const struct pt_regs *registers, struct abi_thread *thread) {
        thread->pc = registers->ip;
        thread->sp = registers->sp;
        thread->bp = registers->bp;
        thread->bx = registers->bx;
        return (uint16_t)registers->cs == KERNEL_USER_CS && thread->pc;
}

/* The processor's number of the system call; −1 behind an interrupt or a fault (entry_64.S). */
static __always_inline uint64_t entered_call(struct task_struct *task) {
        return ((const struct pt_regs *)bpf_task_pt_regs(task))->orig_ax;
}

static __always_inline uint64_t place_of_goroutine(struct task_struct *task) {
        return KERNEL_THREAD_POINTER(task);
}

static __always_inline uint64_t entered_argument(struct task_struct *task) {
        return ((const struct pt_regs *)bpf_task_pt_regs(task))->di;
}

/*
 * Finds the registers of the user code: interrupted now, or saved as it entered the kernel. Return: false if
 * there are none.
 */
static __always_inline bool user_registers(const volatile uint64_t *context, struct task_struct *task,
                                           struct unwind *unwind, struct rules *rules) {
        uint16_t cs;

        if (is_user_mode(context)) {
                cs = context[CONTEXT_WORD_CS];
                unwind->pc = context[CONTEXT_WORD_IP];
                unwind->sp = context[CONTEXT_WORD_SP];
                unwind->bp = context[CONTEXT_WORD_BP];
                rules->bx = context[CONTEXT_WORD_BX];
        } else {
                return registers_of_entry(task, unwind, rules);
        }
        return cs == KERNEL_USER_CS && unwind->pc;
}

static __always_inline bool narrow_of_entry(struct task_struct *task, struct unwind *unwind) {
        const struct pt_regs *registers;

        if (!BPF_CORE_READ(task, mm, start_code))
                return false;
        registers = (const struct pt_regs *)bpf_task_pt_regs(task);
        unwind->pc = registers->ip;
        unwind->sp = registers->sp;
        unwind->bp = registers->bp;
        return (uint16_t)registers->cs == KERNEL_USER_CS_NARROW && unwind->pc;
}

static __always_inline bool narrow_registers(const volatile uint64_t *context, struct task_struct *task,
                                             struct unwind *unwind) {
        if (!is_user_mode(context))
                return narrow_of_entry(task, unwind);
        unwind->pc = context[CONTEXT_WORD_IP];
        unwind->sp = context[CONTEXT_WORD_SP];
        unwind->bp = context[CONTEXT_WORD_BP];
        return (uint16_t)context[CONTEXT_WORD_CS] == KERNEL_USER_CS_NARROW && unwind->pc;
}
