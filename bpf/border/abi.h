/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * The Border between Kernel Half and Daemon
 *
 * Every record, key, value and limit that crosses it. Both halves compile this
 * file, so that nothing is declared twice. Integers are native; every struct
 * has explicit padding and a static assert of its size. The daemon treats each
 * byte that comes from the kernel half as untrusted, since most of them began
 * in a target (decode checks every count before it is used).
 *
 * Ids: `tgid` and `tid` are ids in the daemon's own PID namespace; `ns_tid` is
 * the thread's id in its innermost namespace, the one it sees itself.
 * Times: CLOCK_MONOTONIC, nanoseconds. A process' start is CLOCK_BOOTTIME, as in
 * /proc/PID/stat (field 22), where it is rounded down to ticks of 10 ms.
 */

#ifdef __bpf__
#include "border/kernel.bpf.h"
#else
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#endif

#include "border/counters.h"
#include "border/runtime_abi.h"
#include "spanprof/ring.h"
#include "spanprof/thread.h"

enum {
        ABI_MAX_FRAMES = 1024,          /* user frames of one sample; `depth` may ask for less */
        ABI_DEFAULT_FRAMES = 512,
        /* words of these frames: those of a runtime have more than one */
        ABI_MAX_USER_WORDS = RUNTIME_MAX_WORDS * ABI_MAX_FRAMES,
        ABI_MAX_KERNEL_FRAMES = 127,    /* kernel.perf_event_max_stack's default */
        ABI_COMM_SIZE = 16,             /* TASK_COMM_LEN */
        ABI_MAX_PROCESSES = 16384,      /* rows of the process table; over it: TARGETS_OVER_CAP */
        ABI_MAX_NAMES = 1024,           /* names that are kept as rejected; over it the least used one goes */
        /* bytes of a thread context's attributes; longer ones are left out */
        ABI_MAX_ATTRIBUTES_SIZE = 640,
        ABI_MAX_FORKS = 3072,           /* forked children of targets, while the daemon does not know them */
        ABI_MAX_PROGRAM_NAMES = 512,    /* names of each of two tables; over it the oldest one goes */
        /* slots of a ring up to which the counts of its slots are removed with the process */
        ABI_KEPT_SLOTS = 4096,
        ABI_KEPT_BLOCKS = 32,           /* blocks of them, each of which is removed at once */
        /* threads of processes with a ring, and slots in use, together: shares by slots.bpf.h */
        ABI_RING_ENTRIES = 32768,
        ABI_RING_SHARES = 1024,         /* numbers that tell control groups apart, and users in them */
        ABI_HELPER_NAMES = 4,           /* names of the daemon's own processes beside it */
        ABI_STACK_CHUNK = 1024,         /* a copy of a stack consists of whole ones; a page is a multiple */
        ABI_STACK_MAX_CHUNKS = 17,
        /* a tick of /proc: USER_HZ is 100 on every architecture that we run on */
        ABI_START_TICK_NS = 10000000,
};

/* Kind of event at a sample's time; fixes the meaning of `value`. */
enum abi_kind {
        ABI_KIND_CPU = 1,               /* value: 1, or what the thread has allocated (ABI_VALUE_*) */
        ABI_KIND_OFF_CPU = 2,           /* value: ns suspended */
        ABI_KIND_LOCK = 3,              /* value: ns waited */
        ABI_KIND_ALLOC = 4,             /* value: bytes of allocations that it stands for */
        ABI_KIND_FAULT = 5,             /* value: page faults that it stands for, itself among them */
        ABI_KIND_CRASH = 6,             /* value: the address that the signal tells */
        ABI_KIND_FINE = 7,              /* as CPU; a tick between two of those, for the recorder alone */
        ABI_KIND_BOOST = 8,             /* as CPU; a tick of a boosted process, which has all of them */
        ABI_KIND_FREE = 9,              /* no sample: struct abi_free */
};

