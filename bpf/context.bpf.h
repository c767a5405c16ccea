/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Trace Context
 *
 * The ring slot of the interrupted thread. That very thread is not running now,
 * so its slot cannot change under the read: in_use says that the sample hit the
 * middle of a write. The header is read each time, since the mapping may be gone
 * or be something else by now; no byte of it is more than compared.
 */

#include "abi.h"

static __always_inline bool context_header_is_right(const struct spanprof_ring_header *header, uint32_t capacity) {
        const uint64_t *reserved = (const uint64_t *)header->reserved;

        return header->magic == SPANPROF_RING_MAGIC && header->version == SPANPROF_RING_VERSION &&
               header->capacity == capacity && header->slot_size == SPANPROF_RING_SLOT_SIZE &&
               !reserved[0] && !reserved[1];
}

/* Return: enum abi_context; *slot is written in any case and means something if PRESENT. */
static __always_inline uint8_t context_read(const struct abi_process *process, uint32_t ns_tid,
                                            struct spanprof_ring_slot *slot) {
        struct spanprof_ring_header header __attribute__((aligned(8)));
        uint64_t address = process->ring_address;
        uint32_t capacity = process->ring_capacity;

        if (!address)
                return ABI_CONTEXT_UNPUBLISHED;
        if (!capacity || bpf_probe_read_user(&header, sizeof(header), (const void *)address) ||
            !context_header_is_right(&header, capacity))
                return ABI_CONTEXT_UNREADABLE;
        address += sizeof(header) + (uint64_t)(ns_tid % capacity) * sizeof(*slot);
        if (bpf_probe_read_user(slot, sizeof(*slot), (const void *)address))
                return ABI_CONTEXT_UNREADABLE;
        if (slot->in_use)
                return ABI_CONTEXT_BUSY;
        if (!slot->trace_id_high && !slot->trace_id_low && !slot->span_id)
                return ABI_CONTEXT_NONE;
        return ABI_CONTEXT_PRESENT;
}
