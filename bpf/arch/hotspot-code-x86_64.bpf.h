/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Code of HotSpot: x86-64
 *
 * Where a frame lies while its own prologue or epilogue runs, told by the bytes of the code. The assemblers
 * of HotSpot write a prologue in one of three ways (MacroAssembler::verified_entry,
 * C1_MacroAssembler::build_frame):
 *
 *     89 84 24 ..          mov %eax,-N(%rsp)       touches the stack further down; may be missing
 *     55                   push %rbp
 *     48 8b ec             mov %rsp,%rbp           only with PreserveFramePointer, and in native wrappers
 *     48 81 ec / 83 ec     sub $N,%rsp
 *
 *     48 81 ec / 83 ec     sub $N,%rsp             C2, where the stack is not touched
 *     48 89 6c 24 / ac 24  mov %rbp,N-16(%rsp)
 *
 * and an epilogue as `add $N,%rsp; pop %rbp`, a poll of the safepoint, `ret`. Everything else is not guessed.
 * Includes nothing, as unwind.bpf.h.
 */

enum {
        HOTSPOT_CODE_SIZE = 32,         /* bytes that are looked at */
        HOTSPOT_CODE_BEFORE = 16,       /* bytes in front of the pc among these */

        HOTSPOT_IN_REGISTER = 0,        /* a call leaves its return address on the stack */
        HOTSPOT_PUSHED_BYTES = 8,       /* by loops of compiled code */
        /* registers of frame 0: r13 is the caller's rsp until the frame has it, then the bcp in templates */
        HOTSPOT_KEPT_SENDER = 13,
        HOTSPOT_KEPT_BCP = 13,
        HOTSPOT_KEPT_THREAD = 15,       /* r15: the JavaThread, while code of Java runs */
};

/* Where the caller's frame begins, seen from rsp. */
enum hotspot_stage {
        HOTSPOT_STAGE_WHOLE,            /* rsp + the frame's size; rbp is saved at CFA - 16 */
        HOTSPOT_STAGE_NONE,             /* rsp + 8, rbp is the caller's */
        HOTSPOT_STAGE_PUSHED,           /* rsp + 16, rbp is saved at rsp */
        HOTSPOT_STAGE_UNSAVED,          /* rsp + the frame's size, rbp is the caller's */
        HOTSPOT_STAGE_UNKNOWN,
};

struct hotspot_code {
        uint8_t bytes[2 * HOTSPOT_CODE_SIZE];   /* the second half is room for look-ahead, and stays zero */
};

static inline uint32_t hotspot_code_at(const struct hotspot_code *code, uint32_t at) {
        at &= 2 * HOTSPOT_CODE_SIZE - 1;
        barrier_var(at);
        at &= 2 * HOTSPOT_CODE_SIZE - 1;
        return code->bytes[at];
}

static inline bool hotspot_code_read(struct hotspot_code *code, uint64_t address) {
        return !bpf_probe_read_user(code->bytes, HOTSPOT_CODE_SIZE, (const void *)address);
}

/* Two and three bytes as one number, the first byte highest. */
static inline uint32_t hotspot_code_2(const struct hotspot_code *code, uint32_t at) {
        return hotspot_code_at(code, at) << 8 | hotspot_code_at(code, at + 1);
}

static inline uint32_t hotspot_code_3(const struct hotspot_code *code, uint32_t at) {
        return hotspot_code_2(code, at) << 8 | hotspot_code_at(code, at + 2);
}

/* `sub $N,%rsp` at @at. Return: its size, or 0. */
static inline uint32_t hotspot_code_sub(const struct hotspot_code *code, uint32_t at) {
        uint32_t head = hotspot_code_3(code, at);

        return head == 0x4883ec ? 4 : head == 0x4881ec ? 7 : 0;
}

/* @code: from the verified entry on; @at: of the interrupted instruction, from there. */
static inline enum hotspot_stage hotspot_prologue(const struct hotspot_code *code, uint64_t at) {
        uint32_t i = hotspot_code_3(code, 0) == 0x898424 ? 7 : 0, size;

        if (at <= i)
                return HOTSPOT_STAGE_NONE;
        if (hotspot_code_at(code, i) == 0x55) {
                i++;
                if (hotspot_code_3(code, i) == 0x488bec || hotspot_code_3(code, i) == 0x4889e5) {
                        if (at <= i)
                                return HOTSPOT_STAGE_PUSHED;
                        i += 3;
                }
                size = hotspot_code_sub(code, i);
                if (!size)
                        return HOTSPOT_STAGE_UNKNOWN;
                return at <= i ? HOTSPOT_STAGE_PUSHED : HOTSPOT_STAGE_WHOLE;
        }
        size = hotspot_code_sub(code, i);
        if (!size)
                return HOTSPOT_STAGE_UNKNOWN;
        i += size;
        size = hotspot_code_3(code, i);
        if (size != 0x48896c && size != 0x4889ac)
                return HOTSPOT_STAGE_UNKNOWN;
        return at <= i ? HOTSPOT_STAGE_UNSAVED : HOTSPOT_STAGE_WHOLE;
}