/*
 * The value of a tick: 1, or all bytes that its thread of Java has allocated, a multiple of 4 of `value`
 * (hotspot_bytes.bpf.h). The bytes of a virtual thread are those of the thread that carries it.
 */
enum {
        ABI_VALUE_TICK = 1,
        ABI_VALUE_IS_CARRIER = 2,
        ABI_VALUE_BYTES_SHIFT = 2,
};

enum {
        ABI_CRASH_MAX_SIGNAL = 64,
        /*
         * signal_code of SIGKILL, which has none of its own: the kernel was out of memory. `value` is how many
         * pages the process had in memory, 0 = not known
         */
        ABI_CRASH_NO_MEMORY = 1,
        ABI_CRASH_NO_CODE = 127,        /* signal_code of others that the kernel delivers as SIGKILL */
};

/* End of the user part of a stack. */
enum abi_stack_end {
        ABI_STACK_COMPLETE = 0,
        ABI_STACK_NO_USER = 1,          /* no user stack: made by the kernel */
        ABI_STACK_NO_MAPPING = 2,
        ABI_STACK_NO_ROWS = 3,
        ABI_STACK_FAULT = 4,
        ABI_STACK_BAD_CFA = 5,
        ABI_STACK_UNSUPPORTED = 6,      /* a rule that the walk does not know, or 32-bit code */
        ABI_STACK_DEPTH = 7,
        ABI_STACK_FP_END = 8,           /* frame pointers ended; complete only if the last frame is a root */
        ABI_STACK_STALE = 9,
        ABI_STACK_INTERNAL = 10,
        ABI_STACK_PENDING = 11,         /* the rows of the last frame's code were not in force yet */
        ABI_STACK_LONG = 12,            /* walked by the daemon: longer than what was copied of it */
        ABI_STACK_MALFORMED = 13,       /* a word that can be no address was found where one should be */
        ABI_STACK_RUNTIME = 14,         /* in code of a runtime, at a place that it does not describe */
        ABI_STACK_UNPROVED = 15,        /* rbp leads to a frame that may be another function's */
        ABI_STACK_END_N,
};

/*
 * In the word of a native frame, whose address has 47 bits (arm64: 52): its caller was found by a frame
 * pointer that may be another function's.
 */
#define ABI_FRAME_UNPROVED (1ull << 55)

/* Source of a sample's trace context. */
enum abi_form {
        ABI_FORM_NONE = 0,
        ABI_FORM_RING = 1,              /* DD_OTEL_CTX */
        ABI_FORM_THREAD = 2,            /* otel_thread_ctx_v1 */
        ABI_FORM_ELASTIC = 3,           /* elastic_apm_profiling_correlation_tls_v1 */
        ABI_FORM_GO = 4,                /* labels of the goroutine (runtime_abi.h), ids among them */
        ABI_FORM_LABELS = 5,            /* custom_labels_current_set: the same bytes, the id is 0 */
        ABI_FORM_NODE = 6,              /* otel_thread_ctx_nodejs_v1 (node_walk.h), then as THREAD */
        ABI_FORM_OBI = 7,               /* the map of OBI (obi.bpf.h) */
        /*
         * the context of OpenTelemetry's SDK for Python (python_spans.bpf.h). UNPUBLISHED: there may be one,
         * and the daemon has not learned where
         */
        ABI_FORM_PYTHON = 8,
        ABI_FORM_V8 = 9,                /* the same of the SDK for Node.js (v8_spans.bpf.h) */
        ABI_FORM_N,
};

/* Way from the thread pointer to the thread context's variable. */
enum abi_thread_model {
        ABI_THREAD_UNPUBLISHED = 0,
        /* at thread pointer + offset: local exec, initial exec, TLSDESC in static TLS */
        ABI_THREAD_STATIC = 1,
        ABI_THREAD_GLIBC = 2,           /* in a module's block, found by glibc's DTV */
        ABI_THREAD_MUSL = 3,            /* in a module's block, found by musl's DTV */
};

