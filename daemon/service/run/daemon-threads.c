/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A thread that has no CPU changes nothing: its registers lie in the kernel, its stack and its trace context
 * in its memory, and both can be read at leisure. Whether it had a CPU in between is told by its count of
 * switches, at a second look:
 *
 *     look ─▶ some threads without a CPU: copies of their stacks ─▶ walk by the rules of samples, span
 *     look ─▶ as many switches as before? ─ yes ─▶ it is a wait, as it stands
 *      │                                  └ no ──▶ again in the next round, MAX_ROUNDS times
 *      └────▶ the next threads
 *
 * Rows that are on their way make a round wait for them, for LIMIT_NS in all.
 *
 * Waits that the kernel half has not seen begin (`run`, `record` and `top` with --off-cpu) are counted in the
 * same way: who waits is noted before it counts any, and looked at as a window closes. A thread that has left
 * no CPU in between has waited all the time, and the kernel half knows nothing of its wait.
 */

#include "service/run/daemon-threads.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/stat.h"
#include "sampling/aggregate/wait-reason.h"
#include "sampling/context/thread-record.h"
#include "sampling/process/memory.h"
#include "sampling/runtime/runtimes.h"
#include "sampling/unwind/host-walk.h"
#include "service/run/daemon-stages.h"

enum {
        MAX_EARLY = 256,                /* waits that the kernel half has not seen begin */
        MAX_ROUNDS = 8,                 /* for threads that run in between */
        LEAST_BATCH = 16,               /* threads between two looks … */
        MAX_BATCHES = 64,               /* … and looks of a round: one of many threads takes milliseconds */
        USUAL_BYTES = 16 << 10,         /* of a stack above its pointer */
        MOST_BYTES = 256 << 10,
        POLL_MS = 20,
        OWNER_OFFSET = 8,               /* pthread_mutex_t of glibc: lock, count, owner (an id) */
};

#define LIMIT_NS NS_PER_SEC

/* What was read of one thread between two looks. */
typedef struct Found {
        const struct abi_thread *thread;        /* NULL = nothing */
        ThreadLook context;
        uint8_t outcome, form;          /* enum abi_context, enum abi_form */
        int32_t owner;                  /* word behind the futex that it waits for; 0 = none */
        uint8_t interrupted;            /* as in struct abi_sample, like the next three */
        enum abi_stack_end end;
        uint32_t n;
        uint64_t *words;                /* owned */
} Found;

typedef struct Work {
        Daemon *daemon;
        HostWalk *walk;
        ThreadsLook look;
        Found *found;                   /* room for a batch */
        size_t n_found, batch;
        uint64_t end_ns;                /* MONOTONIC: rows are waited for until then */
        DaemonThreads *result;
        struct abi_stack *stack;        /* room for MOST_BYTES */
        ThreadMemory memory;            /* of the process `tgid`, 0 = none */
        ThreadContext context;
        ThreadsRuntimes runtimes;       /* of that process, … */
        HostWalkLive live;              /* … and what is walked of them */
        uint32_t tgid;
        uint64_t generation;
        const DaemonEarlyWaits *early;  /* NULL = all waits, from when they began; else these alone, … */
        uint64_t from_ns, until_ns;     /* … and so much of each */
        bool is_pending;                /* a walk has met rows that are on their way */
} Work;

static bool has_registers(const struct abi_thread *thread) {
        return thread->flags & THREAD_HAS_USER && !(thread->flags & THREAD_ON_CPU);
}

/* ---- the stack ---- */