/* Whether the bytes in front of @at are `add $N,%rsp; pop %rbp`. */
static inline bool hotspot_is_popped(const struct hotspot_code *code, uint32_t at) {
        return hotspot_code_at(code, at - 1) == 0x5d &&
               (hotspot_code_3(code, at - 5) == 0x4883c4 || hotspot_code_3(code, at - 8) == 0x4881c4);
}

/* Size of the instructions at @at that poll for a safepoint at a return: releases have had three forms. */
static inline uint32_t hotspot_poll(const struct hotspot_code *code, uint32_t at) {
        if (hotspot_code_3(code, at) == 0x493ba7 && hotspot_code_2(code, at + 7) == 0x0f87)
                return 13;              /* cmp N(%r15),%rsp; ja: since 16 */
        if (hotspot_code_3(code, at) == 0x4d8b97 && hotspot_code_3(code, at + 7) == 0x418502)
                return 10;              /* mov N(%r15),%r10; test %eax,(%r10): since 10 */
        if (hotspot_code_2(code, at) == 0x0f87)
                return 6;
        if (hotspot_code_3(code, at) == 0x418502)
                return 3;
        return hotspot_code_2(code, at) == 0x8505 ? 6 : 0;      /* test %eax,N(%rip): until 9 */
}

/* @code: HOTSPOT_CODE_BEFORE bytes in front of the interrupted instruction, and what follows. */
static inline enum hotspot_stage hotspot_epilogue(const struct hotspot_code *code) {
        uint32_t at = HOTSPOT_CODE_BEFORE, poll = hotspot_poll(code, at), head = hotspot_code_at(code, at);

        if (head == 0xc3 || hotspot_is_popped(code, at))
                return HOTSPOT_STAGE_NONE;
        /* Only a poll at a return stands in front of one. */
        if (poll && hotspot_code_at(code, at + poll) == 0xc3)
                return HOTSPOT_STAGE_NONE;
        if (head == 0x5d &&
            (hotspot_code_3(code, at - 4) == 0x4883c4 || hotspot_code_3(code, at - 7) == 0x4881c4))
                return HOTSPOT_STAGE_PUSHED;
        return HOTSPOT_STAGE_WHOLE;
}

/* Whether the bytes in front of @at are a call. */
static inline bool hotspot_is_call(const struct hotspot_code *code, uint32_t at) {
        uint32_t two = hotspot_code_2(code, at - 2), three = hotspot_code_2(code, at - 3),
                 six = hotspot_code_2(code, at - 6);

        return hotspot_code_at(code, at - 5) == 0xe8 || (two & 0xfff8) == 0xffd0 ||
               (two & 0xfff8) == 0xff10 || (three & 0xfff8) == 0xff50 || (six & 0xfff8) == 0xff90;
}

/*
 * Whether the code at @at begins with `mov N(%r15),%rsp`, where N(%r15) is the thread's ContinuationEntry: so
 * begins the return barrier, and nothing else (StubGenerator::generate_cont_thaw).
 */
static inline bool hotspot_is_barrier(const struct hotspot_code *code, uint32_t at) {
        return hotspot_code_3(code, at) == 0x498ba7;
}

/* Whether the bytes at @at are `call` of the next instruction, and that one `sub $5,(%rsp)`. */
static inline bool hotspot_is_deopt_handler(const struct hotspot_code *code, uint32_t at) {
        return hotspot_code_at(code, at) == 0xe8 && hotspot_code_2(code, at + 1) == 0 &&
               hotspot_code_2(code, at + 3) == 0 && hotspot_code_3(code, at + 5) == 0x48832c;
}

/*
 * A stub: code without a description. Its frame is made by `push %rbp; mov %rsp,%rbp`, or there is none.
 */
static inline enum hotspot_stage hotspot_stub(const struct hotspot_code *code) {
        uint32_t at = HOTSPOT_CODE_BEFORE;
        uint32_t three = hotspot_code_3(code, at), next = hotspot_code_3(code, at + 1);

        if (hotspot_code_at(code, at) == 0xc3 ||
            (hotspot_code_at(code, at) == 0x55 && (next == 0x488bec || next == 0x4889e5)))
                return HOTSPOT_STAGE_NONE;
        if (hotspot_code_at(code, at - 1) == 0x55 && (three == 0x488bec || three == 0x4889e5))
                return HOTSPOT_STAGE_PUSHED;
        return HOTSPOT_STAGE_WHOLE;
}