/* Outcome of the read of a thread's trace context. */
enum abi_context {
        ABI_CONTEXT_UNPUBLISHED = 0,    /* the process has no region */
        ABI_CONTEXT_PRESENT = 1,
        ABI_CONTEXT_NONE = 2,           /* the region is there, its ids are all zero */
        ABI_CONTEXT_BUSY = 3,           /* the sample hit the middle of a write */
        ABI_CONTEXT_AMBIGUOUS = 4,      /* another living thread of the process has the same slot */
        ABI_CONTEXT_STALE = 5,          /* the slot is as it was before the thread was born */
        ABI_CONTEXT_UNREADABLE = 6,     /* fault, or the header is no longer right */
        /* a thread record with valid = 0: NONE or BUSY, by what was there before */
        ABI_CONTEXT_INVALID = 7,
        ABI_CONTEXT_N,
};

/*
 * Whether @context says for which span the thread works, or that it works for none. A thread record that is
 * not valid is one without a span, but for the few ns of a write.
 */
static inline bool abi_context_is_told(uint8_t context) {
        return context <= ABI_CONTEXT_NONE || context == ABI_CONTEXT_STALE || context == ABI_CONTEXT_INVALID;
}

/* Whether a process is profiled. No row in the table means `default_state`. */
enum abi_state {
        ABI_STATE_REJECTED = 0,
        ABI_STATE_TARGET = 1,
        ABI_STATE_UNDECIDED = 2,        /* sampled now, decided by the daemon at decode */
};

/* A process without a ring as it was at its last notice. The kernel half's own (select.bpf.h). */
struct abi_watch {
        /* time of the notice, and least time until the next; 0 = there was none */
        uint32_t time_ms, interval_ms;
        uint32_t total_vm, map_count;   /* low bits */
};

/*
 * Value of the process table; the key is the tgid (uint32_t). Written by the
 * daemon, but for `watch` and one flag. A row is replaced as a whole; `generation` is global, never
 * reused, and new each time that a row changes its meaning (discovery, exec).
 */
struct abi_process {
        uint64_t generation;
        /* leader's start, ns or rounded down to a tick; a row of another process is void. 0 = any */
        uint64_t start_time_ns;
        uint64_t ring_address;          /* header of its context ring in the target, 0 = none */
        uint32_t ring_capacity;         /* slots, 1 … 2^24 */
        uint32_t state;                 /* enum abi_state */
        /* offset of the thread context's variable, from the thread pointer or in the module's block */
        int64_t thread_offset;
        uint32_t thread_module;         /* module id; 0 in the STATIC model */
        uint8_t thread_model;           /* enum abi_thread_model */
        uint8_t thread_form;            /* enum abi_form: what the variable points to */
        uint8_t flags;                  /* ABI_PROCESS_* */
        uint8_t reserved;
        struct abi_watch watch;         /* zeros by the daemon; here, so that it needs no look-up */
        struct node_layout node;        /* for ABI_FORM_NODE */
};

enum {
        ABI_PROCESS_ADOPTING = 1 << 0,  /* slots of threads are still being counted: leave the ring alone */
        ABI_PROCESS_PUBLISHES = 1 << 1, /* a process context is known: its mappings need not be watched */
        /* set by the kernel half: it runs another program now, its nodes are the old one's */
        ABI_PROCESS_REPLACED = 1 << 2,
        /* the daemon has not read who it is: its next sample is its first one (start.bpf.h) */
        ABI_PROCESS_UNREAD = 1 << 3,
        ABI_PROCESS_BOOSTED = 1 << 4,   /* each tick is exported, and not one of `ticks_per_sample` */
};

/*
 * Name and user of a process. A name that no selector chooses is a key of the map `rejected_names`. The
 * daemon writes names where pid, name and user decide alone; a tick of a process without a row looks its own
 * up.
 */