/* Page by page, up to the first that is not there. */
static void copy_stack(Work *work, const struct abi_thread *thread, uint32_t most) {
        struct abi_stack *stack = work->stack;
        uint64_t address = thread->sp & ~(uint64_t)(ABI_STACK_CHUNK - 1);

        *stack = (struct abi_stack){ .time_ns = thread->time_ns,
                                     .tgid = thread->tgid,
                                     .pc = thread->pc,
                                     .sp = thread->sp,
                                     .bp = thread->bp,
                                     .bx = thread->bx,
                                     .address = address,
                                     .is_cut = 1 };
        memcpy(stack->registers, thread->registers, sizeof(stack->registers));
        for (; stack->n_bytes < most; stack->n_bytes += ABI_STACK_CHUNK)
                if (memory_read_opened((pid_t)thread->tgid, work->memory.memory, address + stack->n_bytes,
                                       stack->bytes + stack->n_bytes, ABI_STACK_CHUNK)) {
                        stack->is_cut = 0;
                        return;
                }
}

static int walk_stack(Work *work, const Program *program, Found *found) {
        bool has_runtime = runtimes_has(work->daemon->stages.runtimes, program->process->generation);
        HostWalkResult result;

        for (uint32_t most = USUAL_BYTES;; most = MOST_BYTES) {
                copy_stack(work, found->thread, most);
                host_walk_thread(work->walk, program->process, has_runtime, work->stack,
                                 found->thread->pointer, &result);
                if (result.end != ABI_STACK_LONG || most == MOST_BYTES)
                        break;
        }
        found->end = result.end;
        found->n = result.n;
        found->interrupted = result.interrupted;
        found->words = malloc(MAX(result.n, 1u) * sizeof(*found->words));
        if (!found->words)
                return error_origin(-ENOMEM);
        memcpy(found->words, result.frames, result.n * sizeof(*found->words));
        return 0;
}

/* ---- the trace context ---- */

static bool is_same(const struct abi_span *a, const struct abi_span *b) {
        return a->trace_high == b->trace_high && a->trace_low == b->trace_low && a->span == b->span;
}

/* As bpf/context.bpf.h and bpf/slots.bpf.h judge. */
static void read_slot(const Work *work, const struct abi_thread *thread, Found *found) {
        uint32_t slot_index = thread->ns_tid % thread->ring_capacity;
        uint64_t address = thread->ring_address + sizeof(struct spanprof_ring_header) +
                (uint64_t)slot_index * SPANPROF_RING_SLOT_SIZE;
        struct spanprof_ring_header header;
        struct spanprof_ring_slot slot;
        struct abi_span span;

        found->form = ABI_FORM_RING;
        found->outcome = ABI_CONTEXT_UNREADABLE;
        if (memory_read_opened((pid_t)thread->tgid, work->memory.memory, thread->ring_address, &header,
                               sizeof(header)) ||
            header.magic != SPANPROF_RING_MAGIC || header.version != SPANPROF_RING_VERSION ||
            header.capacity != thread->ring_capacity || header.slot_size != SPANPROF_RING_SLOT_SIZE ||
            memory_read_opened((pid_t)thread->tgid, work->memory.memory, address, &slot, sizeof(slot)))
                return;
        span = (struct abi_span){ slot.trace_id_high, slot.trace_id_low, slot.span_id };
        found->outcome = slot.in_use                                              ? ABI_CONTEXT_BUSY
                : !(span.trace_high | span.trace_low | span.span)                 ? ABI_CONTEXT_NONE
                : thread->flags & THREAD_SLOT_SHARED                              ? ABI_CONTEXT_AMBIGUOUS
                : thread->flags & THREAD_SLOT_LEFT                                ? ABI_CONTEXT_STALE
                : thread->flags & THREAD_SLOT_UNWRITTEN && is_same(&thread->born, &span)
                ? ABI_CONTEXT_STALE
                : ABI_CONTEXT_PRESENT;
        found->context.span = span;
}

static void read_record(const Work *work, const struct abi_thread *thread, Found *found) {
        static const uint8_t outcomes[] = { [THREAD_LOOK_PRESENT] = ABI_CONTEXT_PRESENT,
                                            [THREAD_LOOK_NONE] = ABI_CONTEXT_NONE,
                                            [THREAD_LOOK_INVALID] = ABI_CONTEXT_INVALID,
                                            [THREAD_LOOK_UNREADABLE] = ABI_CONTEXT_UNREADABLE };

        thread_record_read(&work->memory, thread->pointer, &found->context);
        found->form = thread->thread_form;
        found->outcome = outcomes[found->context.outcome];
        if (found->form == ABI_FORM_LABELS)     /* those of its labels that are no ids have another form */
                found->context.attributes_size = 0;
}

