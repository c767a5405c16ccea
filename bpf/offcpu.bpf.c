/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * Waits
 *
 * What threads of targets do while they have no CPU: a program at each switch of the scheduler, and one at
 * each wake-up. An object of its own, loaded and attached only where it is asked for; it takes over the
 * sampler's tables of processes, slots and rows. A thread's way through it:
 *
 *     switch-out     it is a target's: time, span, system call go into its element, and by chance its stack
 *     wake-up        the time goes into its element: blocked until here, runnable from here on
 *     waking         who wakes it goes into its element (waker.bpf.c, which knows by whom)
 *     switch-in      both durations are known: a record if there is a stack, else added to a sum
 *
 * The stack is walked at switch-out: the thread's own memory is still the current one there, and what it
 * holds cannot change before the thread runs again. Every wait is counted; only stacks are drawn by chance.
 *
 * Which waits get a stack. In a period of 2^27 ns (134 ms) each CPU may walk `setting_wait_walks` a second's
 * share, say 134. The n-th switch-out of a period is walked with p = min(1, 134 / max(n, n of the period
 * before)). p is known as the wait begins and knows nothing of its length, so the durations of walked waits
 * divided by p have the right mean. The record carries 1 / p.
 *
 * A ring that is half full thins records by process: one may have an eighth of the room that is left, in a
 * period and on a CPU. So who has few waits keeps their stacks. What is thinned goes into a sum, as what
 * finds the ring full.
 *
 * In a storm of switches the daemon leaves out steps of this way, one after the other (`wait_limit`): draws,
 * marks of waits without a stack, spans and wakers. Times, threads, calls and flags are of every wait.
 *
 * What lasts longer than `setting_wait_long_ns` is a class of its own: its stack comes later, if it was not
 * drawn (wait-long.bpf.h), so the class needs no chance, and its time is never handed to stacks of shorter
 * waits. wait_flush() leaves a shorter wait without a stack whole, since its class is not known yet.
 *
 * One exchange decides who counts a stretch of time: whoever takes `since_ns` away. That is the switch-in,
 * or wait_flush(), which the daemon runs at the end of a window for waits that go on.
 *
 * Some kernels do not tell the switches of every process (sandboxes hide their own). Then a thread that came
 * after such a process leaves its CPU while its last wait still goes on. That wait was over at its wake-up at
 * the earliest: it is counted up to there, and as `unseen`.
 *
 * Strangers cost one look-up: the row of the process that leaves. Whether the thread that comes has an
 * element is first asked of one byte (`wait_followed`), which is 0 for nearly all others.
 *
 * The kernel runs the programs with the run queue locked and interrupts off, so no tick comes in between.
 * wait_flush() is the exception: it may be interrupted, so it shares no working memory with the others.
 */

#define KERNEL_LOADS
#include "border/wait_long_abi.h"
#include "waits/wait-file.bpf.h"
#include "waits/wait-run.bpf.h"
#include "waits/wait-share.bpf.h"
#include "waits/wait-slot.bpf.h"
#include "waits/waits.bpf.h"
#include "walk/entry-walk.bpf.h"
#include "walk/settings.bpf.h"

char LICENSE[] SEC("license") = "GPL";

enum {
        WAIT_PERIOD_SHIFT = 27,
        WAIT_PROCESSES_BITS = 6,
        WAIT_THIN_PART = 8,             /* part of the room that is left, in a period and on a CPU */
};

/* Walks of a second and CPU; 0 = none. */
const volatile uint32_t setting_wait_walks = 1000;

/* Waits from this length on are long, ns; 0 = none is. */
const volatile uint64_t setting_wait_long_ns = 0;

/* Index of the table of sums that is filled; the daemon reads the other one. */
volatile uint32_t wait_epoch = 0;

/* wait_flush() ends the waits, and does not only split them: their end will not be seen. */
volatile uint32_t wait_closes = 0;

/* Limit of now: enum abi_wait_limit. The daemon sets it, and detaches all at WAIT_LIMIT_ALL. */
volatile uint32_t wait_limit = 0;

enum {
        WAIT_STACK_SIZE = sizeof(struct abi_wait) + sizeof(struct abi_sample) +
                WAIT_MAX_WORDS * sizeof(uint64_t) + ABI_MAX_ATTRIBUTES_SIZE,
        WAIT_WAKER_SIZE = WAKER_MAX_WORDS * sizeof(uint64_t),
        WAIT_STACK_ROOM = 1 << 12,      /* a power of two, for a mask */
};

/* A record that lacks its durations, and behind it room for the stack of the waker. */
struct wait_stack {
        struct abi_wait head;
        uint8_t rest[WAIT_STACK_ROOM - sizeof(struct abi_wait) + WAIT_WAKER_SIZE];
};

