/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: the kernel half's walk over stacks of Erlang, with an entry, registers, stacks and code that no
 * process has. The input is a byte, whose lowest bit says that the JIT's code was interrupted, the entry, pc,
 * stack pointer, rbp, r13 and r15, then the memory that addresses lead to. Whatever they hold: it ends, cuts
 * no frame, writes none beyond its limit, and is whole only if it has met the bottom. Recipe of the corpus:
 * make-beam-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"
#include "shim/beam-shim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        MEMORY = 0x20000000,
        DEPTH = 64,
        N_NATIVE = 2,
};

typedef struct Registers {
        uint64_t pc, sp, bp, process, heap;
} Registers;

static _Alignas(8) uint8_t memory[32768];

static void check(const struct beam *beam, const struct unwind *unwind, const uint64_t *frames) {
        uint32_t n = shim_check_frames(unwind, frames, DEPTH, RUNTIME_BEAM);

        if (beam->end > BEAM_END_LOST || (unwind->end == ABI_STACK_COMPLETE) != (beam->end == BEAM_END_WHOLE))
                abort();
        if (unwind->end != ABI_STACK_COMPLETE && unwind->end != ABI_STACK_RUNTIME &&
            unwind->end != ABI_STACK_DEPTH && unwind->end != ABI_STACK_NO_ROWS)
                abort();
        if (beam->end == BEAM_END_LOST && n > 1)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static uint64_t frames[UNWIND_MAX_FRAMES];
        static struct beam beam;
        struct beam_process process;
        struct unwind unwind = { 0 };
        struct rules rules = { 0 };
        Registers registers;
        uint32_t n_native;
        bool is_whole;

        if (size < 1 + sizeof(process) + sizeof(registers))
                return 0;
        n_native = data[0] & 1 ? 0 : N_NATIVE;
        is_whole = data[0] & 2;         /* the native stack: it may be a dirty scheduler's */
        memcpy(&process, data + 1, sizeof(process));
        memcpy(&registers, data + 1 + sizeof(process), sizeof(registers));
        data += 1 + sizeof(process) + sizeof(registers);
        size -= 1 + sizeof(process) + sizeof(registers);
        memset(memory, 0, sizeof(memory));
        memcpy(memory, data, size < sizeof(memory) ? size : sizeof(memory));
        shim_areas[0] = (ShimArea){ .address = MEMORY, .size = sizeof(memory), .data = memory };
        memset(&beam, 0xee, sizeof(beam));
        memset(frames, 0, sizeof(frames));
        unwind_begin(&unwind, 0, DEPTH);
        unwind.pc = registers.pc & RUNTIME_ADDRESS_MASK;
        unwind.sp = registers.sp;
        unwind.bp = registers.bp;
        unwind.end = is_whole ? ABI_STACK_COMPLETE : ABI_STACK_NO_ROWS;
        unwind.n_frames = n_native + 1;
        frames[n_native] = unwind.pc;
        rules.registers[BEAM_REGISTER_PROCESS] = registers.process;
        rules.registers[BEAM_REGISTER_HEAP] = registers.heap;
        if (!shim_beam_walk(&beam, &process, &unwind, &rules, registers.heap, frames))
                return 0;
        check(&beam, &unwind, frames);
        if (beam_find_task(&beam, &process) != !!beam.task || (beam.task && !beam.current))
                abort();
        return 0;
}
