/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Bytes of a Thread of Java
 *
 * How much the interrupted thread has allocated since its begin, by the JVM's own count, which it keeps for
 * ThreadMXBean.getThreadAllocatedBytes(). A thread takes memory for objects from a buffer of its own (TLAB),
 * and is charged for the buffer once that is full. So what the buffer is used for comes on top.
 *
 *     JavaThread  _allocated_bytes ─────────────────────┐
 *                 _tlab._start ┐                        ├─▶ bytes
 *                 _tlab._top   ┴─▶ used part of it ─────┘
 *                 _stack_base, _stack_size ─▶ is sp in it?
 *
 * Code of Java has its JavaThread in a register. Stubs may use that for something else, and any program may
 * have anything in it: so the thread counts only if the stack pointer lies in its stack. No two threads
 * share one. Elsewhere, in native code and in the JVM's own, nothing says cheaply which JavaThread it is:
 * such ticks have no count, and the next one in Java has it for both.
 *
 * As a buffer is given back, the count has it for an instant while the buffer has it, too. Such a tick is
 * too high by a part of one buffer, and the next one is right. So only sums of differences are true.
 *
 * A virtual thread's bytes are those of the thread that carries it, which the value says. All offsets are
 * what the JVM publishes. Includes nothing, as hotspot.bpf.h.
 */

enum {
        HOTSPOT_MAX_BYTES_SHIFT = 56,   /* bits of a count of bytes; what has more is none */
        HOTSPOT_MAX_TLAB_SHIFT = 40,
};

static inline bool hotspot_word(uint64_t thread, uint16_t offset, uint64_t *valuep) {
        return !bpf_probe_read_user(valuep, sizeof(*valuep), (const void *)(thread + offset));
}

/* Whether the stack of @thread, the word with its end and that with its size, has @sp. */
static inline bool hotspot_is_on_stack(const struct hotspot_process *process, uint64_t thread, uint64_t sp) {
        struct {
                uint64_t base, size;
        } stack;

        if (bpf_probe_read_user(&stack, sizeof(stack), (const void *)(thread + process->stack_base)))
                return false;
        return stack.size <= stack.base && sp - (stack.base - stack.size) < stack.size;
}

/* Return: 0, ABI_VALUE_IS_CARRIER; ABI_VALUE_TICK = it could not be read. */
static inline uint64_t hotspot_carries(const struct hotspot_process *process, uint64_t thread) {
        uint64_t word, own;

        if (!process->carried)
                return 0;
        if (!hotspot_word(thread, process->carried, &word))
                return ABI_VALUE_TICK;
        if (!process->own)
                return word ? ABI_VALUE_IS_CARRIER : 0;
        if (!hotspot_word(thread, process->own, &own) || !hotspot_word(word, 0, &word) ||
            !hotspot_word(own, 0, &own))
                return ABI_VALUE_TICK;
        return word == own ? 0 : ABI_VALUE_IS_CARRIER;
}

/* The value of a tick at which code of Java had @thread in its register. */
static inline uint64_t hotspot_bytes(const struct hotspot_process *process, uint64_t thread, uint64_t sp) {
        uint64_t bytes, start, top, carries;

        if (!process->allocated || (thread & 7) || !hotspot_is_on_stack(process, thread, sp) ||
            !hotspot_word(thread, process->allocated, &bytes) ||
            !hotspot_word(thread, process->tlab_start, &start) ||
            !hotspot_word(thread, process->tlab_top, &top) || bytes >> HOTSPOT_MAX_BYTES_SHIFT)
                return ABI_VALUE_TICK;
        if (top > start) {
                if ((top - start) >> HOTSPOT_MAX_TLAB_SHIFT)
                        return ABI_VALUE_TICK;
                bytes += top - start;
        }
        carries = hotspot_carries(process, thread);
        return carries == ABI_VALUE_TICK ? ABI_VALUE_TICK : bytes << ABI_VALUE_BYTES_SHIFT | carries;
}