ABI_ASSERT(WAIT_STACK_SIZE < WAIT_STACK_ROOM);

/* By address of the task. The time of its sample is `begin_ns` of the wait that it belongs to. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, WAIT_MAX_STACKS);
        __type(key, uint64_t);
        __type(value, struct wait_stack);
} wait_stacks SEC(".maps");

/* Waits without a stack. Two tables, so that the daemon takes sums that do not grow any more. */
struct wait_sums {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, WAIT_MAX_SUMS);
        __type(key, struct abi_wait_key);
        __type(value, struct abi_wait_sum);
};

struct wait_sums wait_sums_even SEC(".maps");
struct wait_sums wait_sums_odd SEC(".maps");

/* Records of waits. The daemon drains it and sets its size. */
struct {
        __uint(type, BPF_MAP_TYPE_RINGBUF);
        __uint(max_entries, 1 << 18);
} waits SEC(".maps");

/* Chance of a walk on a CPU. */
struct wait_budget {
        uint64_t period;
        uint32_t n, n_before;           /* switch-outs of this period, and of the one before */
        uint32_t weight;                /* weight of the last draw */
        uint32_t reserved;
        /* bytes of records of each process in a period, by hash */
        struct {
                uint32_t period, n_bytes;
        } processes[1 << WAIT_PROCESSES_BITS];
};

struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct wait_budget);
} wait_budgets SEC(".maps");

/* Working memory of wait_flush(), which never runs twice at a time. */
struct wait_copy {
        struct wait_thread thread;
        struct wait_stack stack;
};

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct wait_copy);
} wait_copy SEC(".maps");

/* ---- the end of a wait ---- */

/* By its whole length so far: a window may have cut it. */
static __always_inline bool wait_is_long(const struct wait_thread *thread, uint64_t now_ns) {
        return setting_wait_long_ns && now_ns >= thread->begin_ns + setting_wait_long_ns;
}

static __always_inline void wait_durations(struct abi_wait *wait, uint64_t since_ns, uint64_t woken_ns,
                                           uint64_t now_ns) {
        uint64_t from_ns = !woken_ns ? now_ns : woken_ns > since_ns ? woken_ns : since_ns;

        if (now_ns < since_ns)          /* a flush on another CPU has read its clock a moment later */
                now_ns = since_ns;
        if (from_ns > now_ns)
                from_ns = now_ns;
        wait->blocked_ns = from_ns - since_ns;
        wait->runnable_ns = now_ns - from_ns;
        wait->end_ns = now_ns;
}

ABI_ASSERT(COUNTER_WAKERS_THREAD == COUNTER_WAKERS_UNKNOWN + WAKER_THREAD);
ABI_ASSERT(COUNTER_WAKERS_PROCESS == COUNTER_WAKERS_UNKNOWN + WAKER_PROCESS);
ABI_ASSERT(COUNTER_WAKERS_KERNEL == COUNTER_WAKERS_UNKNOWN + WAKER_KERNEL);
ABI_ASSERT(COUNTER_WAKERS_INTERRUPT == COUNTER_WAKERS_UNKNOWN + WAKER_INTERRUPT);

/* Sets the waker. A waker that was there before the wait began may have ended another (waker.bpf.c). */
static __always_inline void wait_waker(struct abi_wait *wait, const struct wait_thread *thread) {
        struct counters *counters = counters_get();
        uint32_t kind;

        if (thread->key.flags & WAIT_PREEMPTED)
                return;
        /* A waker behind the wake-up is that of a later sleep, whose begin has not been told yet. */
        if (thread->waking_ns >= thread->begin_ns && thread->waking_ns <= thread->woken_ns)
                wait->waker = thread->waker;
        kind = wait->waker.kind;
        barrier_var(kind);      /* the check is of this very register */
        if (counters && kind < WAKER_N)
                counters->values[COUNTER_WAKERS_UNKNOWN + kind]++;
}

/*
 * The sum of @key, which is made if there is none, in the table of @epoch. Return: NULL = no room, or the
 * thread's share has none.
 */
static __always_inline struct abi_wait_sum *wait_sum(const struct wait_thread *thread, uint32_t epoch,
                                                     const struct abi_wait_key *key,
                                                     const struct abi_wait_sum *first) {
        struct abi_wait_sum *sum;
        void *sums = &wait_sums_even;

        if (epoch & 1)
                sums = &wait_sums_odd;
        sum = bpf_map_lookup_elem(sums, key);
        if (sum || !wait_sum_share_take(thread, epoch))
                return sum;
        bpf_map_update_elem(sums, key, first, BPF_NOEXIST);
        return bpf_map_lookup_elem(sums, key);
}

