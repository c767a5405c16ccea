/* SPDX-License-Identifier: Apache-2.0 */
/* The SDK's writer of context slots, and its reader on another CPU (see litmus.h). */
#include "litmus.h"

#undef atomic_load_explicit
#define atomic_load_explicit(p, order) __atomic_load_n(p, order)
#undef atomic_store_explicit
#define atomic_store_explicit(p, value, order) __atomic_store_n(p, value, order)

#include "ring.c"

#include "litmus-station.h"

static struct spanprof_ring_slot a_slot;
static struct thread a_thread;

void litmus_ring_prepare(uint64_t n) {
        a_slot = (struct spanprof_ring_slot){ 0 };
        a_thread = (struct thread){ .slot = &a_slot };
        litmus_ring_write(n);
        litmus_watch(&a_slot.trace_id_high, 8);
        litmus_watch(&a_slot.trace_id_low, 8);
        litmus_watch(&a_slot.span_id, 8);
        litmus_watch(&a_slot.in_use, 1);
        litmus_watch(&a_slot.n_writes, 4);
}

void litmus_ring_write(uint64_t n) {
        slot_write(&a_thread, &a_slot, 100 + n, 200 + n, 300 + n);
}

int litmus_ring_read(void) {
        struct backend_ids ids;

        if (!slot_read(&a_slot, &ids))
                return LITMUS_NOTHING;
        return ids.low == ids.high + 100 && ids.span == ids.high + 200 ? LITMUS_WHOLE : LITMUS_WRONG;
}
