/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Kernel Types: x86-64
 *
 * What differs between processors of the types in kernel.bpf.h, which includes this file.
 */

enum {
        /* Selectors of user code, of 64 and of 32 bits (arch/x86/include/asm/segment.h) */
        KERNEL_USER_CS = 0x33,
        KERNEL_USER_CS_NARROW = 0x23,
        KERNEL_CS_RING = 3,
        KERNEL_CALL_FUTEX = 202,        /* number of the system call */
};

/* Processor's part of a task. */
struct thread_struct {
        /* thread pointer, as the kernel knows it: of user space since the last switch */
        unsigned long fsbase;
} KERNEL_TYPE;

#define KERNEL_THREAD_POINTER(task) ((task)->thread.fsbase)

/* `cs` is 16 bits wide since 6.9 and 64 before: the loader adjusts the width of the load. */
struct pt_regs {
        unsigned long r15;
        unsigned long r14;
        unsigned long r13;
        unsigned long r12;
        unsigned long bp;
        unsigned long bx;
        unsigned long r11;
        unsigned long r10;
        unsigned long r9;
        unsigned long r8;
        unsigned long ax;
        unsigned long cx;
        unsigned long dx;
        unsigned long si;
        unsigned long di;
        unsigned long orig_ax;
        unsigned long ip;
        unsigned long cs;
        unsigned long sp;
} KERNEL_TYPE;

/*
 * Words of a perf event program's context, which begins with the interrupted
 * registers (struct bpf_perf_event_data). They are read as 64-bit words: the
 * verifier admits no narrow load, and newer headers would make one for `cs`.
 */
enum {
        CONTEXT_WORD_R15 = 0,
        CONTEXT_WORD_R14 = 1,
        CONTEXT_WORD_R13 = 2,
        CONTEXT_WORD_R12 = 3,
        CONTEXT_WORD_BP = 4,
        CONTEXT_WORD_BX = 5,
        CONTEXT_WORD_R11 = 6,
        CONTEXT_WORD_R10 = 7,
        CONTEXT_WORD_R9 = 8,
        CONTEXT_WORD_R8 = 9,
        CONTEXT_WORD_AX = 10,
        CONTEXT_WORD_CX = 11,
        CONTEXT_WORD_DX = 12,
        CONTEXT_WORD_SI = 13,
        CONTEXT_WORD_DI = 14,
        CONTEXT_WORD_IP = 16,
        CONTEXT_WORD_CS = 17,
        CONTEXT_WORD_SP = 19,
        CONTEXT_WORD_PERIOD = 21,       /* events from one sample to the next, of those that count events */
        CONTEXT_WORD_ADDRESS = 22,      /* address of a page fault */
};
