/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Context Ring: the layout that a process publishes
 *
 * An anonymous private mapping, readable and writable: a header of 32 bytes,
 * then `capacity` slots of 32 bytes. The mapping starts at a page and is named
 * DD_OTEL_CTX where the kernel can name anonymous memory (Linux 5.17 with
 * CONFIG_ANON_VMA_NAME); elsewhere readers find it by its header.
 *
 * The slot of a thread is tid % capacity, with the tid that the process itself
 * sees (gettid() in its own PID namespace). All ids zero = no span. Integers
 * are native; on the wire of a trace both ids are big endian.
 */

#ifndef __bpf__
#include <assert.h>
#include <stdint.h>
#endif

#define SPANPROF_RING_NAME "DD_OTEL_CTX"

enum {
        SPANPROF_RING_MAGIC = 0x4F54454C,       /* in memory the bytes L E T O */
        SPANPROF_RING_VERSION = 1,
        SPANPROF_RING_SLOT_SIZE = 32,
        SPANPROF_RING_DEFAULT_CAPACITY = 65536,
        SPANPROF_RING_MAX_CAPACITY = 1 << 24,
};

struct spanprof_ring_header {
        uint32_t magic;
        uint32_t version;
        uint32_t capacity;              /* slots, 1 … SPANPROF_RING_MAX_CAPACITY */
        uint32_t slot_size;             /* SPANPROF_RING_SLOT_SIZE */
        uint8_t reserved[16];           /* zero */
};

struct spanprof_ring_slot {
        uint64_t trace_id_high;         /* 0 from most writers */
        /* with a high half of 0 often the local root span's id, no trace id */
        uint64_t trace_id_low;
        uint64_t span_id;
        uint8_t in_use;                 /* 1 = a write is in progress, 0 = may be read */
        uint8_t padding[3];
        /*
         * Writes that have begun here; it wraps around. Other writers leave it alone: it is padding to them,
         * and to readers that do not know it.
         */
        uint32_t n_writes;
};

#ifndef __cplusplus
_Static_assert(sizeof(struct spanprof_ring_header) == 32, "header is 32 bytes");
_Static_assert(sizeof(struct spanprof_ring_slot) == 32, "slot is 32 bytes");
#else
static_assert(sizeof(spanprof_ring_header) == 32 && sizeof(spanprof_ring_slot) == 32, "layout");
#endif
