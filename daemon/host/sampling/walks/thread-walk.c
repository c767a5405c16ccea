/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Threads come process by process. Memory and runtimes of a process are opened with its first thread, and
 * closed with the first one of another process. The stack is copied from its pointer up, page by page, and
 * walked by the rules of samples; a copy that was too short is made again, larger.
 */

#include "host/sampling/walks/thread-walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "core/base/util/error.h"
#include "host/sampling/process/memory.h"
#include "host/sampling/runtime/runtimes.h"
#include "host/sampling/unwind/walk/host-walk.h"

enum {
        PAGE_BYTES = 4096,              /* no page is smaller */
        USUAL_BYTES = 16 << 10,         /* bytes of a stack above its pointer, as a rule */
        MOST_BYTES = 256 << 10,
        OWNER_OFFSET = 8,               /* pthread_mutex_t of glibc: lock, count, owner (an id) */
};

struct ThreadWalker {
        const WalkStages *stages;
        HostWalk *walk;
        struct abi_stack *stack;        /* room for MOST_BYTES */
        ThreadMemory memory;            /* memory of the process `tgid`, 0 = none */
        ThreadContext context;
        ThreadsRuntimes runtimes;       /* runtimes of that process, … */
        HostWalkLive live;              /* … and what is walked of them */
        uint32_t tgid;
        uint64_t generation;
        bool lacks_rights;              /* memory of some may not be read */
};

/* ---- the stack ---- */

static uint64_t lowest_of(ThreadWalker *walker, const struct abi_thread *thread) {
        uint64_t low = host_walk_lowest(thread->sp), word;

        return low < thread->sp && memory_read_opened((pid_t)thread->tgid, walker->memory.memory, low, &word,
                                                      sizeof(word))
                ? thread->sp
                : low;
}

/* Page by page, up to the first that is not there. */
static void copy_stack(ThreadWalker *walker, const struct abi_thread *thread, uint32_t most) {
        struct abi_stack *stack = walker->stack;
        uint64_t address = lowest_of(walker, thread) & ~(uint64_t)(ABI_STACK_CHUNK - 1);

        *stack = (struct abi_stack){ .time_ns = thread->time_ns,
                                     .tgid = thread->tgid,
                                     .pc = thread->pc,
                                     .sp = thread->sp,
                                     .bp = thread->bp,
                                     .bx = thread->bx,
                                     .address = address,
                                     .is_cut = 1 };
        memcpy(stack->registers, thread->registers, sizeof(stack->registers));
        for (uint32_t size; stack->n_bytes < most; stack->n_bytes += size) {
                size = MIN(PAGE_BYTES - (uint32_t)(address + stack->n_bytes) % PAGE_BYTES,
                           most - stack->n_bytes);
                if (memory_read_opened((pid_t)thread->tgid, walker->memory.memory, address + stack->n_bytes,
                                       stack->bytes + stack->n_bytes, size)) {
                        stack->is_cut = 0;
                        return;
                }
        }
}

