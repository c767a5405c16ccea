/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Deferred Walks
 *
 * A walk that came to code whose rows are not in force yet cannot go on here, and the process may be gone
 * when they are. So the registers and the top of the user stack are copied for the daemon, which walks them
 * by the same rules (daemon/host/sampling/unwind/walk/host-walk.c) once it has the rows:
 *
 *     address    copy
 *     7ff..400   chunk 0, the interrupted rsp lies in it     ← rsp rounded down to a chunk (unwind_lowest())
 *     7ff..800   chunk 1
 *     7ff..c00   chunk 2: the process' first stack begins here, so this is all of it
 *
 * A chunk never crosses a page: the first one that is not there ends the copy. Code that keeps buffers of
 * tens of KiB in its frame holds the frame's base in a register. Where rbp or rbx (x29) is such an address,
 * the last four chunks are from there on:
 *
 *     7ff..400   chunks 0 to 12, from rsp on      a buffer, which the walk does not read
 *     800..c00   chunks 13 to 16, from rbx on     return addresses
 *
 * A copy goes straight into a record
 * of the stacks' ring, which is apart from the samples' ring: a storm of copies loses no sample. The record
 * has one of three fixed sizes, since kernels before 6.1 reserve constant ones only: small and large for the
 * first stack of a process, whose beginning the kernel tells, and one in the middle for stacks of threads.
 *
 * A ring that is half full calls the daemon (wake.bpf.h). A budget bounds the bytes of a second and CPU.
 * Page faults have half of it at most: the other half is left to ticks. Where it is spent, or the ring is
 * full, the sample goes without its copy, and both are counted.
 */

#include "walk/settings.bpf.h"
#include "walk/tables.bpf.h"

enum {
        DEFER_SMALL = 3,                /* chunks: 2 KiB of stack at least */
        DEFER_MIDDLE = 9,               /* 8 KiB */
        DEFER_LARGE = 17,               /* 16 KiB */
        DEFER_FAR = 4,                  /* chunks of a second piece, of those in the middle and large ones */
        /* stacks of a second and CPU that have left all known mappings; code of a target's own making may */
        DEFER_MAX_LOST = 64,
        DEFER_SECOND_SHIFT = 30,        /* a "second" here is 2^30 ns */
        /* A stack of more bytes is taken for another one than the process' first. */
        DEFER_FIRST_STACK_MAX = 64 << 20,
        /* bytes behind what is copied in one piece; a register that is farther off is no frame's base */
        DEFER_FAR_MAX = 1 << 20,
};

static __always_inline void defer_registers(struct abi_stack *to, const struct scratch *scratch) {
        to->kept = ABI_KEPT_STACK;
        to->time_ns = scratch->sample.time_ns;
        to->tgid = scratch->sample.tgid;
        to->cpu = scratch->sample.cpu;
        to->pc = scratch->leaf.pc;
        to->sp = scratch->leaf.sp;
        to->bp = scratch->leaf.bp;
        to->bx = scratch->leaf.bx;
        __builtin_memcpy(to->registers, scratch->rules.registers, sizeof(to->registers));
        to->address = scratch->copied_from;
}

/*
 * Where a second piece begins: at the lower one of two registers, if it lies beyond @capacity chunks from rsp
 * on, and not too far to be a frame's base. 0 = there is none, or the first piece has all of the stack.
 */
static __always_inline uint64_t defer_far(const struct scratch *scratch, uint64_t n, uint64_t capacity) {
        uint64_t first = scratch->copied_from + capacity * ABI_STACK_CHUNK;
        uint64_t bp = scratch->leaf.bp - first, bx = scratch->leaf.bx - first, nearest = bp < bx ? bp : bx;

        if (n <= capacity || nearest >= DEFER_FAR_MAX)
                return 0;
        return (first + nearest) & ~(uint64_t)(ABI_STACK_CHUNK - 1);
}

/* Chunks of the first piece, where there are two. */
#define DEFER_NEAR(_capacity) ((_capacity) > DEFER_FAR ? (_capacity) - DEFER_FAR : (_capacity))

