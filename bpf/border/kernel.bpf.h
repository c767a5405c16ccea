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

/* The processor whose kernel this is compiled for. */
#ifdef __TARGET_ARCH_arm64
#define UNWIND_ARM64 1
#else
#define UNWIND_ARM64 0
#endif

#define KERNEL_TYPE __attribute__((preserve_access_index))

enum {
        /* states of a task (include/linux/sched.h, since 4.14) */
        KERNEL_TASK_UNINTERRUPTIBLE = 0x02,
        KERNEL_TASK_STOPPED = 0x0c,     /* __TASK_STOPPED, __TASK_TRACED */
        KERNEL_TASK_DEAD = 0x80,        /* the thread never runs again */
        KERNEL_PF_EXITING = 0x00000004,
        KERNEL_PF_KTHREAD = 0x00200000, /* include/linux/sched.h; the same value since 2.6.37 */
        /* a thread that the kernel has made in the process, for io_uring or (since 6.4) vhost */
        KERNEL_PF_WORKERS = 0x00004010, /* PF_USER_WORKER, PF_IO_WORKER */
        KERNEL_COMM_SIZE = 16,
        KERNEL_EEXIST = 17,
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

/* Page of a process with probes on its functions; calls of those with a return probe return to its start. */
struct xol_area {
        unsigned long vaddr;
} KERNEL_TYPE;

struct uprobes_state {
        struct xol_area *xol_area;
} KERNEL_TYPE;

/* A call of such a function that has not returned yet, the latest first (include/linux/uprobes.h). */
struct return_instance {
        unsigned long stack;            /* stack pointer as the function began */
        unsigned long orig_ret_vaddr;   /* return address that the kernel has taken */
        struct return_instance *next;
} KERNEL_TYPE;

struct uprobe_task {
        struct return_instance *return_instances;
        unsigned long vaddr;            /* address of the instruction that a probe stands on, … */
        unsigned long xol_vaddr;        /* … and of its copy, which the thread executes */
} KERNEL_TYPE;

struct mm_struct {
        struct uprobes_state uprobes_state;     /* with CONFIG_UPROBES, like `utask` */
        int map_count;                  /* mappings */
        unsigned long total_vm;         /* pages */
        unsigned long start_code;       /* address of the executable; 0 until an exec has loaded it */
        unsigned long start_brk, brk;   /* the heap */
        unsigned long start_stack;      /* where the first stack began at exec; higher words are arguments */
        unsigned long arg_start, arg_end, env_start, env_end;   /* texts of arguments and environment */
} KERNEL_TYPE;

typedef struct {
        int counter;
} atomic_t;

typedef struct {
        int64_t counter;
} atomic64_t;

struct bpf_map {
        atomic64_t refcnt;              /* references of descriptors, pins, programs and maps of maps */
} KERNEL_TYPE;

typedef struct {
        unsigned long sig[1];           /* bit N - 1: number N */
} sigset_t;

/* Signals that were sent, and are not delivered yet. */
struct sigpending {
        sigset_t signal;
} KERNEL_TYPE;

struct signal_struct {
        struct sigpending shared_pending;       /* to the process; those to a thread are task_struct's */
        atomic_t live;           /* threads that have not begun to exit */
        unsigned int flags;             /* SIGNAL_* */
        int group_exit_code;            /* in the low 7 bits the signal that ends the process */
        struct mm_struct *oom_mm;       /* memory of a victim of the OOM killer; NULL = it is none */
        /* CPU time of threads that were reaped, ns; the leader is the last of them */
        unsigned long long sum_sched_runtime;
} KERNEL_TYPE;

struct sched_entity {
        uint64_t sum_exec_runtime;      /* CPU time up to the scheduler's last look, ns */
} KERNEL_TYPE;

typedef struct {
        unsigned int val;               /* id in the first user namespace */
} kuid_t;

struct cred {
        kuid_t euid;
} KERNEL_TYPE;

#if UNWIND_ARM64
#include "arch/kernel-arm64.bpf.h"
#else
#include "arch/kernel-x86_64.bpf.h"
#endif

struct files_struct;
struct css_set;

struct mnt_namespace {
        struct ns_common ns;
} KERNEL_TYPE;

struct nsproxy {
        struct mnt_namespace *mnt_ns;
} KERNEL_TYPE;

struct qstr {
        const unsigned char *name;
} KERNEL_TYPE;

struct dentry {
        struct qstr d_name;
} KERNEL_TYPE;

struct path {
        struct dentry *dentry;
} KERNEL_TYPE;

struct super_block {
        unsigned long s_magic;
} KERNEL_TYPE;

struct inode {
        unsigned short i_mode;
        unsigned int i_rdev;
        struct super_block *i_sb;
} KERNEL_TYPE;

struct file {
        struct path f_path;
        struct inode *f_inode;
        void *private_data;
} KERNEL_TYPE;

struct task_struct {
        unsigned int __state;           /* 0 = it can run; since 5.14 */
        unsigned int flags;
        unsigned in_iowait : 1;
        void *stack;                    /* kernel stack: its lowest address */
        struct sched_entity se;
        struct mm_struct *mm;
        int pid;
        int tgid;
        struct task_struct *group_leader;
        struct task_struct *real_parent;        /* parent of the thread's process */
        struct pid *thread_pid;         /* NULL once the task was released */
        uint64_t start_boottime;        /* since 5.5; what field 22 of /proc/PID/stat is made from */
        const struct cred *real_cred;   /* credentials that /proc/PID/status tells */
        char comm[KERNEL_COMM_SIZE];
        struct files_struct *files;
        struct nsproxy *nsproxy;        /* NULL while it exits */
        struct css_set *cgroups;        /* tasks with all control groups in common share one */
        struct signal_struct *signal;
        struct sigpending pending;
        struct uprobe_task *utask;
        struct thread_struct thread;
} KERNEL_TYPE;

/* An int up to 6.18, a byte in 7.2, with others right behind it: read by the size that this kernel has. */
struct task_struct___cpu {
        int on_cpu;
} KERNEL_TYPE;

static __always_inline bool kernel_has_cpu(const void *task) {
        const struct task_struct___cpu *look = task;

        return BPF_CORE_READ_BITFIELD_PROBED(look, on_cpu);
}

/*
 * A pointer in a task, as a plain number: what is behind it is read with bpf_core_read(). For each load of a
 * pointer through a task that it trusts, the verifier of 6.2 and later searches the kernel's types by name,
 * one after the other, up to four times: 17 of the 90 ms of CPU that a start took.
 *
 * Programs at each switch of a thread define KERNEL_LOADS: they load through such pointers, which takes a
 * tenth of the time of a read. There KERNEL_POINTER is a pointer that the verifier knows, and what is behind
 * it is KERNEL_BEHIND().
 */
#ifdef KERNEL_LOADS
#define KERNEL_POINTER(task, member) ((task)->member)
#define KERNEL_BEHIND(pointer, member) ((pointer)->member)
#else
#define KERNEL_POINTER(task, member)                                                       \
        ({                                                                                 \
                typeof((task)->member) pointer_ = NULL;                                    \
                                                                                           \
                bpf_probe_read_kernel(&pointer_, sizeof(pointer_), &(task)->member);       \
                pointer_;                                                                  \
        })
#define KERNEL_BEHIND(pointer, member) BPF_CORE_READ(pointer, member)
#endif