/* Fills in the begin of a new sum of @thread. */
static __always_inline void wait_sum_first(const struct wait_thread *thread, struct abi_wait_sum *first) {
        first->generation = thread->generation;
        first->start_time_ns = thread->start_time_ns;
        first->ns_tid = thread->ns_tid;
        comm_copy(first->comm, thread->comm);
}

/* @is_folded: the sum has no span, so the run is none's. */
static __always_inline void wait_add_run(struct abi_wait_sum *sum, const struct abi_run *run,
                                         bool is_folded) {
        if (!run->ns)
                return;
        if (is_folded || run->kind != RUN_WHOLE) {
                sum->split_ns += run->ns;
                return;
        }
        sum->whole_ns += run->ns;
        sum->n_moved += run->n_moved;
}

/*
 * A global function, as rows_rule(): verified once. Adds a wait to the sum of its kind, and the run before
 * it. No other thread adds to that sum meanwhile: it is of one thread, and what wait_flush() adds is in
 * others.
 */
__attribute__((noinline)) int wait_add(const struct wait_thread *thread, const struct abi_wait *wait) {
        struct abi_wait_sum *sum, first = {};
        uint32_t epoch = wait_epoch;
        struct abi_wait_key key;
        bool is_folded = false;

        if (!thread || !wait)
                return 0;
        wait_sum_first(thread, &first);
        key = thread->key;
        key.waker = wait->waker;
        if (wait_is_long(thread, wait->end_ns))
                key.flags |= WAIT_LONG;
        sum = wait_sum(thread, epoch, &key, &first);
        if (!sum) {     /* over the cap of spans: at least the thread's time stays whole */
                key.span = (struct abi_span){};
                key.waker = (struct abi_waker){};
                key.context = ABI_CONTEXT_UNPUBLISHED;
                key.form = ABI_FORM_NONE;
                key.call = WAIT_NO_CALL;
                key.file = WAIT_FILE_NONE;
                is_folded = true;
                counters_add(COUNTER_WAITS_FOLDED);
                sum = wait_sum(thread, epoch, &key, &first);
        }
        if (!sum) {
                counters_add(COUNTER_WAITS_LOST);
                return 0;
        }
        sum->blocked_ns += wait->blocked_ns;
        sum->runnable_ns += wait->runnable_ns;
        sum->n++;
        sum->end_ns = wait->end_ns;
        wait_add_run(sum, &wait->run, is_folded);
        return 0;
}

/* The run rides with the first part of the wait behind it. */
static __always_inline void wait_run(struct abi_wait *wait, const struct wait_thread *thread,
                                     uint64_t since_ns) {
        wait->run = (struct abi_run){};
        if (since_ns == thread->begin_ns)
                wait->run = thread->run;
}

/* Whether a record of a process is left out, for those of others. A global function, as wait_add(). */
__attribute__((noinline)) int wait_thins(uint32_t tgid, uint64_t now_ns, uint64_t size) {
        uint64_t used = bpf_ringbuf_query(&waits, BPF_RB_AVAIL_DATA), all;
        uint32_t period = (uint32_t)(now_ns >> WAIT_PERIOD_SHIFT), zero = 0, n_bytes, at;
        struct wait_budget *budget;

        budget = bpf_map_lookup_elem(&wait_budgets, &zero);
        if (!budget)
                return 0;
        at = tgid * 0x9e3779b9u >> (32 - WAIT_PROCESSES_BITS);
        if (budget->processes[at].period != period) {
                budget->processes[at].period = period;
                budget->processes[at].n_bytes = 0;
        }
        n_bytes = budget->processes[at].n_bytes + (uint32_t)size;
        all = bpf_ringbuf_query(&waits, BPF_RB_RING_SIZE);
        if (2 * used > all && used < all && n_bytes > (all - used) / WAIT_THIN_PART)
                return 1;
        budget->processes[at].n_bytes = n_bytes;
        return 0;
}

