/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Threads at the Border
 *
 * How threads.bpf.c tells what a thread of a target does at the moment of the look.
 */

#include "border/abi.h"

enum {
        THREAD_ON_CPU = 1 << 0,         /* registers are those of its last entry into the kernel */
        THREAD_HAS_USER = 1 << 1,       /* registers are set: of 64-bit user code */
        THREAD_RUNNABLE = 1 << 2,       /* the thread waits for a CPU alone */
        /* a worker of the kernel in the process: its thread pointer is another's */
        THREAD_IS_WORKER = 1 << 3,
        /* flags of its slot in the ring */
        THREAD_SLOT_SHARED = 1 << 4,    /* other threads have it, too */
        THREAD_SLOT_LEFT = 1 << 5,      /* a thread that is gone may have written it */
        /* the slot was not written since the thread's birth, as far as is known */
        THREAD_SLOT_UNWRITTEN = 1 << 6,
};

enum { THREAD_MAX_PROBES = 8 };         /* calls of one thread through return probes that are told */

/* A call whose return address is the kernel's trampoline (bpf/walk/rules.bpf.h). */
struct abi_probe {
        uint64_t stack, address;        /* place of the return address; the true one, 0 = no more */
};

struct abi_thread {
        uint64_t time_ns;               /* MONOTONIC: of this look */
        uint64_t start_time_ns;         /* as in struct abi_sample, like the next four */
        uint64_t generation;
        uint32_t tgid;
        uint32_t tid;
        uint32_t ns_tid;
        uint32_t flags;                 /* THREAD_* */
        /* when it was given a CPU last, by the scheduler's clock; 0 = this kernel does not tell */
        uint64_t arrival_ns;
        uint64_t n_switches;            /* times that it has left a CPU */
        uint64_t pc, sp, bp, bx;
        uint64_t registers[16];         /* as struct abi_stack has them */
        uint64_t pointer;               /* the thread pointer */
        uint64_t argument;              /* the first one of the system call that it is in */
        /* how its trace context is reached, as in struct abi_process; 0 = there is none of that kind */
        uint64_t ring_address;
        int64_t thread_offset;
        struct abi_span born;           /* content of its slot when it was born */
        uint32_t ring_capacity;
        uint32_t thread_module;
        uint8_t thread_model;
        uint8_t thread_form;
        int16_t call;                   /* as in struct abi_wait, like the next one */
        uint8_t wait_flags;
        uint8_t reserved[3];
        char comm[ABI_COMM_SIZE];
        struct node_layout node;        /* as in struct abi_process */
        uint64_t trampoline;            /* 0 = the process has none */
        struct abi_probe probes[THREAD_MAX_PROBES];     /* the latest first */
};

ABI_ASSERT(sizeof(struct abi_thread) == 448);
