/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Waits at the Border
 *
 * How offcpu.bpf.c tells what threads of targets did while they had no CPU. A wait begins where the
 * thread leaves its CPU and ends where it has one again:
 *
 *     time_ns             woken                 end_ns
 *     leaves its CPU      may run again         runs
 *     ├──── blocked_ns ───┤──── runnable_ns ────┤
 *
 * A wait whose stack was walked is one record (struct abi_wait). All others are added up by thread, span,
 * system call, flags, file and waker (struct abi_wait_key). A wait is in one of the two, and never in both.
 *
 * The CPU time before a wait comes with it. So the sum of all runs is the CPU time of a thread, but for its
 * first run, if it had begun before the daemon, and for the one that goes on.
 */

#include "border/abi.h"

enum {
        WAIT_MAX_FRAMES = 128,          /* user frames of a wait */
        WAIT_MAX_WORDS = RUNTIME_MAX_WORDS * WAIT_MAX_FRAMES,
        WAKER_MAX_FRAMES = 64,          /* user frames of who ended it */
        WAKER_MAX_WORDS = RUNTIME_MAX_WORDS * WAKER_MAX_FRAMES,
        WAIT_MAX_THREADS = 16384,       /* threads that are followed; others: WAITS_THREADS_OVER_CAP */
        WAIT_MAX_STACKS = 8192,         /* stacks of threads that wait now */
        WAIT_MAX_SUMS = 16384,          /* sums between two drains */
        WAIT_MAX_CALLS = 1 << 12,       /* numbers of system calls are below it */
        WAIT_NO_CALL = -1,
        WAIT_FILE_CALLS_WORDS = 8,      /* bits of the system calls that may name a file */
        WAIT_WEIGHT_ONE = 256,          /* abi_wait.weight of a wait that stands for itself alone */
};

enum {
        WAIT_PREEMPTED = 1 << 0,        /* the thread could have run on: another was given its CPU */
        WAIT_IO = 1 << 1,               /* the kernel says that it waited for a device (in_iowait) */
        WAIT_STOPPED = 1 << 2,          /* by a signal or a debugger */
        WAIT_UNINTERRUPTIBLE = 1 << 3,  /* state D */
        WAIT_LONG = 1 << 4,             /* so far it lasted for setting_wait_long_ns, with all its parts */
        WAIT_INTERPRETER_LOCK = 1 << 5, /* for the lock of an interpreter of Python (the GIL) */
        WAIT_FLAGS = WAIT_PREEMPTED | WAIT_IO | WAIT_STOPPED | WAIT_UNINTERRUPTIBLE | WAIT_LONG |
                WAIT_INTERPRETER_LOCK,
};

/*
 * Whether a thread may have an entry more of a table, of @max, where its control group has @group already and
 * its user @user. So one group alone leaves half of them to all others, and one user alone an eighth. Counts
 * are signed: one that was lowered once too often holds nothing, and shuts nobody out.
 */
static inline int wait_may_hold(uint32_t max, uint32_t group, uint32_t user, int is_root) {
        return (int32_t)group < (int32_t)(max / 2) && (is_root || (int32_t)user < (int32_t)(max - max / 8));
}

/* Steps by which waits are cut down in a storm of switches: each step includes those before it. */
enum abi_wait_limit {
        WAIT_LIMIT_NONE,
        WAIT_LIMIT_WALKS,               /* no stack is drawn: long waits alone have one */
        WAIT_LIMIT_LONG,                /* nor have long waits: no registers of them are read */
        WAIT_LIMIT_SPANS,               /* no span, no kind of file and no waker is read */
        WAIT_LIMIT_ALL,                 /* waits are not counted: the programs are detached */
};

/* Kinds of files that the descriptor of a system call leads to (wait-file.bpf.h). */
enum abi_wait_file {
        WAIT_FILE_NONE,                 /* the call names none, or it could not be read */
        WAIT_FILE_OTHER,
        WAIT_FILE_REGULAR,
        WAIT_FILE_DIRECTORY,
        WAIT_FILE_DEVICE,
        WAIT_FILE_TERMINAL,
        WAIT_FILE_PIPE,                 /* named pipes, too */
        WAIT_FILE_SOCKET,               /* a socket of another family than the next ones */
        WAIT_FILE_TCP,
        WAIT_FILE_UDP,
        WAIT_FILE_UNIX,
        WAIT_FILE_EVENTFD,
        WAIT_FILE_TIMERFD,
        WAIT_FILE_SIGNALFD,
        WAIT_FILE_INOTIFY,
        WAIT_FILE_N,
};