/* A worker of the kernel has the thread pointer of the thread that it was made by. */
static void read_context(const Work *work, Found *found) {
        const struct abi_thread *thread = found->thread;

        if (thread->thread_model != ABI_THREAD_UNPUBLISHED && !(thread->flags & THREAD_IS_WORKER))
                read_record(work, thread, found);
        if (thread->ring_address && thread->ring_capacity && found->outcome != ABI_CONTEXT_PRESENT)
                read_slot(work, thread, found);
}

/* ---- the holder of a mutex ---- */

static void read_owner(const Work *work, Found *found) {
        const struct abi_thread *thread = found->thread;

        uint64_t address = thread->argument + OWNER_OFFSET;

        if (thread->call != SYS_futex ||
            memory_read_opened((pid_t)thread->tgid, work->memory.memory, address, &found->owner,
                               sizeof(found->owner)))
                found->owner = 0;
}

static uint32_t find_holder(const Work *work, const struct abi_thread *thread, int32_t owner) {
        for (size_t i = 0; owner > 0 && i < work->look.n; i++) {
                const struct abi_thread *at = &work->look.threads[i];

                if (at->tgid == thread->tgid && at->ns_tid == (uint32_t)owner)
                        return at->tid;
        }
        return 0;
}

/* ---- a round ---- */

static void leave_process(Work *work) {
        if (work->tgid)
                thread_memory_close(&work->memory);
        host_walk_enter(work->walk, NULL);
        work->tgid = 0;
}

static int read_for_walk(void *userdata, uint64_t address, void *to, uint32_t size) {
        const Work *work = userdata;

        return memory_read_opened((pid_t)work->tgid, work->memory.memory, address, to, size);
}

/* Where workers read memory of JVMs, this process leaves it alone: stacks end at Java. */
static void enter_runtimes(Work *work) {
        sampler_runtimes_of(work->daemon->stages.sampler, work->tgid, work->generation, &work->runtimes);
        work->live = (HostWalkLive){ .read = read_for_walk, .userdata = work };
        if (work->runtimes.has_hotspot && !work->daemon->stages.jvms)
                work->live.hotspot = &work->runtimes.hotspot;
        if (work->runtimes.has_python)
                work->live.python = &work->runtimes.python;
        host_walk_enter(work->walk, &work->live);
}

/* Threads come process by process, in several batches. */
static void enter_process(Work *work, const Process *process, const struct abi_thread *thread) {
        if (work->tgid == thread->tgid && work->generation == thread->generation)
                return;
        leave_process(work);
        work->context = (ThreadContext){ .form = thread->thread_form,
                                         .model = thread->thread_model,
                                         .module = thread->thread_module,
                                         .offset = thread->thread_offset };
        thread_memory_open(&work->memory, (pid_t)thread->tgid, process->start_time_ns, &work->context);
        work->tgid = thread->tgid;
        work->generation = thread->generation;
        if (work->memory.memory >= 0)
                enter_runtimes(work);
        else
                work->result->lacks_rights |= errno == EACCES || errno == EPERM;
}

static void forget_batch(Work *work) {
        for (size_t i = 0; i < work->n_found; i++)
                free(work->found[i].words);
        work->n_found = 0;
}

static DaemonThread *find_result(const Work *work, const struct abi_thread *thread) {
        DaemonThreads *result = work->result;
        size_t low = 0, high = result->n;

        while (low < high) {
                size_t middle = (low + high) / 2;
                DaemonThread *at = &result->threads[middle];

                if (at->tgid == thread->tgid && at->tid == thread->tid)
                        return at;
                if (at->tgid < thread->tgid || (at->tgid == thread->tgid && at->tid < thread->tid))
                        low = middle + 1;
                else
                        high = middle;
        }
        return NULL;
}

