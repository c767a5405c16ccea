/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Code of V8: x86-64
 *
 * Where the return address of a leaf lies while code that V8 has made at run time makes its frame, or gives
 * it up. Its begin is a multiple of 64, and it has one of two forms:
 *
 *     55 48 89 e5          push %rbp; mov %rsp,%rbp        in the first 64 bytes; checks may stand before
 *     e8 ..                call of the prologue, which is a builtin: baseline code
 *
 *     48 8b e5 5d          mov %rbp,%rsp; pop %rbp         the frame is gone from here to the `ret`
 *     59 … 51              pop %rcx … push %rcx            arguments are dropped below the return address
 *
 * Includes nothing, as unwind.bpf.h.
 */

enum {
        V8_CODE_LINE = 64,              /* code begins at a multiple of it */
        V8_CODE_BEFORE = 24,            /* bytes in front of the pc that are looked at */
        /* registers of frame 0, by their DWARF numbers */
        V8_REGISTER_RCX = 2,
        V8_REGISTER_FUNCTION = 5,       /* rdi, as a function begins */
        V8_REGISTER_OFFSET = 9,         /* in a handler of the interpreter */
        V8_REGISTER_R10 = 10,
        V8_REGISTER_BYTECODE = 12,
};

/* The place of a leaf's return address. */
enum v8_stage {
        V8_STAGE_WHOLE,                 /* by the frame pointer */
        V8_STAGE_NONE,                  /* at rsp, rbp is the caller's; the function is in its register */
        V8_STAGE_PUSHED,                /* the same one word higher */
        V8_STAGE_POPPED,                /* at rsp, rbp is the caller's */
        V8_STAGE_RCX,                   /* in that register */
        V8_STAGE_R10,
};

struct v8_code {
        uint8_t bytes[2 * V8_CODE_LINE];        /* the second half is room for look-ahead, and stays zero */
};

static inline uint32_t v8_code_at(const struct v8_code *code, uint32_t at) {
        at &= 2 * V8_CODE_LINE - 1;
        barrier_var(at);
        at &= 2 * V8_CODE_LINE - 1;
        return code->bytes[at];
}

static inline uint32_t v8_code_4(const struct v8_code *code, uint32_t at) {
        return v8_code_at(code, at) << 24 | v8_code_at(code, at + 1) << 16 | v8_code_at(code, at + 2) << 8 |
                v8_code_at(code, at + 3);
}

/* @code: from the begin of a function on; @offset: of the pc, in this line. Global: followed once. */
APART int v8_prologue(const struct v8_code *code, uint32_t offset) {
        uint64_t frames = 0, calls = 0, first, here = 1ULL << (offset & (V8_CODE_LINE - 1));
        uint32_t four;

        if (!code)
                return V8_STAGE_WHOLE;
        four = v8_code_4(code, 0);
        for (uint32_t i = 0; i < V8_CODE_LINE - 4; i++) {
                frames |= (unwind_is_same(four, 0x554889e5) | unwind_is_same(four, 0x55488bec)) << i;
                calls |= unwind_is_same(four >> 24, 0xe8) << i;
                four = four << 8 | v8_code_at(code, i + 4);
        }
        if (!frames)
                return calls & (here - 1) ? V8_STAGE_WHOLE : V8_STAGE_NONE;
        first = frames & -frames;
        return here <= first ? V8_STAGE_NONE : here == first << 1 ? V8_STAGE_PUSHED : V8_STAGE_WHOLE;
}

/* @code: V8_CODE_BEFORE bytes in front of the pc. */
APART int v8_epilogue(const struct v8_code *code) {
        int stage = V8_STAGE_WHOLE;

        if (!code)
                return stage;
        for (uint32_t i = 0; i < V8_CODE_BEFORE; i++) {
                uint32_t byte = v8_code_at(code, i), two = byte << 8 | v8_code_at(code, i + 1);

                if (i + 4 <= V8_CODE_BEFORE && v8_code_4(code, i) == 0x488be55d) {
                        stage = V8_STAGE_POPPED;
                        i += 3;
                } else if (stage == V8_STAGE_WHOLE) {
                        continue;
                } else if (byte == 0xc3 || byte == 0xc2) {
                        stage = V8_STAGE_WHOLE;
                } else if (two == 0x415a) {
                        stage = V8_STAGE_R10;
                        i++;
                } else if (two == 0x4152) {
                        stage = V8_STAGE_POPPED;
                        i++;
                } else if (byte == 0x59) {
                        stage = V8_STAGE_RCX;
                } else if (byte == 0x51) {
                        stage = V8_STAGE_POPPED;
                }
        }
        return stage;
}