struct abi_name {
        char comm[ABI_COMM_SIZE];       /* name of the leader; zeros from the NUL on */
        uint32_t uid;                   /* effective, in the first user namespace; 0 = no selector asks */
        uint32_t reserved;
};

/* How processes without a row are told apart by their names. */
enum abi_names {
        ABI_NAMES_NONE = 0,             /* the map stays empty */
        ABI_NAMES_COMM = 1,
        ABI_NAMES_COMM_USER = 2,
};

/* A thread of a process with a ring, found by the daemon: input of the program `adopt`. */
struct abi_adoption {
        uint64_t tgid, tid;             /* in the daemon's namespace */
        uint64_t slot;                  /* index, or ABI_ADOPTION_* */
};

#define ABI_ADOPTION_GONE 0xffffffffffffffffULL         /* the thread has ended */
/* whose share the process has: `tid` is abi_adoption_share(); before its row is set */
#define ABI_ADOPTION_SHARE 0xfffffffffffffffeULL
#define ABI_ADOPTION_ENDS 0xfffffffffffffffdULL         /* the process has no ring any more */

static inline uint64_t abi_adoption_share(uint64_t group, uint64_t user) {
        return group % ABI_RING_SHARES << 32 | user % ABI_RING_SHARES;
}

/* Ids as numbers, independent of the form that they were published in. */
struct abi_span {
        uint64_t trace_high, trace_low, span;
};

/* Slots for OBI's map (bpf/walk/obi.bpf.h). */
enum abi_obi {
        ABI_OBI_MAP = 0,
        ABI_OBI_LEFT = 1,               /* entries that were there before, in a map of the same form */
        ABI_OBI_N_MAPS,
};

/* Marks of keys that the second map may have: without one it need not be asked. */
enum {
        ABI_OBI_MARKS = 4096,
};

static inline uint32_t abi_obi_mark(uint64_t key) {
        return (uint32_t)(key * 0x9e3779b97f4a7c15ULL >> 52) % ABI_OBI_MARKS;
}

/* Value of both: ids of trace and span as on the wire. The key: ids of process and thread, a uint64_t. */
struct abi_obi_ids {
        uint64_t words[3];
};

/*
 * A sample is this header, for a FAULT a struct abi_fault, for an ALLOC a struct abi_allocation, then
 * `n_kernel` kernel addresses, then `n_user` user words, each uint64_t, leaf first, then the thread context's
 * attributes, filled up to a multiple of 8 bytes, then the object that the running task of Python has as its
 * name, as it lies in memory, or what tells the process of Erlang that runs (BEAM_TASK_*). A record shorter
 * or longer than that is malformed. A user frame is one word, an address, or the words of a runtime
 * (runtime_abi.h). Frame 0 of each part is an exact pc; every other one stands for the instruction in front
 * of it: a return address or, behind a signal handler, the interrupted pc + 1 (`interrupted` says where the
 * first of these is).
 */
struct abi_sample {
        uint64_t time_ns;
        uint64_t value;                 /* unit by kind */
        uint64_t start_time_ns;         /* start of the thread group leader, exact */
        uint64_t generation;            /* generation of the row in force, 0 = sampled without a row */
        uint32_t tgid;
        uint32_t tid;
        uint32_t ns_tid;
        uint32_t cpu;
        uint16_t n_kernel;              /* 0 … ABI_MAX_KERNEL_FRAMES */
        uint16_t n_user;                /* words: 0 … ABI_MAX_USER_WORDS, of ABI_MAX_FRAMES frames */
        uint8_t kind;                   /* enum abi_kind */
        uint8_t stack_end;              /* enum abi_stack_end */
        uint8_t context;                /* enum abi_context */
        /* index of the first word of the first user frame that a signal interrupted; 0 = none, or > 255 */
        uint8_t interrupted;
        char comm[ABI_COMM_SIZE];       /* the thread's name; any bytes, NUL-terminated */
        struct abi_span span;           /* valid if context is PRESENT; else zeros, or what was found */
        uint16_t attributes_size;       /* bytes, 0 … ABI_MAX_ATTRIBUTES_SIZE; also without a span */
        uint8_t form;                   /* enum abi_form: source of the outcome */
        uint8_t is_copied;              /* 1 = a struct abi_stack of this time and CPU was sent before it */
        uint8_t task_size;              /* bytes behind the attributes: 0, BEAM_TASK_SIZE, PYTHON_TASK_SIZE */
        uint8_t has_start;              /* 1 = a struct abi_start of it was sent before it */
        uint8_t signal;                 /* number of the signal of a CRASH, 1 … ABI_CRASH_MAX_SIGNAL */
        int8_t signal_code;             /* low byte of its si_code */
        uint64_t frames[];
};