/* Completes a record and sends it. Return: false = the ring was full, or has no room for this process. */
static __always_inline bool wait_send(struct wait_stack *stack, const struct abi_wait *wait) {
        struct counters *counters = counters_get();
        struct abi_sample *sample = (struct abi_sample *)stack->rest;
        uint64_t size = stack->head.size;

        if (!counters || size > WAIT_STACK_SIZE + WAIT_WAKER_SIZE)
                return false;
        stack->head.blocked_ns = wait->blocked_ns;
        stack->head.runnable_ns = wait->runnable_ns;
        stack->head.end_ns = wait->end_ns;
        stack->head.waker = wait->waker;
        stack->head.run = wait->run;
        if (setting_wait_long_ns && wait->end_ns >= sample->time_ns + setting_wait_long_ns)
                stack->head.flags |= WAIT_LONG;
        sample->value = wait->blocked_ns + wait->runnable_ns;
        if (wait_thins(sample->tgid, wait->end_ns, size)) {
                counters_add(COUNTER_WAITS_THINNED);
                return false;
        }
        if (!bpf_ringbuf_output(&waits, stack, size, wake_for_sample(counters, WAKE_CALL_NONE)))
                return true;
        counters_add(COUNTER_WAITS_RING_FULL);
        return false;
}

/*
 * Puts the stack of the waker behind the record, if it is that of this wait. No other CPU writes it: no other
 * thread can wake the thread before it runs.
 */
static __always_inline void wait_waker_stack(uint64_t task, const struct wait_thread *thread,
                                             const struct abi_wait *wait, struct wait_stack *stack) {
        struct waker_stack *waker = bpf_map_lookup_elem(&waker_stacks, &task);
        const struct abi_sample *head;
        uint64_t size = stack->head.size, n;

        if (!waker || wait->waker.kind != WAKER_THREAD || size > WAIT_STACK_SIZE)
                return;
        head = (const struct abi_sample *)waker->head;
        n = head->n_user;
        if (head->time_ns != thread->waking_ns || n > WAKER_MAX_WORDS)
                return;
        /* A mask, and all words: the verifier of 6.1 loses bounds that were checked before a spill. */
        barrier_var(size);
        if (bpf_probe_read_kernel((char *)stack + (size & (WAIT_STACK_ROOM - 1)), WAIT_WAKER_SIZE,
                                  waker->words))
                return;
        stack->head.waker_ns = head->time_ns;
        stack->head.waker_generation = head->generation;
        stack->head.n_waker = (uint16_t)n;
        stack->head.waker_end = head->stack_end;
        stack->head.waker_interrupted = head->interrupted;
        stack->head.size = size + n * sizeof(uint64_t);
}

/*
 * Keeps a stack of the thread where there is none. Return: 0, -EEXIST, or another error: no room, or the
 * thread's share has none.
 */
static __always_inline long wait_stack_put(uint64_t task, const struct wait_thread *thread,
                                           const struct wait_stack *stack) {
        long r;

        if (!wait_share_take(WAIT_SHARED_STACKS, thread, setting_wait_stacks))
                return -1;
        r = bpf_map_update_elem(&wait_stacks, &task, stack, BPF_NOEXIST);
        if (r)
                wait_share_add(WAIT_SHARED_STACKS, thread, -1);
        return r;
}

static __always_inline void wait_stack_drop(uint64_t task, const struct wait_thread *thread) {
        if (!bpf_map_delete_elem(&wait_stacks, &task))
                wait_share_add(WAIT_SHARED_STACKS, thread, -1);
}

/* Takes the kept stack of this wait away, and sends it. Return: whether there was one, and it was sent. */
static __always_inline bool wait_take_stack(uint64_t task, struct wait_thread *thread,
                                            const struct abi_wait *wait) {
        struct wait_stack *stack = bpf_map_lookup_elem(&wait_stacks, &task);
        bool is_sent = false;

        if (stack && ((struct abi_sample *)stack->rest)->time_ns == thread->begin_ns) {
                if (thread->has_waker_stack)
                        wait_waker_stack(task, thread, wait, stack);
                is_sent = wait_send(stack, wait);
                if (!thread->has_stack)
                        counters_add(COUNTER_WAITS_WALKED_LATE);
        }
        wait_stack_drop(task, thread);
        thread->has_stack = 0;
        thread->late_ns = 0;
        return is_sent;
}

/*
 * A global function, as wait_add(): its part of the stack is not that of the walk. The head of the working
 * memory is free here: the record of a thread that leaves is kept, or not begun.
 */
__attribute__((noinline)) int wait_end(uint64_t task, struct wait_thread *thread, uint64_t now_ns,
                                       struct scratch *scratch) {
        struct abi_wait *wait;
        bool is_sent = false;
        uint64_t since_ns;

        if (!thread || !scratch)
                return 0;
        wait = &scratch->wait;
        since_ns = __sync_lock_test_and_set(&thread->since_ns, 0);
        if (!since_ns)
                return 0;
        wait->waker = (struct abi_waker){};
        wait_run(wait, thread, since_ns);
        wait_durations(wait, since_ns, thread->woken_ns, now_ns);
        wait_waker(wait, thread);
        if (thread->has_stack || thread->late_ns)
                is_sent = wait_take_stack(task, thread, wait);
        if (thread->has_waker_stack) {
                bpf_map_delete_elem(&waker_stacks, &task);
                thread->has_waker_stack = 0;
        }
        if (is_sent)
                return 0;
        wait_add(thread, wait);
        if (wait_is_long(thread, now_ns))
                counters_add(COUNTER_WAITS_LONG_BARE);
        return 0;
}