/* Whether it is still in the wait that was noted. */
static bool is_early(const DaemonEarlyWaits *early, const struct abi_thread *thread) {
        for (size_t low = 0, high = early->n; low < high;) {
                size_t middle = (low + high) / 2;
                const EarlyWait *at = &early->waits[middle];

                if (at->tgid == thread->tgid && at->tid == thread->tid)
                        return at->n_switches == thread->n_switches;
                if (at->tgid < thread->tgid || (at->tgid == thread->tgid && at->tid < thread->tid))
                        low = middle + 1;
                else
                        high = middle;
        }
        return false;
}

static bool is_wanted(const Work *work, const struct abi_thread *thread) {
        const DaemonThread *known = find_result(work, thread);

        return has_registers(thread) && known && !known->was_added &&
                (!work->early || is_early(work->early, thread));
}

static int read_thread(Work *work, const struct abi_thread *thread) {
        Found *found = &work->found[work->n_found];
        Program program;
        int r = targets_program(work->daemon->stages.targets, thread->tgid, thread->generation, &program);

        if (r)
                return MIN(r, 0);
        enter_process(work, program.process, thread);
        if (work->memory.memory < 0)            /* another process has the id by now, or it may not be read */
                return 0;
        *found = (Found){ .thread = thread };
        work->n_found++;
        read_context(work, found);
        read_owner(work, found);
        return walk_stack(work, &program, found);
}

/* @from: index in the look. Return: that behind the batch, or -errno. */
static ssize_t read_batch(Work *work, size_t from) {
        size_t at = from;
        int r = 0;

        for (; at < work->look.n && work->n_found < work->batch && !r; at++)
                if (is_wanted(work, &work->look.threads[at]))
                        r = read_thread(work, &work->look.threads[at]);
        return r ? r : (ssize_t)at;
}

/* ---- what is sure ---- */