/* Kinds of memory that a page fault was for (faults.bpf.h). */
enum abi_memory {
        ABI_MEMORY_UNKNOWN = 0,         /* the kernel could not be asked */
        ABI_MEMORY_HEAP = 1,            /* below the program break: brk() */
        ABI_MEMORY_STACK = 2,           /* the first thread's, or the page of the stack pointer */
        ABI_MEMORY_ANONYMOUS = 3,       /* mmap() without a file */
        ABI_MEMORY_FILE = 4,
        ABI_MEMORY_SHARED = 5,          /* memory that processes share, without a file on a disk */
        ABI_MEMORY_OTHER = 6,           /* the kernel's own mappings, and devices */
        ABI_MEMORY_N,
};

enum {
        ABI_FILE_NAME_SIZE = 256,       /* NAME_MAX, and a NUL */
};

/* The part of a sample of kind FAULT between its header and the kernel addresses. */
struct abi_fault {
        uint64_t address;
        uint8_t memory;                 /* enum abi_memory */
        uint8_t is_major;               /* 1 = something was read from a disk for it */
        uint8_t is_huge;                /* 1 = the kernel may have given a huge page, which is not known */
        uint8_t reserved[5];
        /* of the file that was read, without its directory: any bytes, NUL-terminated; "" = none */
        char file[ABI_FILE_NAME_SIZE];
};

/* The same part of a sample of kind ALLOC: what the probe has told (alloc_abi.h). */
struct abi_allocation {
        uint64_t address, size;
        uint64_t has_free;              /* 1 = that it goes is told, too */
};

/* Free of what an ALLOC has told: a record beside the samples, in their order. */
struct abi_free {
        uint64_t kind;                  /* ABI_KIND_FREE */
        uint64_t generation;            /* generation of the row in force, as in a sample */
        uint64_t address;
};

#define ABI_ALLOCATION_WORDS (sizeof(struct abi_allocation) / sizeof(uint64_t))
#define ABI_FAULT_WORDS (sizeof(struct abi_fault) / sizeof(uint64_t))

/* Kind of a record of the stacks' ring. */
enum abi_kept {
        ABI_KEPT_STACK = 1,             /* struct abi_stack */
        ABI_KEPT_START = 2,             /* struct abi_start */
};

/*
 * Registers and top of the user stack of a sample whose walk could not go on for want of rows. Where a frame
 * is larger than what is copied, and a register holds its base, there is a second piece from there on.
 * Records have fixed sizes: bytes of no piece mean nothing. They are for the daemon's own walk and never
 * leave it.
 */
struct abi_stack {
        uint64_t kept;                  /* ABI_KEPT_STACK */
        uint64_t time_ns;               /* as in the sample, like the next two */
        uint32_t tgid;
        uint32_t cpu;
        uint64_t pc, sp, bp, bx;
        uint64_t registers[16];         /* as struct rules has them; those above are not among them */
        uint64_t address;               /* address of bytes[0] in the target, a multiple of ABI_STACK_CHUNK */
        uint32_t n_bytes;               /* copied; a multiple of ABI_STACK_CHUNK, 0 = none could be read */
        uint32_t is_cut;                /* 1 = the stack goes on behind a piece */
        /* the second piece: its address, where it lies in bytes[], and its size, 0 = there is none */
        uint64_t far_address;
        uint32_t far_begin, n_far;
        uint8_t bytes[];
};

