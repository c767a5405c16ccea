/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Trace Context
 *
 * What the interrupted thread works for, as it says itself: in its slot of the
 * process' ring, in the record that a thread-local variable points to, or both. Or as OBI says (obi.bpf.h).
 * That very thread is not running now, so what it writes cannot change under the
 * read: in_use (ring) and valid (record) say that the sample hit the middle of a
 * write. Nothing that is read is more than compared and copied, but for the
 * pointers on the way to the record, which lead through the target's own memory
 * and are followed by reads that may fail.
 *
 *     thread pointer ─ static TLS ──────────────▶ variable ─▶ record ─▶ attributes
 *           └─ DTV ─ slot of the module ─ block ──▶
 */

#include "border/tls_abi.h"
#include "runtimes/node_walk.h"
#include "walk/obi.bpf.h"
#include "walk/slots.bpf.h"

enum {
        CONTEXT_MAX_MODULE = 1 << 20,
        CONTEXT_ELASTIC_LAYOUT = 1,
};

/* Compares all words at once: each comparison of its own would be one more path for the verifier. */
static __always_inline bool context_header_is_right(const uint64_t *header, uint32_t capacity) {
        uint64_t wrong = header[0] ^ (SPANPROF_RING_MAGIC | (uint64_t)SPANPROF_RING_VERSION << 32);

        wrong |= header[1] ^ (capacity | (uint64_t)SPANPROF_RING_SLOT_SIZE << 32);
        return !(wrong | header[2] | header[3]);
}

static __always_inline bool context_is_zero(const struct abi_span *span) {
        return !(span->trace_high | span->trace_low | span->span);
}

/*
 * Reads the slot of the thread. The header is read each time, since the mapping may be gone or be another one
 * by now. Return: enum abi_context; *span is valid if PRESENT.
 */
static __always_inline uint8_t context_slot(const struct abi_process *process,
                                            const struct abi_sample *sample, struct abi_span *span) {
        uint64_t header[sizeof(struct spanprof_ring_header) / 8], address = process->ring_address;
        uint32_t capacity = process->ring_capacity;
        struct spanprof_ring_slot slot;
        uint32_t index;

        if (!address || process->flags & ABI_PROCESS_ADOPTING)
                return ABI_CONTEXT_UNPUBLISHED;
        if (!capacity || bpf_probe_read_user(header, sizeof(header), (const void *)address) ||
            !context_header_is_right(header, capacity))
                return ABI_CONTEXT_UNREADABLE;
        index = sample->ns_tid % capacity;
        address += sizeof(header) + (uint64_t)index * sizeof(slot);
        if (bpf_probe_read_user(&slot, sizeof(slot), (const void *)address))
                return ABI_CONTEXT_UNREADABLE;
        if (slot.in_use)
                return ABI_CONTEXT_BUSY;
        span->trace_high = slot.trace_id_high;
        span->trace_low = slot.trace_id_low;
        span->span = slot.span_id;
        return context_is_zero(span) ? ABI_CONTEXT_NONE : slots_judge(sample->tgid, sample->tid, index, span);
}

/*
 * Finds the block of a module by the thread's DTV. glibc: pairs of words; one pair before the array that the
 * thread knows, the first word is the number of slots. A slot that is not allocated yet holds −1
 * (TLS_DTV_UNALLOCATED). musl: words, the first is the number. Return: enum abi_context; NONE = this thread
 * has no such block (yet).
 */
static __always_inline uint8_t context_block(const struct abi_process *process, uint64_t dtv,
                                             uint64_t *blockp) {
        uint64_t module = process->thread_module, shift = process->thread_model == ABI_THREAD_MUSL ? 3 : 4,
                 n = 0;
        uint64_t count = shift == 4 ? dtv - 16 : dtv;

        if (!module || module > CONTEXT_MAX_MODULE || bpf_probe_read_user(&n, sizeof(n), (const void *)count))
                return ABI_CONTEXT_UNREADABLE;
        if (module > n)
                return ABI_CONTEXT_NONE;
        if (bpf_probe_read_user(blockp, sizeof(*blockp), (const void *)(dtv + (module << shift))))
                return ABI_CONTEXT_UNREADABLE;
        return *blockp && *blockp != ~0ULL ? ABI_CONTEXT_PRESENT : ABI_CONTEXT_NONE;
}