/* ---- its begin ---- */

/* Draws. A global function, as wait_add(). Return: the weight of the walk, 0 = none. */
__attribute__((noinline)) uint32_t wait_draw(uint64_t now_ns) {
        uint64_t period = now_ns >> WAIT_PERIOD_SHIFT, share, most;
        struct wait_budget *budget;
        uint32_t zero = 0;

        budget = bpf_map_lookup_elem(&wait_budgets, &zero);
        if (!budget || !setting_wait_walks)
                return 0;
        if (wait_limit >= WAIT_LIMIT_WALKS) {
                counters_add(COUNTER_WAITS_UNWALKED);
                return 0;
        }
        if (budget->period != period) {
                budget->n_before = budget->period + 1 == period ? budget->n : 0;
                budget->n = 0;
                budget->period = period;
        }
        budget->n++;
        share = ((uint64_t)setting_wait_walks << WAIT_PERIOD_SHIFT) / 1000000000 + 1;
        most = budget->n > budget->n_before ? budget->n : budget->n_before;
        if (most <= share)
                return WAIT_WEIGHT_ONE;
        if ((uint64_t)bpf_get_prandom_u32() * most >> 32 >= share)
                return 0;
        return (uint32_t)(most * WAIT_WEIGHT_ONE / share);
}

/* Walks, and keeps the record until the wait is over. Return: whether there is one. */
static __always_inline bool wait_keep(struct task_struct *task, uint64_t key,
                                      const struct wait_thread *thread, struct scratch *scratch,
                                      struct counters *counters) {
        const struct wait_stack *stack = (const struct wait_stack *)&scratch->wait;
        uint64_t n, size;

        entry_walk(task, &scratch->process, scratch, 0,
                   setting_depth < WAIT_MAX_FRAMES ? setting_depth : WAIT_MAX_FRAMES);
        n = scratch->unwind.n_frames;
        if (n > WAIT_MAX_WORDS)
                n = WAIT_MAX_WORDS;
        size = sizeof(struct abi_wait) + sizeof(struct abi_sample) + n * sizeof(uint64_t);
        scratch->wait.size = size + attributes_part(scratch, n, counters);
        counters->values[COUNTER_WAITS_WALKED]++;
        wait_stack_drop(key, thread);   /* one that came too late for another wait */
        if (!wait_stack_put(key, thread, stack))
                return true;
        counters->values[COUNTER_WAITS_STACKS_OVER_CAP]++;
        return false;
}

/* Makes an element in the working memory: the stack is too small. A global function, as wait_add(). */
__attribute__((noinline)) int wait_follow(uint64_t task) {
        uint8_t *mark = wait_mark(task);
        struct wait_thread *fresh;
        struct scratch *scratch;
        uint32_t zero = 0;

        scratch = bpf_map_lookup_elem(&scratches, &zero);
        if (!scratch || !mark)
                return 0;
        *mark = 1;
        fresh = (struct wait_thread *)scratch->frames;
        __builtin_memset(fresh, 0, sizeof(*fresh));
        wait_share_find(fresh);
        if (wait_share_take(WAIT_SHARED_THREADS, fresh, setting_wait_threads)) {
                fresh->slot = wait_slot_take(task);
                if (!bpf_map_update_elem(&wait_threads, &task, fresh, BPF_NOEXIST))
                        return 0;
                wait_slot_leave(fresh->slot, task);
                wait_share_add(WAIT_SHARED_THREADS, fresh, -1);
        }
        counters_add(COUNTER_WAITS_THREADS_OVER_CAP);
        return 0;
}

static __always_inline int16_t wait_call(struct task_struct *task) {
        uint64_t call = entered_call(task);

        return call < WAIT_MAX_CALLS ? (int16_t)call : WAIT_NO_CALL;
}

/* Return: the row of the target that the task belongs to, or NULL. */
static __always_inline const struct abi_process *wait_target(struct task_struct *task) {
        uint32_t tgid = task->tgid;
        const struct abi_process *row;

        if (setting_namespace && !identity_in_daemon(BPF_CORE_READ(task, group_leader, thread_pid), &tgid))
                return NULL;
        row = bpf_map_lookup_elem(&processes, &tgid);
        return row && row->state == ABI_STATE_TARGET ? row : NULL;
}