/*
 * Facts that only a living process tells, sent with the first sample of one without a row: the process may be
 * gone when that is read (start.bpf.h). Arguments and environment lie one behind the other as exec has left
 * them, each text with its NUL. Records have fixed sizes: bytes behind them mean nothing.
 */
struct abi_start {
        uint64_t kept;                  /* ABI_KEPT_START */
        uint64_t time_ns;               /* as in the sample, like the next */
        uint32_t tgid;
        uint32_t mount_namespace;       /* inode of the namespace */
        /* an ancestor that has all its control groups in common with it; 0 = none has, or is known here */
        uint32_t group_tgid;
        uint32_t reserved;
        uint64_t group_start_ns;        /* start of that one's leader, exact */
        uint32_t n_arguments, n_environment;    /* bytes; both 0 = they are left alone */
        uint8_t bytes[];
};

/* Parts of starts that are sent. */
enum abi_starts {
        ABI_STARTS_NONE = 0,
        ABI_STARTS_GROUPS = 1,          /* no texts */
        ABI_STARTS_TEXTS = 2,
};

/*
 * A name of programs of which nothing new is known to come: first samples of the next ones may wait for the
 * ordinary drain. Key of a map that the daemon writes.
 */
struct abi_settled_name {
        char comm[ABI_COMM_SIZE];       /* name of the leader; zeros from the NUL on */
        uint32_t mount_namespace;
        uint32_t reserved;
};

/* Notices: what changed in a process' life. Their ring is apart from the samples'. */
enum abi_notice_kind {
        ABI_NOTICE_EXEC = 1,            /* tgid runs a new program; value: its effective user */
        ABI_NOTICE_EXIT = 2,            /* the last thread of tgid is gone; value: its CPU time, ns */
        ABI_NOTICE_MAPPINGS = 3,        /* a tick on a non-target whose address space has changed */
        /* tgid was reaped; value: CPU time that its exit did not count yet, ns */
        ABI_NOTICE_SETTLED = 4,
};

struct abi_notice {
        uint64_t time_ns;
        uint64_t start_time_ns;
        uint64_t value;
        uint32_t tgid;
        uint32_t kind;                  /* enum abi_notice_kind */
        char comm[ABI_COMM_SIZE];
};

#ifdef __bpf__
#define ABI_ASSERT(x) _Static_assert(x, #x)
#else
#define ABI_ASSERT(x) static_assert(x, #x)
#endif

/* Ticks of a process that found the samples' ring full, by tgid. */
struct abi_lost_ticks {
        uint64_t n;
        char comm[ABI_COMM_SIZE];       /* name of the first thread that lost one */
};

ABI_ASSERT(sizeof(struct abi_process) == 72);
ABI_ASSERT(sizeof(struct abi_sample) == 104);
ABI_ASSERT(sizeof(struct abi_fault) == 272);
ABI_ASSERT(sizeof(struct abi_allocation) == 24);
ABI_ASSERT(sizeof(struct abi_free) == 24 && sizeof(struct abi_free) < sizeof(struct abi_sample));
ABI_ASSERT(sizeof(struct abi_stack) == 216);
ABI_ASSERT(sizeof(struct abi_start) == 48);
ABI_ASSERT(sizeof(struct abi_settled_name) == 24);
ABI_ASSERT(sizeof(struct abi_notice) == 48);
ABI_ASSERT(sizeof(struct abi_name) == 24);
ABI_ASSERT(sizeof(struct abi_obi_ids) == 24);