/* The first thread of the look behind that one. */
static size_t behind(const ThreadsLook *look, const struct abi_thread *thread) {
        size_t low = 0, high = look->n;

        while (low < high) {
                size_t middle = (low + high) / 2;
                const struct abi_thread *at = &look->threads[middle];

                if (at->tgid < thread->tgid || (at->tgid == thread->tgid && at->tid <= thread->tid))
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static const struct abi_thread *find_again(const ThreadsLook *again, const struct abi_thread *thread) {
        size_t next = behind(again, thread);
        const struct abi_thread *at = next ? &again->threads[next - 1] : NULL;

        return at && at->tgid == thread->tgid && at->tid == thread->tid ? at : NULL;
}

static bool has_stood(const struct abi_thread *before, const struct abi_thread *after) {
        return after && has_registers(after) && after->n_switches == before->n_switches &&
                after->generation == before->generation && after->start_time_ns == before->start_time_ns;
}

/* By the scheduler's clock. At least 1: a wait of nothing is none. */
static uint64_t waited_ns(const Work *work, const struct abi_thread *thread) {
        uint64_t now_ns = work->look.scheduler_ns;

        if (work->early)
                return MAX(work->until_ns - MIN(work->until_ns, work->from_ns), UINT64_C(1));
        return now_ns && thread->arrival_ns && now_ns > thread->arrival_ns ? now_ns - thread->arrival_ns : 1;
}

static int add_wait(Work *work, const Found *found) {
        const struct abi_thread *thread = found->thread;
        struct abi_sample header = { .time_ns = thread->time_ns,
                                     .start_time_ns = thread->start_time_ns,
                                     .generation = thread->generation,
                                     .tgid = thread->tgid,
                                     .tid = thread->tid,
                                     .ns_tid = thread->ns_tid,
                                     .n_user = (uint16_t)found->n,
                                     .kind = ABI_KIND_OFF_CPU,
                                     .stack_end = (uint8_t)found->end,
                                     .context = found->outcome,
                                     .interrupted = found->interrupted,
                                     .span = found->context.span,
                                     .attributes_size = found->context.attributes_size,
                                     .form = found->form };
        Sample sample = { .header = &header, .user = found->words, .attributes = found->context.attributes };
        uint64_t value_ns = waited_ns(work, thread);
        bool is_runnable = thread->flags & THREAD_RUNNABLE;
        const struct abi_waker unknown = { .kind = WAKER_UNKNOWN };
        const WaitTimes times = { .blocked_ns = is_runnable ? 0 : value_ns,
                                  .runnable_ns = is_runnable ? value_ns : 0,
                                  .end_ns = thread->time_ns,
                                  .weight = WAIT_WEIGHT_ONE,
                                  .waker = &unknown };
        Program program;
        int r;

        memcpy(header.comm, thread->comm, sizeof(header.comm));
        header.comm[sizeof(header.comm) - 1] = 0;
        r = targets_program(work->daemon->stages.targets, thread->tgid, thread->generation, &program);
        if (!r)
                r = aggregator_add_wait(work->daemon->stages.aggregator, &program, &sample,
                                        wait_reason(thread->call, thread->wait_flags), &times);
        if (!r) {
                DaemonThread *known = find_result(work, thread);

                known->was_added = true;
                known->holder = find_holder(work, thread, found->owner);
        }
        return MIN(r, 0);
}

/* Rows that have not come by the end do not count any more. */
static int keep_sure(Work *work, const ThreadsLook *again) {
        bool is_late = clock_monotonic_ns() >= work->end_ns;
        int r = 0;

        for (size_t i = 0; i < work->n_found && !r; i++) {
                const Found *found = &work->found[i];

                if (found->end == ABI_STACK_PENDING && !is_late)
                        work->is_pending = true;
                else if (has_stood(found->thread, find_again(again, found->thread)))
                        r = add_wait(work, found);
        }
        return r;
}

/* ---- all of it ---- */

static int begin_result(Work *work) {
        DaemonThreads *result = work->result;

        *result = (DaemonThreads){ .threads = calloc(work->look.n + 1, sizeof(*result->threads)),
                                   .n = work->look.n,
                                   .n_over_cap = work->look.n_over_cap,
                                   .knows_times = work->look.scheduler_ns };
        if (!result->threads)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < work->look.n; i++) {
                const struct abi_thread *thread = &work->look.threads[i];
                DaemonThread *to = &result->threads[i];

                to->tgid = thread->tgid;
                to->tid = thread->tid;
                memcpy(to->comm, thread->comm, sizeof(to->comm));
                to->comm[sizeof(to->comm) - 1] = 0;
        }
        return 0;
}

static bool is_complete(const Work *work) {
        for (size_t i = 0; i < work->look.n; i++)
                if (is_wanted(work, &work->look.threads[i]))
                        return false;
        return true;
}

static int wait_for_rows(const Work *work) {
        Tables *tables = work->daemon->stages.tables;
        struct pollfd fd = { .fd = tables_fd(tables), .events = POLLIN };

        if (!work->is_pending)
                return 0;
        poll(&fd, 1, POLL_MS);
        return daemon_step_tables(work->daemon);
}

static int look(Work *work, ThreadsLook *to) {
        int r = sampler_look_at_threads(work->daemon->stages.sampler, to);

        return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
}

/* One batch, and the look behind it in place of the one before. *atp: index of the next batch. */
static int take_batch(Work *work, size_t *atp) {
        ssize_t next = read_batch(work, *atp);
        ThreadsLook again = { 0 };
        int r = next < 0 ? (int)next : look(work, &again);

        if (!r)
                r = keep_sure(work, &again);
        if (!r)
                *atp = next > 0 ? behind(&again, &work->look.threads[next - 1]) : 0;
        forget_batch(work);
        free(work->look.threads);
        work->look = again;
        return r;
}

static int take_round(Work *work) {
        int r = 0;

        work->is_pending = false;
        for (size_t at = 0; at < work->look.n && !r;)
                r = take_batch(work, &at);
        return r ? r : wait_for_rows(work);
}

static int rounds(Work *work) {
        unsigned n = 0;
        int r = 0;

        work->end_ns = clock_monotonic_ns() + (work->early ? 0 : LIMIT_NS);
        work->batch = MAX((size_t)LEAST_BATCH, work->look.n / MAX_BATCHES + 1);
        work->found = calloc(work->batch, sizeof(*work->found));
        if (!work->found)
                return error_origin(-ENOMEM);
        while (!r && n < (work->early ? 1 : MAX_ROUNDS) && !is_complete(work)) {
                r = take_round(work);
                n += !work->is_pending || clock_monotonic_ns() >= work->end_ns;
        }
        return r;
}

static int look_at_all(Work *work) {
        int r;

        *work->result = (DaemonThreads){ 0 };
        work->stack = malloc(sizeof(*work->stack) + MOST_BYTES);
        r = work->stack ? host_walk_new(&work->walk, work->daemon->stages.tables,
                                        (uint32_t)work->daemon->config->depth)
                        : error_origin(-ENOMEM);
        if (!r)
                r = look(work, &work->look);
        if (!r)
                r = begin_result(work);
        if (!r)
                r = rounds(work);
        if (work->walk)
                leave_process(work);
        free(work->found);
        free(work->look.threads);
        host_walk_free(work->walk);
        if (work->stack)
                explicit_bzero(work->stack, sizeof(*work->stack) + MOST_BYTES);
        free(work->stack);
        return r;
}

int daemon_look_at_threads(Daemon *daemon, DaemonThreads *threads) {
        Work work = { .daemon = daemon, .result = threads };

        return look_at_all(&work);
}

/* ---- waits that began too early ---- */

static int note(DaemonEarlyWaits *early, const ThreadsLook *found) {
        early->waits = calloc(MAX_EARLY, sizeof(*early->waits));
        if (!early->waits)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < found->n; i++) {
                const struct abi_thread *thread = &found->threads[i];

                if (!has_registers(thread) || thread->flags & THREAD_RUNNABLE)
                        continue;
                if (early->n < MAX_EARLY)
                        early->waits[early->n++] =
                                (EarlyWait){ thread->tgid, thread->tid, thread->n_switches };
                else
                        stat_add(COUNTER_WAITS_EARLY_OVER_CAP, 1);
        }
        return 0;
}