/* A task that is to be woken, and was preempted before it slept, has not left the run queue. */
static __always_inline uint8_t wait_flags(struct task_struct *task, bool is_preempted) {
        uint32_t state = task->__state;
        uint8_t flags = 0;

        if (is_preempted || !state)
                flags = WAIT_PREEMPTED;
        else if (state & KERNEL_TASK_STOPPED)
                flags = WAIT_STOPPED;
        else if (state & KERNEL_TASK_UNINTERRUPTIBLE)
                flags = WAIT_UNINTERRUPTIBLE;
        if (BPF_CORE_READ_BITFIELD(task, in_iowait))
                flags |= WAIT_IO;
        return flags;
}

/* A global function, as wait_add(). Return: whether the thread waits for the lock of an interpreter. */
__attribute__((noinline)) int wait_is_for_lock(const struct abi_sample *sample) {
        const struct python_process *python;

        if (!sample)
                return 0;
        python = python_of(sample);
        return python && python_waits_for_lock(python, entered_argument(bpf_get_current_task_btf()));
}

/* A thread that was preempted, or for which a page is fetched, waits for no lock. */
static __always_inline void wait_lock(struct scratch *scratch) {
        const uint8_t others = WAIT_PREEMPTED | WAIT_STOPPED | WAIT_UNINTERRUPTIBLE;

        if (scratch->wait.call != KERNEL_CALL_FUTEX || scratch->wait.flags & others ||
            !wait_is_for_lock(&scratch->sample))
                return;
        scratch->wait.flags |= WAIT_INTERPRETER_LOCK;
        counters_add(COUNTER_PYTHON_LOCK_WAITS);
}

/* A run that ends here is split by its ticks, as one whose span cannot be read. */
static __always_inline void wait_leave_out(struct scratch *scratch) {
        scratch->sample.span = (struct abi_span){};
        scratch->sample.attributes_size = 0;
        scratch->sample.context = ABI_CONTEXT_UNREADABLE;
        scratch->sample.form = ABI_FORM_NONE;
        scratch->wait.file = WAIT_FILE_NONE;
        counters_add(COUNTER_WAITS_SPANLESS);
}

/*
 * Begins the record of the current thread's wait: all but its stack. A global function, as wait_add(). The
 * thread's identity, its process and the flags are in @scratch.
 */
__attribute__((noinline)) int wait_record(struct scratch *scratch, uint64_t now_ns) {
        struct task_struct *task = bpf_get_current_task_btf();

        if (!scratch)
                return 0;
        record_begin(&scratch->sample, task, &scratch->identity, &scratch->process, identity_innermost(task));
        scratch->sample.time_ns = now_ns;
        scratch->sample.kind = ABI_KIND_OFF_CPU;
        scratch->sample.n_kernel = 0;
        scratch->sample.is_copied = 0;
        scratch->wait.call = wait_call(task);
        if (wait_limit < WAIT_LIMIT_SPANS) {
                context_read(&scratch->process, scratch);
                sdk_span_part(&scratch->sample);
                obi_part(&scratch->process, &scratch->sample);
                scratch->wait.file = wait_file(task, scratch->wait.call, scratch->wait.flags);
        } else {
                wait_leave_out(scratch);
        }
        wait_lock(scratch);
        scratch->wait.waker_ns = scratch->wait.waker_generation = 0;
        scratch->wait.n_waker = scratch->wait.waker_end = scratch->wait.waker_interrupted = 0;
        scratch->wait.waker_reserved = 0;
        scratch->wait.weight = wait_draw(now_ns);
        return 0;
}

/* Tells the thread's element what its record tells. */
static __always_inline void wait_fill(struct wait_thread *thread, const struct scratch *scratch) {
        thread->generation = scratch->sample.generation;
        thread->start_time_ns = scratch->sample.start_time_ns;
        thread->ns_tid = scratch->sample.ns_tid;
        comm_copy(thread->comm, scratch->sample.comm);
        thread->key.span = scratch->sample.span;
        thread->key.tgid = scratch->sample.tgid;
        thread->key.tid = scratch->sample.tid;
        thread->key.call = scratch->wait.call;
        thread->key.flags = scratch->wait.flags;
        thread->key.context = scratch->sample.context;
        thread->key.form = scratch->sample.form;
        thread->key.file = scratch->wait.file;
}

/* The end of the thread's last wait was not told: it was over at its wake-up at the earliest. */
static __always_inline void wait_end_unseen(uint64_t key, struct wait_thread *thread,
                                            struct scratch *scratch) {
        if (!thread->since_ns)
                return;
        counters_add(COUNTER_WAITS_UNSEEN);
        wait_end(key, thread, thread->woken_ns ?: thread->since_ns, scratch);
}