/* Kinds of wakers, which end waits; in the order of their counters (WAKERS_…). */
enum abi_waker_kind {
        WAKER_UNKNOWN,                  /* no waker known: the thread was preempted, or it waits on */
        WAKER_THREAD,                   /* a thread of a target */
        WAKER_PROCESS,                  /* a thread of a process that is no target */
        WAKER_KERNEL,                   /* a thread of the kernel */
        WAKER_INTERRUPT,                /* a timer, a device, a packet */
        WAKER_N,
};

/* All but the kind is zero unless it is a WAKER_THREAD. */
struct abi_waker {
        struct abi_span span;           /* zero = it had none */
        uint32_t tgid;
        uint32_t tid;
        uint8_t kind;                   /* enum abi_waker_kind */
        uint8_t reserved[7];
};

/* Knowledge of the time on a CPU before a wait. */
enum abi_run_kind {
        RUN_UNKNOWN,                    /* the begin was not seen: nothing is told of the run */
        RUN_WHOLE,                      /* the span at its end is that at its begin, or both ends have none */
        RUN_SPLIT,                      /* the ends differ, or one could not be read */
        RUN_KIND_N,
};

/* CPU time of the thread from one switch-out to the next, by the scheduler's books. */
struct abi_run {
        uint64_t ns;
        uint32_t n_moved;               /* ticks in a RUN_WHOLE that met another span than its ends have */
        uint8_t kind;                   /* enum abi_run_kind */
        uint8_t reserved[3];
};

/*
 * A wait, or the part of it that no other record has: this head, then a struct abi_sample of kind OFF_CPU
 * with its frames and attributes, then the words of the waker's frames. The sample's time is that of the
 * stack, its value blocked_ns + runnable_ns.
 */
struct abi_wait {
        uint64_t blocked_ns;
        uint64_t runnable_ns;
        uint64_t end_ns;                /* MONOTONIC */
        uint32_t weight;                /* waits that it was drawn from, × WAIT_WEIGHT_ONE */
        int16_t call;                   /* number of the system call that it was in, or WAIT_NO_CALL */
        uint8_t flags;                  /* WAIT_* */
        uint8_t file;                   /* enum abi_wait_file */
        uint64_t size;                  /* bytes of the record, this head included */
        struct abi_waker waker;
        struct abi_run run;             /* all zero in all parts of a wait but the first */
        /* stack of the waker, if it is a WAKER_THREAD and was walked; all zero else */
        uint64_t waker_ns;              /* when */
        uint64_t waker_generation;      /* generation of its process' row */
        uint16_t n_waker;               /* words: 0 … WAKER_MAX_WORDS */
        uint8_t waker_end;              /* enum abi_stack_end */
        uint8_t waker_interrupted;      /* as in struct abi_sample */
        uint32_t waker_reserved;
};

/* Key and value of a sum. */
struct abi_wait_key {
        struct abi_span span;
        uint32_t tgid;
        uint32_t tid;
        int16_t call;
        uint8_t flags;
        uint8_t context;                /* enum abi_context */
        uint8_t form;                   /* enum abi_form */
        uint8_t file;                   /* enum abi_wait_file */
        uint8_t is_split;               /* 1 = parts of waits that went on as a window closed */
        uint8_t reserved;
        struct abi_waker waker;
};

struct abi_wait_sum {
        uint64_t blocked_ns;
        uint64_t runnable_ns;
        uint64_t n;
        uint64_t end_ns;                /* end of the last wait */
        uint64_t generation;
        uint64_t start_time_ns;
        uint32_t ns_tid;
        uint32_t reserved;
        char comm[ABI_COMM_SIZE];
        /* runs before these waits */
        uint64_t whole_ns;              /* RUN_WHOLE: CPU time of the key's span, or of none */
        uint64_t split_ns;              /* RUN_SPLIT */
        uint32_t n_moved;
        /* ticks that met the key's span, or none: in runs that are split, and in those of other spans */
        uint32_t n_split;
        uint32_t n_inside;
        uint32_t run_reserved;
};

ABI_ASSERT(sizeof(struct abi_waker) == 40);
ABI_ASSERT(sizeof(struct abi_run) == 16);
ABI_ASSERT(sizeof(struct abi_wait) == 120);
ABI_ASSERT(sizeof(struct abi_wait_key) == 80);
ABI_ASSERT(sizeof(struct abi_wait_sum) == 104);
