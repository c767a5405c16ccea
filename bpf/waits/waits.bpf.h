/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Threads that Wait
 *
 * What offcpu.bpf.c and waker.bpf.c share: an element for each thread of a target, by the address of its
 * task. The first makes and frees elements. The second writes who wakes the thread, and by which stack.
 */

#include "walk/run-ticks.bpf.h"
#include "walk/tables.bpf.h"

#include "border/offcpu_abi.h"

enum {
        WAIT_FOLLOWED_BITS = 16,
        WAIT_BLOCK_SLOTS = 64,
        WAIT_BLOCKS = 2 * WAIT_MAX_THREADS / WAIT_BLOCK_SLOTS,
        WAIT_NO_SLOT = 0xffff,
};

/* A thread of a target. */
struct wait_thread {
        uint64_t since_ns;              /* start of the time that is not counted yet; 0 = it runs */
        uint64_t woken_ns;              /* 0 = not yet */
        uint64_t begin_ns;              /* begin of the wait */
        uint64_t waking_ns;             /* when `waker` was written */
        struct abi_waker waker;
        uint64_t n_switches;            /* times that it had left a CPU as the wait began, with this one */
        uint64_t listed_ns;             /* when wait_long() told of it last */
        uint64_t late_ns;               /* begin_ns of a wait with a stack from wait_give(), 0 = none */
        uint64_t generation;
        uint64_t start_time_ns;
        struct abi_wait_key key;        /* key of the wait; its waker is zero */
        struct abi_run run;             /* before the wait */
        uint64_t cpu_ns;                /* the thread's CPU time as the wait began */
        uint32_t slot;                  /* WAIT_NO_SLOT: found none */
        uint32_t ns_tid;
        uint16_t has_stack;             /* wait_stacks has the thread's stack */
        uint16_t has_waker_stack;       /* there is one in waker_stacks; the second object sets it */
        uint16_t group, user;           /* numbers of its shares (wait-share.bpf.h) */
        char comm[KERNEL_COMM_SIZE];
};

/* Only elements in use take memory; the loader preallocates below Linux 6.1. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, WAIT_MAX_THREADS);
        __type(key, uint64_t);
        __type(value, struct wait_thread);
} wait_threads SEC(".maps");

/* Stack of the last waker, and what the head of a record says of it; head.time_ns = waking_ns. */
struct waker_stack {
        uint8_t head[sizeof(struct abi_sample)];
        uint64_t words[WAKER_MAX_WORDS];
};

/* By address of the sleeper's task. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, WAIT_MAX_STACKS);
        __type(key, uint64_t);
        __type(value, struct waker_stack);
} waker_stacks SEC(".maps");

/*
 * Threads that wait without a stack are few among many. So each thread has a slot, and a byte there that says
 * that such a wait has begun: wait_long() reads these bytes, not all elements.
 */
struct wait_block {
        union {
                uint8_t is_undrawn[WAIT_BLOCK_SLOTS];
                uint64_t words[WAIT_BLOCK_SLOTS / 8];
        };
        uint64_t tasks[WAIT_BLOCK_SLOTS];       /* owner of each slot; 0 = free */
};

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, WAIT_BLOCKS);
        __type(key, uint32_t);
        __type(value, struct wait_block);
} wait_blocks SEC(".maps");

/* 1 = a thread of this hash has or had an element. Never cleared: a 1 too many costs a look-up. */
struct wait_followed {
        uint8_t of[1 << WAIT_FOLLOWED_BITS];
};

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct wait_followed);
} wait_followed SEC(".maps");

static __always_inline uint32_t wait_hash(uint64_t task) {
        return (uint32_t)((task >> 6) * 0x9e3779b97f4a7c15ull >> (64 - WAIT_FOLLOWED_BITS)) &
                ((1 << WAIT_FOLLOWED_BITS) - 1);
}

/* Return: the byte of a task's hash. */
static __always_inline uint8_t *wait_mark(uint64_t task) {
        struct wait_followed *followed;
        uint32_t zero = 0;

        followed = bpf_map_lookup_elem(&wait_followed, &zero);
        return followed ? &followed->of[wait_hash(task)] : NULL;
}

/* Whether the stack of this very wait is kept: it was drawn, or the daemon has walked it. */
static __always_inline bool wait_has_stack(const struct wait_thread *thread) {
        return thread->has_stack || (thread->late_ns && thread->late_ns == thread->begin_ns);
}

static __always_inline struct wait_thread *wait_find(uint64_t task) {
        const uint8_t *mark = wait_mark(task);

        return mark && *mark ? bpf_map_lookup_elem(&wait_threads, &task) : NULL;
}