/* Adds ticks that have met @span to the sum of it, without a wait. */
static __always_inline void run_add_ticks(const struct wait_thread *thread, const struct run_tick *tick,
                                          bool is_inside) {
        struct abi_wait_key key = { .span = tick->span, .tgid = thread->key.tgid, .tid = thread->key.tid,
                                    .call = WAIT_NO_CALL, .context = ABI_CONTEXT_NONE };
        struct abi_wait_sum *sum, first = {};

        if (!context_is_zero(&key.span)) {
                key.context = ABI_CONTEXT_PRESENT;
                key.form = thread->key.form;
        }
        wait_sum_first(thread, &first);
        sum = wait_sum(thread, wait_epoch, &key, &first);
        if (!sum)
                counters_add(COUNTER_RUN_TICKS_OVER_CAP);
        else if (is_inside)
                sum->n_inside += (uint32_t)tick->n;
        else
                sum->n_split += (uint32_t)tick->n;
}

/*
 * Tells of the ticks of the run that ends. The element has the wait's span by then. A global function, as
 * wait_add().
 */
__attribute__((noinline)) int run_tell_ticks(struct wait_thread *thread, uint64_t n_switches) {
        struct run_ticks *ticks = run_ticks_of(bpf_get_current_task(), n_switches);
        struct abi_span own = {};

        if (!thread || !ticks)
                return 0;
        if (thread->key.context == ABI_CONTEXT_PRESENT)
                own = thread->key.span;
        for (uint32_t i = 0; i < RUN_TICKS_SPANS && i < ticks->n; i++) {
                const struct run_tick *tick = &ticks->ticks[i];
                bool is_inside = thread->run.kind == RUN_WHOLE && !run_is_same(&tick->span, &own);

                if (is_inside)
                        thread->run.n_moved += (uint32_t)tick->n;
                if (is_inside || thread->run.kind == RUN_SPLIT)
                        run_add_ticks(thread, tick, is_inside);
        }
        ticks->n = 0;
        return 0;
}

/* The last run of a thread: its end has no span, and no wait follows. */
static __always_inline void run_end_last(struct task_struct *task, uint64_t key, struct wait_thread *thread,
                                         struct scratch *scratch) {
        struct abi_wait *wait = &scratch->wait;
        uint64_t n_switches = run_switches(task);

        wait->blocked_ns = wait->runnable_ns = 0;
        wait->end_ns = thread->begin_ns;
        wait->waker = (struct abi_waker){};
        wait->run = (struct abi_run){ .ns = task->se.sum_exec_runtime - thread->cpu_ns, .kind = RUN_SPLIT };
        thread->run = wait->run;
        wait_add(thread, wait);
        if (run_ticks_of(key, n_switches))
                run_tell_ticks(thread, n_switches);
}

/* The wait of a target's thread. @key: the task's address. */
static __always_inline void wait_begin(struct task_struct *task, uint64_t key, const struct abi_process *row,
                                       uint64_t now_ns, bool is_preempted, struct scratch *scratch) {
        struct counters *counters = counters_get();
        struct wait_thread *thread;

        if (!counters || !identity_read(task, &scratch->identity) ||
            !select_copy(row, scratch->identity.start_time_ns, &scratch->process))
                return;
        counters->values[COUNTER_WAITS]++;
        thread = wait_find(key);
        if (!thread) {
                wait_follow(key);
                thread = wait_find(key);
        }
        if (!thread)
                return;
        wait_end_unseen(key, thread, scratch);
        scratch->wait.flags = wait_flags(task, is_preempted);
        wait_record(scratch, now_ns);
        run_end(task, thread, &scratch->sample, counters);
        wait_fill(thread, scratch);
        thread->begin_ns = now_ns;
        if (run_ticks_of(key, thread->n_switches))
                run_tell_ticks(thread, thread->n_switches);
        thread->woken_ns = scratch->wait.flags & WAIT_PREEMPTED ? now_ns : 0;
        thread->has_stack = scratch->wait.weight &&
                wait_keep(task, key, thread, scratch, counters);
        *(volatile uint64_t *)&thread->since_ns = now_ns;
        if (!thread->has_stack && setting_wait_long_ns && wait_limit < WAIT_LIMIT_LONG)
                wait_slot_mark(thread->slot);
}

/* Forgets a wait whose end is seen, or is not seen any more. */
static __always_inline void wait_unfollow(uint64_t key, const struct wait_thread *thread) {
        struct wait_thread shares = { .group = thread->group, .user = thread->user };

        if (thread->has_waker_stack)
                bpf_map_delete_elem(&waker_stacks, &key);
        if (thread->late_ns)
                wait_stack_drop(key, thread);
        wait_slot_leave(thread->slot, key);
        if (!bpf_map_delete_elem(&wait_threads, &key))
                wait_share_add(WAIT_SHARED_THREADS, &shares, -1);
}

