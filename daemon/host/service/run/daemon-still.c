/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Threads come process by process. Memory and runtimes of a process are opened with its first thread, and
 * closed with the first one of another process. The stack is copied from its pointer up, page by page, and
 * walked by the rules of samples; a copy that was too short is made again, larger.
 */

#include "host/service/run/daemon-still.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "core/base/util/error.h"
#include "host/sampling/process/memory.h"
#include "host/sampling/runtime/runtimes.h"
#include "host/sampling/unwind/walk/host-walk.h"
#include "host/service/run/daemon-state.h"

enum {
        PAGE_BYTES = 4096,              /* no page is smaller */
        USUAL_BYTES = 16 << 10,         /* of a stack above its pointer */
        MOST_BYTES = 256 << 10,
        OWNER_OFFSET = 8,               /* pthread_mutex_t of glibc: lock, count, owner (an id) */
};

struct StillReader {
        Daemon *daemon;
        HostWalk *walk;
        struct abi_stack *stack;        /* room for MOST_BYTES */
        ThreadMemory memory;            /* of the process `tgid`, 0 = none */
        ThreadContext context;
        ThreadsRuntimes runtimes;       /* of that process, … */
        HostWalkLive live;              /* … and what is walked of them */
        uint32_t tgid;
        uint64_t generation;
        bool lacks_rights;              /* memory of some may not be read */
};

/* ---- the stack ---- */

static uint64_t lowest_of(StillReader *reader, const struct abi_thread *thread) {
        uint64_t low = host_walk_lowest(thread->sp), word;

        return low < thread->sp && memory_read_opened((pid_t)thread->tgid, reader->memory.memory, low, &word,
                                                      sizeof(word))
                ? thread->sp
                : low;
}

/* Page by page, up to the first that is not there. */
static void copy_stack(StillReader *reader, const struct abi_thread *thread, uint32_t most) {
        struct abi_stack *stack = reader->stack;
        uint64_t address = lowest_of(reader, thread) & ~(uint64_t)(ABI_STACK_CHUNK - 1);

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
                if (memory_read_opened((pid_t)thread->tgid, reader->memory.memory, address + stack->n_bytes,
                                       stack->bytes + stack->n_bytes, size)) {
                        stack->is_cut = 0;
                        return;
                }
        }
}

