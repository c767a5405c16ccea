/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Kernel Types: arm64
 *
 * What differs between processors of the types in kernel.bpf.h, which includes this file.
 */

enum {
        /* PSTATE: exception level and stack, and whether the code is 32-bit (asm/ptrace.h) */
        KERNEL_PSTATE_MODE = 0x1f,
        KERNEL_PSTATE_USER = 0,         /* EL0, 64-bit */
        KERNEL_PSTATE_NARROW = 0x10,    /* EL0, 32-bit */
        KERNEL_CALL_FUTEX = 98,         /* number of the system call */
};

/* Processor's part of a task. */
struct thread_struct {
        struct {
                /* thread pointer, as the kernel knows it: of user space since the last switch */
                unsigned long tp_value;
        } uw;
} KERNEL_TYPE;

#define KERNEL_THREAD_POINTER(task) ((task)->thread.uw.tp_value)

struct pt_regs {
        uint64_t regs[31];
        uint64_t sp;
        uint64_t pc;
        uint64_t pstate;
        uint64_t orig_x0;               /* as the system call was entered */
        int syscallno;                  /* -1 behind an interrupt or a fault */
} KERNEL_TYPE;

/*
 * Words of a perf event program's context, which begins with the interrupted registers (struct user_pt_regs).
 */
enum {
        CONTEXT_WORD_X0 = 0,
        CONTEXT_WORD_X16 = 16,
        CONTEXT_WORD_X29 = 29,
        CONTEXT_WORD_X30 = 30,
        CONTEXT_WORD_SP = 31,
        CONTEXT_WORD_PC = 32,
        CONTEXT_WORD_PSTATE = 33,
        CONTEXT_WORD_PERIOD = 34,       /* events from one sample to the next, of those that count events */
        CONTEXT_WORD_ADDRESS = 35,      /* address of a page fault */
};