/*
 * Finds the variable of a thread (tls_abi.h). On x86-64 the first word at the thread pointer is the pointer
 * itself: any other word means that user space has moved it without telling the kernel.
 */
static __always_inline uint8_t context_variable(const struct abi_process *process, struct task_struct *task,
                                                uint64_t *variablep) {
        uint64_t pointer = KERNEL_THREAD_POINTER(task), head[2], base = pointer;
        int32_t below = TLS_IS_ABOVE && process->thread_model == ABI_THREAD_MUSL ? TLS_DTV_MUSL : 0;
        uint8_t outcome;

        if (bpf_probe_read_user(head, sizeof(head), (const void *)(pointer + below)) ||
            (!TLS_IS_ABOVE && head[0] != pointer))
                return ABI_CONTEXT_UNREADABLE;
        if (process->thread_model != ABI_THREAD_STATIC) {
                outcome = context_block(process, head[!TLS_IS_ABOVE], &base);
                if (outcome != ABI_CONTEXT_PRESENT)
                        return outcome;
        }
        *variablep = base + (uint64_t)process->thread_offset;
        return ABI_CONTEXT_PRESENT;
}

NODE_PART bool node_read(const void *memory, void *to, uint32_t size, uint64_t from) {
        return !bpf_probe_read_user(to, size, (const void *)from);
}

/* As context_of_thread(). */
__attribute__((noinline)) int context_of_node(const struct abi_process *process, uint64_t variable,
                                              uint64_t *recordp) {
        if (!process || !recordp)
                return ABI_CONTEXT_UNREADABLE;
        switch (node_find_record(NULL, &process->node, variable, recordp)) {
        case NODE_FOUND:
                return ABI_CONTEXT_PRESENT;
        case NODE_NO_SPAN:
                return ABI_CONTEXT_NONE;
        case NODE_MOVING:
                return ABI_CONTEXT_BUSY;
        default:
                return ABI_CONTEXT_UNREADABLE;
        }
}

/* The record that the variable leads to. */
static __always_inline uint8_t context_record(const struct abi_process *process, struct task_struct *task,
                                              uint64_t *recordp) {
        uint64_t variable = 0;
        uint8_t outcome = context_variable(process, task, &variable);

        if (outcome != ABI_CONTEXT_PRESENT)
                return outcome;
        if (process->thread_form == ABI_FORM_NODE)
                return (uint8_t)context_of_node(process, variable, recordp);
        if (bpf_probe_read_user(recordp, sizeof(*recordp), (const void *)variable))
                return ABI_CONTEXT_UNREADABLE;
        return *recordp ? ABI_CONTEXT_PRESENT : ABI_CONTEXT_NONE;
}

static __always_inline void context_take_ids(const uint64_t *ids, struct abi_span *span) {
        span->trace_high = __builtin_bswap64(ids[0]);
        span->trace_low = __builtin_bswap64(ids[1]);
        span->span = __builtin_bswap64(ids[2]);
}

/* otel_thread_ctx_v1; attributes count also without a span. */
static __always_inline uint8_t context_of_otel(uint64_t record, struct abi_sample *sample) {
        struct {
                uint64_t ids[3];
                uint8_t valid, flags;
                uint16_t attributes_size;
                uint32_t reserved;
        } copy;

        if (bpf_probe_read_user(&copy, sizeof(struct spanprof_thread_record), (const void *)record))
                return ABI_CONTEXT_UNREADABLE;
        if (copy.valid != SPANPROF_THREAD_VALID)
                return ABI_CONTEXT_INVALID;
        sample->attributes_size = copy.attributes_size;
        context_take_ids(copy.ids, &sample->span);
        return context_is_zero(&sample->span) ? ABI_CONTEXT_NONE : ABI_CONTEXT_PRESENT;
}

/*
 * Elastic's record: u16 layout, u8 valid, u8 trace present, u8 flags, trace id, span id, transaction id;
 * packed.
 */
static __always_inline uint8_t context_of_elastic(uint64_t record, struct abi_span *span) {
        struct {
                uint8_t before[3];
                uint8_t layout[2], valid, present, flags;       /* the ids come to lie on a multiple of 8 */
                uint64_t ids[3];
        } copy;

        if (bpf_probe_read_user(copy.layout, sizeof(copy) - sizeof(copy.before), (const void *)record))
                return ABI_CONTEXT_UNREADABLE;
        if ((copy.layout[0] | copy.layout[1] << 8) != CONTEXT_ELASTIC_LAYOUT)
                return ABI_CONTEXT_UNREADABLE;
        if (!copy.valid)
                return ABI_CONTEXT_INVALID;
        if (!copy.present)
                return ABI_CONTEXT_NONE;
        context_take_ids(copy.ids, span);
        return context_is_zero(span) ? ABI_CONTEXT_NONE : ABI_CONTEXT_PRESENT;
}