static int walk_stack(StillReader *reader, const Program *program, StillThread *found) {
        bool has_runtime = runtimes_has(reader->daemon->stages.runtimes, program->process->generation);
        HostWalkResult result;

        for (uint32_t most = USUAL_BYTES;; most = MOST_BYTES) {
                copy_stack(reader, found->thread, most);
                host_walk_thread(reader->walk, program->process, has_runtime, reader->stack,
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

/* As bpf/walk/context.bpf.h and bpf/walk/slots.bpf.h judge. */
static void read_slot(const StillReader *reader, const struct abi_thread *thread, StillThread *found) {
        uint32_t slot_index = thread->ns_tid % thread->ring_capacity;
        uint64_t address = thread->ring_address + sizeof(struct spanprof_ring_header) +
                (uint64_t)slot_index * SPANPROF_RING_SLOT_SIZE;
        struct spanprof_ring_header header;
        struct spanprof_ring_slot slot;
        struct abi_span span;

        found->form = ABI_FORM_RING;
        found->outcome = ABI_CONTEXT_UNREADABLE;
        if (memory_read_opened((pid_t)thread->tgid, reader->memory.memory, thread->ring_address, &header,
                               sizeof(header)) ||
            header.magic != SPANPROF_RING_MAGIC || header.version != SPANPROF_RING_VERSION ||
            header.capacity != thread->ring_capacity || header.slot_size != SPANPROF_RING_SLOT_SIZE ||
            memory_read_opened((pid_t)thread->tgid, reader->memory.memory, address, &slot, sizeof(slot)))
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

static void read_record(const StillReader *reader, const struct abi_thread *thread, StillThread *found) {
        static const uint8_t outcomes[] = { [THREAD_LOOK_PRESENT] = ABI_CONTEXT_PRESENT,
                                            [THREAD_LOOK_NONE] = ABI_CONTEXT_NONE,
                                            [THREAD_LOOK_INVALID] = ABI_CONTEXT_INVALID,
                                            [THREAD_LOOK_UNREADABLE] = ABI_CONTEXT_UNREADABLE };

        thread_record_read(&reader->memory, thread->pointer, &found->context);
        found->form = thread->thread_form;
        found->outcome = outcomes[found->context.outcome];
        if (found->form == ABI_FORM_LABELS)     /* those of its labels that are no ids have another form */
                found->context.attributes_size = 0;
}

/* A worker of the kernel has the thread pointer of the thread that it was made by. */
static void read_context(const StillReader *reader, StillThread *found) {
        const struct abi_thread *thread = found->thread;

        if (thread->thread_model != ABI_THREAD_UNPUBLISHED && !(thread->flags & THREAD_IS_WORKER))
                read_record(reader, thread, found);
        if (thread->ring_address && thread->ring_capacity && found->outcome != ABI_CONTEXT_PRESENT)
                read_slot(reader, thread, found);
}

/* ---- the owner of a mutex ---- */

static void read_owner(const StillReader *reader, StillThread *found) {
        const struct abi_thread *thread = found->thread;

        uint64_t address = thread->argument + OWNER_OFFSET;

        if (thread->call != SYS_futex ||
            memory_read_opened((pid_t)thread->tgid, reader->memory.memory, address, &found->owner,
                               sizeof(found->owner)))
                found->owner = 0;
}

static void read_lock(const StillReader *reader, StillThread *found) {
        const uint8_t others = WAIT_PREEMPTED | WAIT_STOPPED | WAIT_UNINTERRUPTIBLE;

        found->waits_for_lock = found->thread->call == SYS_futex && !(found->thread->wait_flags & others) &&
                host_walk_waits_for_lock(reader->walk, found->thread->argument);
}

/* ---- a process, a thread ---- */

void still_thread_head(const StillThread *found, struct abi_sample *head) {
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

void still_reader_leave(StillReader *reader) {
        if (reader->tgid)
                thread_memory_close(&reader->memory);
        host_walk_enter(reader->walk, NULL);
        reader->tgid = 0;
}

static int read_for_walk(void *userdata, uint64_t address, void *to, uint32_t size) {
        const StillReader *reader = userdata;

        return memory_read_opened((pid_t)reader->tgid, reader->memory.memory, address, to, size);
}

/*
 * The walk reads single words of a runtime, by the bounded rules of the kernel half. So this process does it
 * also where memory of JVMs is for workers, who read names.
 */
static void enter_runtimes(StillReader *reader) {
        sampler_runtimes_of(reader->daemon->stages.sampler, reader->tgid, reader->generation,
                            &reader->runtimes);
        reader->live = (HostWalkLive){ .read = read_for_walk, .userdata = reader };
        if (reader->runtimes.has_hotspot)
                reader->live.hotspot = &reader->runtimes.hotspot;
        if (reader->runtimes.has_python)
                reader->live.python = &reader->runtimes.python;
        host_walk_enter(reader->walk, &reader->live);
}

/* Threads come process by process, in several batches. */
static void enter_process(StillReader *reader, const Process *process, const struct abi_thread *thread) {
        if (reader->tgid == thread->tgid && reader->generation == thread->generation)
                return;
        still_reader_leave(reader);
        reader->context = (ThreadContext){ .form = thread->thread_form,
                                         .model = thread->thread_model,
                                         .module = thread->thread_module,
                                         .offset = thread->thread_offset };
        thread_memory_open(&reader->memory, (pid_t)thread->tgid, process->start_time_ns, &reader->context);
        reader->tgid = thread->tgid;
        reader->generation = thread->generation;
        if (reader->memory.memory >= 0)
                enter_runtimes(reader);
        else
                reader->lacks_rights |= errno == EACCES || errno == EPERM;
}

int still_reader_read(StillReader *reader, const Program *program, const struct abi_thread *thread,
                      StillThread *found) {
        *found = (StillThread){ .thread = thread };
        enter_process(reader, program->process, thread);
        if (reader->memory.memory < 0)          /* another process has the id by now, or it may not be read */
                return STILL_E_UNREADABLE;
        read_context(reader, found);
        read_owner(reader, found);
        read_lock(reader, found);
        return walk_stack(reader, program, found);
}

bool still_reader_lacks_rights(const StillReader *reader) {
        return reader->lacks_rights;
}

int still_reader_new(StillReader **readerp, Daemon *daemon, uint32_t depth) {
        _cleanup_(still_reader_freep) StillReader *reader = calloc(1, sizeof(*reader));
        int r;

        if (!reader)
                return error_origin(-ENOMEM);
        reader->daemon = daemon;
        reader->stack = malloc(sizeof(*reader->stack) + MOST_BYTES);
        if (!reader->stack)
                return error_origin(-ENOMEM);
        r = host_walk_new(&reader->walk, daemon->stages.tables, depth);
        if (r)
                return error_fold(r);
        *readerp = take(reader);
        return 0;
}

StillReader *still_reader_free(StillReader *reader) {
        if (!reader)
                return NULL;
        if (reader->walk)
                still_reader_leave(reader);
        host_walk_free(reader->walk);
        if (reader->stack)
                explicit_bzero(reader->stack, sizeof(*reader->stack) + MOST_BYTES);
        free(reader->stack);
        free(reader);
        return NULL;
}