int daemon_note_early_waits(Daemon *daemon) {
        ThreadsLook found;
        int r = sampler_look_at_threads(daemon->stages.sampler, &found);

        if (r)
                return MIN(r, 0);       /* refused, which was logged: they are not counted */
        daemon->early = (DaemonEarlyWaits){ .counted_ns = clock_monotonic_ns() };
        r = note(&daemon->early, &found);
        free(found.threads);
        return r;
}

void daemon_drop_early_waits(Daemon *daemon) {
        free(daemon->early.waits);
        daemon->early = (DaemonEarlyWaits){ 0 };
}

/* Those that have ended are the kernel half's again. */
static void keep_early(Work *work, DaemonEarlyWaits *early) {
        size_t n = 0;

        for (size_t i = 0; i < early->n; i++) {
                const struct abi_thread key = { .tgid = early->waits[i].tgid, .tid = early->waits[i].tid };
                const DaemonThread *counted = find_result(work, &key);

                if (counted && counted->was_added)
                        early->waits[n++] = early->waits[i];
        }
        early->n = n;
}

int daemon_count_early_waits(Daemon *daemon) {
        DaemonEarlyWaits *early = &daemon->early;
        DaemonThreads counted = { 0 };
        Work work = { .daemon = daemon,
                      .result = &counted,
                      .early = early,
                      .from_ns = MAX(early->counted_ns, daemon->sampling_ns),
                      .until_ns = clock_monotonic_ns() };
        int r;

        if (!early->n)
                return 0;
        r = look_at_all(&work);
        keep_early(&work, early);
        early->counted_ns = work.until_ns;
        free(counted.threads);
        if (r || !early->n)
                daemon_drop_early_waits(daemon);
        return MIN(r, 0);
}