static int walk_stack(ThreadWalker *walker, const Program *program, WalkedThread *found) {
        bool has_runtime = runtimes_has(walker->stages->runtimes, program->process->generation);
        HostWalkResult result;

        walker->live.is_first = found->thread->tid == found->thread->tgid;
        for (uint32_t most = USUAL_BYTES;; most = MOST_BYTES) {
                copy_stack(walker, found->thread, most);
                host_walk_thread(walker->walk, program->process, has_runtime, walker->stack,
                                 found->thread, &result);
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

/* As bpf/walk/context.bpf.h and bpf/walk/slots.bpf.h judge. */
static void read_slot(const ThreadWalker *walker, const struct abi_thread *thread, WalkedThread *found) {
        uint32_t slot_index = thread->ns_tid % thread->ring_capacity;
        uint64_t address = thread->ring_address + sizeof(struct spanprof_ring_header) +
                (uint64_t)slot_index * SPANPROF_RING_SLOT_SIZE;
        struct spanprof_ring_header header;
        struct spanprof_ring_slot slot;
        struct abi_span span;

        found->form = ABI_FORM_RING;
        found->outcome = ABI_CONTEXT_UNREADABLE;
        if (memory_read_opened((pid_t)thread->tgid, walker->memory.memory, thread->ring_address, &header,
                               sizeof(header)) ||
            header.magic != SPANPROF_RING_MAGIC || header.version != SPANPROF_RING_VERSION ||
            header.capacity != thread->ring_capacity || header.slot_size != SPANPROF_RING_SLOT_SIZE ||
            memory_read_opened((pid_t)thread->tgid, walker->memory.memory, address, &slot, sizeof(slot)))
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

static void read_record(const ThreadWalker *walker, const struct abi_thread *thread, WalkedThread *found) {
        static const uint8_t outcomes[] = { [THREAD_LOOK_PRESENT] = ABI_CONTEXT_PRESENT,
                                            [THREAD_LOOK_NONE] = ABI_CONTEXT_NONE,
                                            [THREAD_LOOK_INVALID] = ABI_CONTEXT_INVALID,
                                            [THREAD_LOOK_UNREADABLE] = ABI_CONTEXT_UNREADABLE };

        thread_record_read(&walker->memory, thread->pointer, &found->context);
        found->form = thread->thread_form;
        found->outcome = outcomes[found->context.outcome];
        if (found->form == ABI_FORM_LABELS)     /* labels that are no ids have another form */
                found->context.attributes_size = 0;
}

/* A worker of the kernel has the thread pointer of the thread that it was made by. */
static void read_context(const ThreadWalker *walker, WalkedThread *found) {
        const struct abi_thread *thread = found->thread;

        if (thread->thread_model != ABI_THREAD_UNPUBLISHED && !(thread->flags & THREAD_IS_WORKER))
                read_record(walker, thread, found);
        if (thread->ring_address && thread->ring_capacity && found->outcome != ABI_CONTEXT_PRESENT)
                read_slot(walker, thread, found);
}

/* ---- the owner of a mutex ---- */

static void read_owner(const ThreadWalker *walker, WalkedThread *found) {
        const struct abi_thread *thread = found->thread;

        uint64_t address = thread->argument + OWNER_OFFSET;

        if (thread->call != SYS_futex ||
            memory_read_opened((pid_t)thread->tgid, walker->memory.memory, address, &found->owner,
                               sizeof(found->owner)))
                found->owner = 0;
}

static void read_lock(const ThreadWalker *walker, WalkedThread *found) {
        const uint8_t others = WAIT_PREEMPTED | WAIT_STOPPED | WAIT_UNINTERRUPTIBLE;

        found->waits_for_lock = found->thread->call == SYS_futex && !(found->thread->wait_flags & others) &&
                host_walk_waits_for_lock(walker->walk, found->thread->argument);
}

/* ---- a process, a thread ---- */

void walked_thread_head(const WalkedThread *found, struct abi_sample *head) {
        const struct abi_thread *thread = found->thread;

        *head = (struct abi_sample){ .time_ns = thread->time_ns,
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
        memcpy(head->comm, thread->comm, sizeof(head->comm));
        head->comm[sizeof(head->comm) - 1] = 0;
}

void thread_walker_leave(ThreadWalker *walker) {
        if (walker->tgid)
                thread_memory_close(&walker->memory);
        host_walk_enter(walker->walk, NULL);
        walker->tgid = 0;
}

static int read_for_walk(void *userdata, uint64_t address, void *to, uint32_t size) {
        const ThreadWalker *walker = userdata;

        return memory_read_opened((pid_t)walker->tgid, walker->memory.memory, address, to, size);
}

/*
 * The walk reads single words of a runtime, by the bounded rules of the kernel half. So this process does it
 * also where memory of JVMs is for workers, who read names.
 */
static void enter_runtimes(ThreadWalker *walker) {
        sampler_runtimes_of(walker->stages->sampler, walker->tgid, walker->generation,
                            &walker->runtimes);
        walker->live = (HostWalkLive){ .read = read_for_walk, .userdata = walker };
        if (walker->runtimes.has_hotspot)
                walker->live.hotspot = &walker->runtimes.hotspot;
        if (walker->runtimes.has_python)
                walker->live.python = &walker->runtimes.python;
        if (walker->runtimes.has_v8)
                walker->live.v8 = &walker->runtimes.v8;
        if (walker->runtimes.has_php)
                walker->live.php = &walker->runtimes.php;
        if (walker->runtimes.has_ruby)
                walker->live.ruby = &walker->runtimes.ruby;
        if (walker->runtimes.has_beam)
                walker->live.beam = &walker->runtimes.beam;
        host_walk_enter(walker->walk, &walker->live);
}

/* Threads come process by process, in several batches. */
static void enter_process(ThreadWalker *walker, const Process *process, const struct abi_thread *thread) {
        if (walker->tgid == thread->tgid && walker->generation == thread->generation)
                return;
        thread_walker_leave(walker);
        walker->context = (ThreadContext){ .form = thread->thread_form,
                                         .model = thread->thread_model,
                                         .module = thread->thread_module,
                                         .offset = thread->thread_offset,
                                         .node = thread->node };
        thread_memory_open(&walker->memory, (pid_t)thread->tgid, process->start_time_ns, &walker->context);
        walker->tgid = thread->tgid;
        walker->generation = thread->generation;
        if (walker->memory.memory >= 0)
                enter_runtimes(walker);
        else
                walker->lacks_rights |= errno == EACCES || errno == EPERM;
}

int thread_walker_walk(ThreadWalker *walker, const Program *program, const struct abi_thread *thread,
                      WalkedThread *found) {
        *found = (WalkedThread){ .thread = thread };
        enter_process(walker, program->process, thread);
        if (walker->memory.memory < 0)          /* another process has the id by now, or it may not be read */
                return THREAD_WALK_E_UNREADABLE;
        read_context(walker, found);
        read_owner(walker, found);
        read_lock(walker, found);
        return walk_stack(walker, program, found);
}

bool thread_walker_lacks_rights(const ThreadWalker *walker) {
        return walker->lacks_rights;
}

int thread_walker_new(ThreadWalker **walkerp, const WalkStages *stages, uint32_t depth) {
        _cleanup_(thread_walker_freep) ThreadWalker *walker = calloc(1, sizeof(*walker));
        int r;

        if (!walker)
                return error_origin(-ENOMEM);
        walker->stages = stages;
        walker->stack = malloc(sizeof(*walker->stack) + MOST_BYTES);
        if (!walker->stack)
                return error_origin(-ENOMEM);
        r = host_walk_new(&walker->walk, stages->tables, depth);
        if (r)
                return error_fold(r);
        *walkerp = take(walker);
        return 0;
}

ThreadWalker *thread_walker_free(ThreadWalker *walker) {
        if (!walker)
                return NULL;
        if (walker->walk)
                thread_walker_leave(walker);
        host_walk_free(walker->walk);
        if (walker->stack)
                explicit_bzero(walker->stack, sizeof(*walker->stack) + MOST_BYTES);
        free(walker->stack);
        free(walker);
        return NULL;
}
