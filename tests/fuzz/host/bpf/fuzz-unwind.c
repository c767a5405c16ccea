/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The walk of the kernel half on a stack of any bytes: byte 0 the depth, then words, of
 * which the first is where rbp points to. Recipe of the corpus: make-sample-corpus.py.
 */

#include <stdlib.h>

#include "shim/bpf-shim.h"

enum { STACK = 0x7ffe0000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static uint64_t frames[UNWIND_MAX_FRAMES];
        static struct unwind unwind;
        uint64_t last_sp;
        uint32_t depth;

        if (size < 9)
                return 0;
        depth = 1 + data[0] * 4u;
        shim_areas[0] = (ShimArea){ .address = STACK, .size = size - 9, .data = data + 9 };
        unwind_begin(&unwind, ABI_MAX_KERNEL_FRAMES, depth);
        unwind.pc = 1;
        unwind.sp = last_sp = STACK;
        memcpy(&unwind.bp, data + 1, 8);
        while (shim_step_by_frame_pointer(&unwind, frames)) {
                if (unwind.sp <= last_sp || !unwind.pc)
                        abort();        /* a walk that does not climb need not end */
                last_sp = unwind.sp;
        }
        if (unwind.end == ABI_STACK_INTERNAL || unwind.end >= ABI_STACK_END_N ||
            unwind.n_frames > ABI_MAX_KERNEL_FRAMES + depth)
                abort();
        return 0;
}
