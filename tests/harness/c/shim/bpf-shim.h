/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * BPF Shim
 *
 * Lets memory.bpf.h and unwind.bpf.h compile for the host. A target's memory is a
 * few areas that the test lists; everything else faults, also a read that only
 * begins inside.
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "border/abi.h"
#include "border/unwind_abi.h"

#define barrier_var(var) __asm__ volatile("" : "+r"(var))

typedef struct ShimArea {
        uint64_t address;
        uint64_t size;
        const void *data;
} ShimArea;

static ShimArea shim_areas[8];
static unsigned shim_n_reads;           /* probe reads so far, failed ones included */

static long bpf_probe_read_user(void *to, uint32_t size, const void *from) {
        const uint64_t address = (uint64_t)(uintptr_t)from;

        shim_n_reads++;
        for (unsigned i = 0; i < sizeof(shim_areas) / sizeof(shim_areas[0]); i++) {
                const ShimArea *area = &shim_areas[i];

                if (address >= area->address && address - area->address < area->size &&
                    size <= area->size - (address - area->address)) {
                        memcpy(to, (const char *)area->data + (address - area->address), size);
                        return 0;
                }
        }
        memset(to, 0, size);            /* as the helper does */
        return -14;
}

#include "walk/memory.bpf.h"
#include "walk/unwind.bpf.h"

/* A walk that goes by frame pointers alone: writes one frame and goes to its caller. */
static inline bool shim_step_by_frame_pointer(struct unwind *unwind, uint64_t *frames) {
        uint32_t n = unwind->n_frames;

        if (n >= unwind->limit || n >= UNWIND_MAX_FRAMES) {
                unwind->end = ABI_STACK_DEPTH;
                return false;
        }
        frames[n] = unwind->pc;
        unwind->n_frames = n + 1;
        return unwind_by_frame_pointer(unwind);
}
