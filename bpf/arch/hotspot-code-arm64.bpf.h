/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Code of HotSpot: arm64
 *
 * Where a frame lies while its own prologue or epilogue runs, told by the instructions of the code. A frame
 * of compiled code keeps the caller's x29 and x30 in its two highest words. It is made in one of two ways
 * (MacroAssembler::build_frame), behind what touches the stack further down, or signs x30:
 *
 *     sub sp, sp, #N                       below 528 bytes
 *     stp x29, x30, [sp, #N-16]
 *
 *     stp x29, x30, [sp, #-16]!            larger ones
 *     sub sp, sp, #N-16                    or x8, which has the number
 *
 * and is left the other way round, before a poll of the safepoint and `ret`:
 *
 *     ldp x29, x30, [sp, #N-16]            add sp, sp, #N-16
 *     add sp, sp, #N                       ldp x29, x30, [sp], #16
 *
 * Everything else is not guessed. Includes nothing, as unwind.bpf.h.
 */

enum {
        HOTSPOT_CODE_SIZE = 64,         /* bytes that are looked at */
        HOTSPOT_CODE_BEFORE = 32,       /* bytes in front of the pc among these */
        HOTSPOT_CODE_INSTRUCTIONS = HOTSPOT_CODE_SIZE / 4,
        HOTSPOT_CODE_POLL = 4,          /* instructions from a frame's end to `ret` */

        HOTSPOT_IN_REGISTER = 1,        /* a call leaves its return address in x30 */
        HOTSPOT_PUSHED_BYTES = 16,      /* by loops of compiled code: sp stays a multiple of 16 */
        /* registers of frame 0 (rules-arm64.bpf.h keeps x16 … x28) */
        HOTSPOT_KEPT_SENDER = 3,        /* x19: the caller's sp, until the frame has it (keeps_sender) */
        HOTSPOT_KEPT_BCP = 6,           /* x22: bcp while templates run */
        HOTSPOT_KEPT_THREAD = 12,       /* x28: the JavaThread, while code of Java runs */
};

/* Where the caller's frame begins, seen from sp. */
enum hotspot_stage {
        HOTSPOT_STAGE_WHOLE,            /* sp + the frame's size; x29 and x30 are saved below it */
        HOTSPOT_STAGE_NONE,             /* sp; x29 and x30 are the caller's */
        HOTSPOT_STAGE_PUSHED,           /* sp + 16, x29 and x30 are saved at sp */
        HOTSPOT_STAGE_UNSAVED,          /* sp + the frame's size, x29 and x30 are the caller's */
        HOTSPOT_STAGE_UNKNOWN,
};

struct hotspot_code {
        uint32_t words[HOTSPOT_CODE_INSTRUCTIONS];
};

static inline bool hotspot_code_read(struct hotspot_code *code, uint64_t address) {
        return !(address & 3) &&
               !bpf_probe_read_user(code->words, HOTSPOT_CODE_SIZE, (const void *)address);
}

/* The instruction at byte @at, a multiple of 4. */
static inline uint32_t hotspot_code_at(const struct hotspot_code *code, uint32_t at) {
        at = at / 4 & (HOTSPOT_CODE_INSTRUCTIONS - 1);
        barrier_var(at);
        at &= HOTSPOT_CODE_INSTRUCTIONS - 1;
        return code->words[at];
}

/* `sub sp, sp, #N`, or by a register. */
static inline bool hotspot_is_sub(uint32_t word) {
        return (word & 0xff8003ff) == 0xd10003ff || (word & 0xffe0ffff) == 0xcb2063ff;
}

static inline bool hotspot_is_add(uint32_t word) {
        return (word & 0xff8003ff) == 0x910003ff || (word & 0xffe0ffff) == 0x8b2063ff;
}

/* Pairs of x29 and x30: `stp …, [sp, #-16]!`, `stp …, [sp, #N]`, and the loads. */
static inline bool hotspot_is_push(uint32_t word) {
        return word == 0xa9bf7bfd;
}

static inline bool hotspot_is_save(uint32_t word) {
        return (word & 0xffe07fff) == 0xa9007bfd;
}

static inline bool hotspot_is_pop(uint32_t word) {
        return word == 0xa8c17bfd;
}

static inline bool hotspot_is_load(uint32_t word) {
        return (word & 0xffe07fff) == 0xa9407bfd;
}

static inline bool hotspot_is_ret(uint32_t word) {
        return word == 0xd65f03c0;
}

/* @code: from the verified entry on; @at: of the interrupted instruction, from there. */
static inline enum hotspot_stage hotspot_prologue(const struct hotspot_code *code, uint64_t at) {
        enum hotspot_stage stage = HOTSPOT_STAGE_NONE;

        for (uint32_t i = 0; i < HOTSPOT_CODE_INSTRUCTIONS; i++) {
                uint32_t word = code->words[i];

                if (at <= 4 * i)
                        return stage;
                if (stage == HOTSPOT_STAGE_NONE && hotspot_is_push(word))
                        stage = HOTSPOT_STAGE_PUSHED;
                else if (stage == HOTSPOT_STAGE_NONE && hotspot_is_sub(word))
                        stage = HOTSPOT_STAGE_UNSAVED;
                else if (stage == HOTSPOT_STAGE_PUSHED && hotspot_is_sub(word))
                        return HOTSPOT_STAGE_WHOLE;
                else if (stage == HOTSPOT_STAGE_UNSAVED && hotspot_is_save(word))
                        return HOTSPOT_STAGE_WHOLE;
        }
        return HOTSPOT_STAGE_UNKNOWN;
}

/* Whether the instructions in front of @at have taken the frame down, and what follows is `ret` at last. */
static inline bool hotspot_is_left(const struct hotspot_code *code, uint32_t at) {
        for (uint32_t i = 1; i <= HOTSPOT_CODE_POLL; i++) {
                uint32_t word = hotspot_code_at(code, at - 4 * i);

                if (hotspot_is_pop(word) ||
                    (hotspot_is_add(word) && hotspot_is_load(hotspot_code_at(code, at - 4 * i - 4))))
                        return true;
                if (hotspot_is_ret(word))
                        return false;
        }
        return false;
}

static inline bool hotspot_returns_soon(const struct hotspot_code *code, uint32_t at) {
        for (uint32_t i = 0; i <= HOTSPOT_CODE_POLL; i++)
                if (hotspot_is_ret(hotspot_code_at(code, at + 4 * i)))
                        return true;
        return false;
}

/* @code: HOTSPOT_CODE_BEFORE bytes in front of the interrupted instruction, and what follows. */
static inline enum hotspot_stage hotspot_epilogue(const struct hotspot_code *code) {
        uint32_t at = HOTSPOT_CODE_BEFORE, word = hotspot_code_at(code, at);

        if (hotspot_is_pop(word) && hotspot_is_add(hotspot_code_at(code, at - 4)))
                return HOTSPOT_STAGE_PUSHED;
        if (hotspot_is_ret(word) || (hotspot_returns_soon(code, at) && hotspot_is_left(code, at)))
                return HOTSPOT_STAGE_NONE;
        return HOTSPOT_STAGE_WHOLE;
}

/* Whether the instruction in front of @at is a call: `bl`, `blr`. */
static inline bool hotspot_is_call(const struct hotspot_code *code, uint32_t at) {
        uint32_t word = hotspot_code_at(code, at - 4);

        return (word & 0xfc000000) == 0x94000000 || (word & 0xfffffc1f) == 0xd63f0000;
}

/*
 * Whether the code at @at begins with `ldr x8, [x28, #N]; mov sp, x8`, where the thread keeps its
 * ContinuationEntry: so begins the return barrier, and nothing else (StubGenerator::generate_cont_thaw).
 */
static inline bool hotspot_is_barrier(const struct hotspot_code *code, uint32_t at) {
        return (hotspot_code_at(code, at) & 0xffc003ff) == 0xf9400388 &&
               hotspot_code_at(code, at + 4) == 0x9100011f;
}

/* Whether the instruction at @at is `adr x30, .`, as a deopt handler begins. */
static inline bool hotspot_is_deopt_handler(const struct hotspot_code *code, uint32_t at) {
        return hotspot_code_at(code, at) == 0x1000001e;
}

/* A stub: code without a description. Its frame is made by `stp x29, x30, [sp, #-16]!; mov x29, sp`. */
static inline enum hotspot_stage hotspot_stub(const struct hotspot_code *code) {
        uint32_t at = HOTSPOT_CODE_BEFORE, word = hotspot_code_at(code, at);

        if (hotspot_is_ret(word) || hotspot_is_push(word))
                return HOTSPOT_STAGE_NONE;
        return hotspot_is_push(hotspot_code_at(code, at - 4)) ? HOTSPOT_STAGE_PUSHED : HOTSPOT_STAGE_WHOLE;
}
