/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Kernel Types
 *
 * The few fields of the kernel that we read, and nothing else. The loader moves each access to where the
 * running kernel keeps the field (CO-RE), so only names matter here, not order and completeness. A vmlinux.h
 * would be 150,000 lines of another kernel than the one we run on.
 */

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

typedef __u8 uint8_t;
typedef __u16 uint16_t;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
typedef __s8 int8_t;
typedef __s16 int16_t;
typedef __s32 int32_t;
typedef __s64 int64_t;

#ifndef barrier_var
#define barrier_var(var) asm volatile("" : "+r"(var))
#endif

#define KERNEL_TYPE __attribute__((preserve_access_index))

enum {
        KERNEL_PF_KTHREAD = 0x00200000, /* include/linux/sched.h; the same value since 2.6.37 */
        KERNEL_COMM_SIZE = 16,
        /* Selector of 64-bit user code (arch/x86/include/asm/segment.h, __USER_CS); 0x23 is 32-bit code. */
        KERNEL_USER_CS = 0x33,
        KERNEL_CS_RING = 3,
};

struct ns_common {
        unsigned int inum;              /* inode that stat of /proc/PID/ns/pid shows */
} KERNEL_TYPE;

struct pid_namespace {
        struct ns_common ns;
} KERNEL_TYPE;

/* Copied as a whole, hence not relocated. Its layout is the same since 4.14. */
struct upid {
        int nr;
        struct pid_namespace *ns;
};

/* A thread's ids: numbers[0] in the first namespace … numbers[level] in its innermost one. */
struct pid {
        unsigned int level;
        struct upid numbers[1];
} KERNEL_TYPE;

struct mm_struct {
        int map_count;                  /* mappings */
        unsigned long total_vm;         /* pages */
        unsigned long start_code;       /* of the executable; 0 until an exec has loaded it */
        unsigned long start_stack;      /* where the first stack began at exec; higher words are arguments */
} KERNEL_TYPE;

typedef struct {
        int counter;
} atomic_t;

struct signal_struct {
        atomic_t live;           /* threads that have not begun to exit */
        /* CPU time of threads that were reaped, ns; the leader is the last of them */
        unsigned long long sum_sched_runtime;
} KERNEL_TYPE;

struct sched_entity {
        uint64_t sum_exec_runtime;      /* CPU time up to the scheduler's last look, ns */
} KERNEL_TYPE;

typedef struct {
        unsigned int val;               /* of the first user namespace */
} kuid_t;

struct cred {
        kuid_t euid;
} KERNEL_TYPE;

/* Architecture's part of a task; x86-64. */
struct thread_struct {
        /* thread pointer, as the kernel knows it: of user space since the last switch */
        unsigned long fsbase;
} KERNEL_TYPE;

struct task_struct {
        unsigned int flags;
        struct sched_entity se;
        struct mm_struct *mm;
        int pid;
        int tgid;
        struct task_struct *group_leader;
        struct task_struct *real_parent;        /* parent of the thread's process */
        struct pid *thread_pid;         /* NULL once the task was released */
        uint64_t start_boottime;        /* since 5.5; what field 22 of /proc/PID/stat is made from */
        const struct cred *real_cred;   /* what /proc/PID/status tells */
        char comm[KERNEL_COMM_SIZE];
        struct signal_struct *signal;
        struct thread_struct thread;
} KERNEL_TYPE;

/* x86-64. `cs` is 16 bits wide since 6.9 and 64 before: the loader adjusts the width of the load. */
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
        unsigned long ip;
        unsigned long cs;
        unsigned long sp;
} KERNEL_TYPE;

/*
 * A pointer in a task, as a plain number: what is behind it is read with bpf_core_read(). For each load of a
 * pointer through a task that it trusts, the verifier of 6.2 and later searches the kernel's types by name,
 * one after the other, up to four times: 17 of the 90 ms of CPU that a start took.
 */
#define KERNEL_POINTER(task, member)                                                       \
        ({                                                                                 \
                typeof((task)->member) pointer_ = NULL;                                    \
                                                                                           \
                bpf_probe_read_kernel(&pointer_, sizeof(pointer_), &(task)->member);       \
                pointer_;                                                                  \
        })

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
};