/* A thread leaves its CPU. Return: the time, or 0 = it is no target's, or it has ended. */
static __always_inline uint64_t wait_leave(struct task_struct *task, bool is_preempted,
                                           struct scratch *scratch) {
        /* the task's address as a number, which the verifier lets us count with */
        uint64_t key = bpf_get_current_task(), now_ns;
        const struct abi_process *row;
        struct wait_thread *thread;

        if (task->__state & KERNEL_TASK_DEAD) {
                thread = wait_find(key);
                if (!thread)
                        return 0;
                wait_end_unseen(key, thread, scratch);
                run_end_last(task, key, thread, scratch);
                wait_unfollow(key, thread);
                return 0;
        }
        row = wait_target(task);
        if (!row)
                return 0;
        now_ns = bpf_ktime_get_ns();
        wait_begin(task, key, row, now_ns, is_preempted, scratch);
        return now_ns;
}

/* ---- programs ---- */

SEC("raw_tp/sched_switch")
int wait_switch(const struct bpf_raw_tracepoint_args *context) {
        struct task_struct *previous = bpf_get_current_task_btf();
        uint64_t next = context->args[2], now_ns = 0;
        struct wait_thread *thread;
        struct scratch *scratch;
        uint32_t zero = 0;

        scratch = bpf_map_lookup_elem(&scratches, &zero);
        if (!scratch)
                return 0;
        if (previous->pid && !(previous->flags & KERNEL_PF_KTHREAD))
                now_ns = wait_leave(previous, context->args[0] & 1, scratch);
        thread = wait_find(next);
        if (thread)
                wait_end(next, thread, now_ns ?: bpf_ktime_get_ns(), scratch);
        return 0;
}

SEC("raw_tp/sched_wakeup")
int wait_wake(const struct bpf_raw_tracepoint_args *context) {
        struct wait_thread *thread = wait_find(context->args[0]);

        if (thread && !thread->woken_ns)
                thread->woken_ns = bpf_ktime_get_ns();
        return 0;
}

static __always_inline void wait_flush_thread(uint64_t key, struct wait_thread *thread) {
        uint64_t since_ns = thread->since_ns, now_ns = bpf_ktime_get_ns();
        uint64_t to_ns = wait_closes ? 0 : now_ns;
        const struct wait_stack *stack;
        struct abi_wait wait = {};
        struct wait_copy *copy;
        uint32_t zero = 0;

        copy = bpf_map_lookup_elem(&wait_copy, &zero);
        if (!copy || !since_ns || since_ns >= now_ns ||
            bpf_probe_read_kernel(&copy->thread, sizeof(copy->thread), thread))
                return;
        wait_durations(&wait, since_ns, copy->thread.woken_ns, now_ns);
        wait_run(&wait, &copy->thread, since_ns);
        stack = wait_has_stack(&copy->thread) ? bpf_map_lookup_elem(&wait_stacks, &key) : NULL;
        if (stack && (bpf_probe_read_kernel(&copy->stack, sizeof(copy->stack), stack) ||
                      ((struct abi_sample *)copy->stack.rest)->time_ns != copy->thread.begin_ns))
                stack = NULL;
        if (!stack && !wait_closes && setting_wait_long_ns && !wait_is_long(&copy->thread, now_ns))
                return;
        /*
         * Once it is ours, element and stack were those of this wait as they were copied: only who ends a
         * wait changes them. From here on the thread may run, and wait for something else.
         */
        if (__sync_val_compare_and_swap(&thread->since_ns, since_ns, to_ns) != since_ns)
                return;
        copy->thread.key.is_split = 1;
        if (!stack || !wait_send(&copy->stack, &wait))
                wait_add(&copy->thread, &wait);
        if (wait_closes && thread->has_stack)
                wait_stack_drop(key, thread);
}

/* Once it closes, the ends of threads are not seen any more: none stays followed. */
static long wait_flush_one(const void *map, const uint64_t *task, struct wait_thread *thread, void *context) {
        uint64_t key = *task;

        wait_flush_thread(key, thread);
        if (wait_closes)
                wait_unfollow(key, thread);
        return 0;
}

/* The daemon runs it. Counts the time of all waits that go on. */
SEC("raw_tp")
int wait_flush(void *context) {
        bpf_for_each_map_elem(&wait_threads, wait_flush_one, NULL, 0);
        return 0;
}

#include "waits/wait-long.bpf.h"