/*
 * Global functions: the verifier walks through each once, not once for every path that leads to it and out of
 * it. Their arguments must be plain memory.
 */
__attribute__((noinline)) int context_of_thread(const struct abi_process *process, struct abi_sample *sample,
                                                uint64_t *attributesp) {
        struct task_struct *task = bpf_get_current_task_btf();
        uint64_t record = 0;
        uint8_t outcome;

        if (!process || !sample || !attributesp)
                return ABI_CONTEXT_UNPUBLISHED;
        /* A worker's thread pointer is that of its maker, and the worker works for others by now. */
        if (task->flags & KERNEL_PF_WORKERS)
                return ABI_CONTEXT_NONE;
        outcome = context_record(process, task, &record);
        if (outcome != ABI_CONTEXT_PRESENT)
                return outcome;
        if (process->thread_form == ABI_FORM_ELASTIC)
                return context_of_elastic(record, &sample->span);
        /* A set of labels: the walk of runtimes reads it (walk.bpf.h), and the daemon finds the ids. */
        if (process->thread_form == ABI_FORM_LABELS) {
                *attributesp = record;
                return ABI_CONTEXT_NONE;
        }
        *attributesp = record + sizeof(struct spanprof_thread_record);
        return context_of_otel(record, sample);
}

__attribute__((noinline)) int context_of_ring(const struct abi_process *process, struct abi_sample *sample) {
        return process && sample ? context_slot(process, sample, &sample->span) : ABI_CONTEXT_UNPUBLISHED;
}

/*
 * The thread's record comes first, since it belongs to the thread alone. A ring's outcome counts where the
 * record says less.
 */
static __always_inline void context_read(const struct abi_process *process, struct scratch *scratch) {
        struct abi_sample *sample = &scratch->sample;
        uint8_t outcome = ABI_CONTEXT_UNPUBLISHED, form = ABI_FORM_NONE, ring;

        sample->span = (struct abi_span){};
        sample->attributes_size = 0;
        scratch->attributes_address = 0;
        if (process->thread_model != ABI_THREAD_UNPUBLISHED) {
                outcome = context_of_thread(process, sample, &scratch->attributes_address);
                form = process->thread_form;
        }
        if (process->ring_address && outcome != ABI_CONTEXT_PRESENT) {
                ring = context_of_ring(process, sample);
                if (ring != ABI_CONTEXT_UNPUBLISHED && !(ring == ABI_CONTEXT_NONE && outcome)) {
                        outcome = ring;
                        form = ABI_FORM_RING;
                }
        }
        sample->context = outcome;
        sample->form = form;
}

/*
 * OBI's map is the last source: of a process with an SDK it has an id of OBI's own, which is sent nowhere.
 * So it is not asked of one that publishes anything, or of a thread with a context of an SDK's. Labels of
 * a goroutine stay, and win if they have a span. A function of its own: its ids are gone from the stack
 * before frames are walked (tests/oracles/bpf_stacks.py).
 */
static __attribute__((noinline)) void obi_part(const struct abi_process *process,
                                               struct abi_sample *sample) {
        struct abi_obi_ids ids = {};
        uint8_t outcome;

        if (!obi_on || process->ring_address || process->thread_model != ABI_THREAD_UNPUBLISHED ||
            process->flags & ABI_PROCESS_PUBLISHES || sample->form == ABI_FORM_PYTHON ||
            sample->form == ABI_FORM_V8)
                return;
        outcome = (uint8_t)obi_read(bpf_get_current_pid_tgid(), &ids);
        if (outcome == ABI_CONTEXT_PRESENT)
                context_take_ids(ids.words, &sample->span);
        else if (outcome == ABI_CONTEXT_UNPUBLISHED || sample->context != ABI_CONTEXT_UNPUBLISHED)
                return;
        sample->context = outcome;
        if (!sample->attributes_size)
                sample->form = ABI_FORM_OBI;
}