/* @capacity: chunks that the record has room for, constant. @n: chunks that are wanted. */
#define DEFER_SEND(_scratch, _n, _capacity) \
        ({ \
                struct abi_stack *_to = bpf_ringbuf_reserve( \
                        &stacks, sizeof(struct abi_stack) + (_capacity) * ABI_STACK_CHUNK, 0); \
                uint64_t _far = defer_far(_scratch, _n, _capacity); \
                uint32_t _done = 0, _near = 0; \
                if (_to) { \
                        bool _goes_on = true; \
                        uint64_t _rest, _at; \
                        defer_registers(_to, _scratch); \
                        _rest = _far ? _far : _to->address + DEFER_NEAR(_capacity) * ABI_STACK_CHUNK; \
                        _Pragma("unroll") \
                        for (uint32_t _i = 0; _i < (_capacity); _i++) { \
                                if (_i == DEFER_NEAR(_capacity) && _far) { \
                                        _near = _done; \
                                        _done = 0; \
                                        _goes_on = true; \
                                } \
                                _at = _i < DEFER_NEAR(_capacity) ? _to->address + _i * ABI_STACK_CHUNK \
                                                                 : _rest + (_i - DEFER_NEAR(_capacity)) * \
                                                                                 ABI_STACK_CHUNK; \
                                _goes_on = _goes_on && (_far || _i < (_n)) && \
                                        !bpf_probe_read_user(_to->bytes + _i * ABI_STACK_CHUNK, \
                                                             ABI_STACK_CHUNK, (const void *)_at); \
                                _done += _goes_on; \
                        } \
                        _to->n_bytes = (_far ? _near : _done) * ABI_STACK_CHUNK; \
                        _to->is_cut = _far || (_goes_on && (_n) > (_capacity)); \
                        _to->far_address = _far; \
                        _to->far_begin = _far ? DEFER_NEAR(_capacity) * ABI_STACK_CHUNK : 0; \
                        _to->n_far = _far ? _done * ABI_STACK_CHUNK : 0; \
                        bpf_ringbuf_submit(_to, BPF_RB_NO_WAKEUP); \
                } \
                _to != NULL; \
        })

/*
 * A global function, as rows_rule(): verified once. @n: chunks up to the stack's beginning, or
 * DEFER_LARGE + 1. @is_first: the process' first stack. Return: 1 = the copy is in the ring, 0 = no room.
 */
__attribute__((noinline)) uint32_t defer_send(uint32_t n, uint32_t is_first) {
        uint32_t zero = 0;
        struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);

        if (!scratch)
                return 0;
        if (n <= DEFER_SMALL)
                return DEFER_SEND(scratch, n, DEFER_SMALL);
        if (n <= DEFER_MIDDLE || !is_first)
                return DEFER_SEND(scratch, n, DEFER_MIDDLE);
        return DEFER_SEND(scratch, n, DEFER_LARGE);
}

/* Whether the budgets of this second and CPU admit a copy of @bytes. */
static __always_inline bool defer_admits(struct scratch *scratch, uint64_t bytes, bool is_lost) {
        struct defer_budget *budget = &scratch->budget;
        uint64_t second = scratch->sample.time_ns >> DEFER_SECOND_SHIFT;
        uint64_t share = scratch->sample.kind == ABI_KIND_CPU ? 1 : 2;

        if (budget->second != second)
                *budget = (struct defer_budget){ .second = second };
        if (share * (budget->bytes + bytes) > setting_stack_bytes ||
            (is_lost && share * budget->n_lost >= DEFER_MAX_LOST))
                return false;
        budget->bytes += bytes;
        budget->n_lost += is_lost;
        return true;
}

static __always_inline uint64_t defer_size(uint32_t n, bool is_first) {
        uint64_t capacity = n <= DEFER_SMALL                ? DEFER_SMALL
                : n <= DEFER_MIDDLE || !is_first ? DEFER_MIDDLE
                                                 : DEFER_LARGE;

        return sizeof(struct abi_stack) + capacity * ABI_STACK_CHUNK;
}

/* Copies the stack of a walk that could not go on for want of rows or mappings. */
static __always_inline void defer_part(struct task_struct *task, struct scratch *scratch,
                                       struct counters *counters) {
        uint32_t end = scratch->unwind.end, n = DEFER_LARGE + 1;
        uint64_t base, depth;
        bool is_first;

        scratch->sample.is_copied = 0;
        if (!setting_stack_bytes || scratch->has_runtime ||
            (end != ABI_STACK_PENDING && end != ABI_STACK_STALE && end != ABI_STACK_NO_MAPPING))
                return;
        base = unwind_lowest(scratch->leaf.sp);
        if (base < scratch->leaf.sp && bpf_probe_read_user(&depth, sizeof(depth), (const void *)base))
                base = scratch->leaf.sp;        /* a copy ends at the first chunk that is not there */
        base &= ~(uint64_t)(ABI_STACK_CHUNK - 1);
        scratch->copied_from = base;
        depth = BPF_CORE_READ(task, mm, start_stack) - base;
        is_first = depth < DEFER_FIRST_STACK_MAX;
        if (is_first && depth < DEFER_LARGE * ABI_STACK_CHUNK)
                n = (uint32_t)(depth / ABI_STACK_CHUNK) + 1;
        if (!defer_admits(scratch, defer_size(n, is_first), end == ABI_STACK_NO_MAPPING)) {
                counters->values[COUNTER_STACK_COPIES_BUDGET]++;
                return;
        }
        scratch->sample.is_copied = (uint8_t)defer_send(n, is_first);
        counters->values[scratch->sample.is_copied ? COUNTER_STACK_COPIES : COUNTER_STACK_COPIES_FULL]++;
        /* Copies are large, and the daemon's own clock may be late for them. */
        if (daemon_listens && 2 * bpf_ringbuf_query(&stacks, BPF_RB_AVAIL_DATA) >
                                      bpf_ringbuf_query(&stacks, BPF_RB_RING_SIZE))
                scratch->calls = true;
}
