/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Rules: arm64
 *
 * A call leaves its return address in x30. A function that calls others saves it, mostly in a pair with the
 * caller's x29, at the bottom of its frame (AAPCS64, 6.4.6):
 *
 *     rule: CFA = sp + 48, x29 saved at CFA - 48, return address above it
 *
 *     address   word
 *     ff..c0    caller's x29                = CFA - 48      ← sp, x29
 *     ff..c8    return address              = CFA - 40
 *     ff..d0    locals
 *     ff..f0    …the caller's frame         ← CFA, the caller's sp
 *
 * A word of a rule has the same bits as on x86-64 (unwind_abi.h): the stack pointer in rsp's place, x29 in
 * rbp's. Six bits that speak of rbx there say here where the return address is (UNWIND_RETURN_*).
 *
 * Code that signs return addresses (pointer authentication) has a code in their upper bits, below the tag.
 * unwind_return_address() takes it away, and each word that becomes a return address goes through it.
 *
 * struct rules keeps x16 … x28 of frame 0 in registers[0 … 12].
 */

enum {
        RULES_FIRST_KEPT = 16,          /* registers of frame 0 that are kept */
        RULES_LAST_KEPT = 28,
        /* offsets in struct rt_sigframe, from the sp at its start (arch/arm64/kernel/signal.c) */
        RULES_SIGNAL_X29 = 544,
        RULES_SIGNAL_X30 = 552,
        RULES_SIGNAL_SP = 560,
        RULES_SIGNAL_PC = 568,
};

/* `mov x8,#139; svc #0`: rt_sigreturn, as the vdso has it, without a row since Linux 5.8. */
#define RULES_SIGRETURN_CODE 0xd4000001d2801168ull

/*
 * A stub of the procedure linkage table: adrp x16; ldr x17; add x16; br x17. Nothing of it moves sp or x30,
 * and linkers write no rows for it.
 */
#define RULES_STUB_LOW 0xf940021190000010ull
#define RULES_STUB_LOW_MASK 0xffc003ff9f00001full
#define RULES_STUB_HIGH 0xd61f022091000210ull
#define RULES_STUB_HIGH_MASK 0xffffffffffc003ffull

static inline bool rules_is_stub(uint64_t pc) {
        uint64_t code[2] = { 0, 0 };

        for (int i = 0; i < 4; i++)
                if (!bpf_probe_read_user(code, sizeof(code), (const void *)(pc - 4 * (uint64_t)i)) &&
                    (code[0] & RULES_STUB_LOW_MASK) == RULES_STUB_LOW &&
                    (code[1] & RULES_STUB_HIGH_MASK) == RULES_STUB_HIGH)
                        return true;
        return false;
}

#define RULES_TRAMPOLINE_RULE (~0ull)   /* no code of Python's is known here */

/* The rule of a pc without a row that its code tells; 0 = it does not. */
static inline uint64_t rules_by_code(uint64_t pc) {
        uint64_t code = 0;

        /* interrupted at its first or second instruction, or in the call, which has the pc behind it */
        for (int i = 0; i < 3; i++)
                if (!bpf_probe_read_user(&code, sizeof(code), (const void *)(pc - 4 * (uint64_t)i)) &&
                    code == RULES_SIGRETURN_CODE)
                        return (uint64_t)UNWIND_CFA_SIGNAL << 48;
        return rules_is_stub(pc) ? (uint64_t)UNWIND_CFA_RSP << 48 : 0;
}

/* `bl`, and `blr` with and without authentication (Arm ARM, C4.1.65). */
static inline bool rules_is_behind_call(uint64_t pc) {
        uint32_t code = 0;

        if (bpf_probe_read_user(&code, sizeof(code), (const void *)(pc - sizeof(code))))
                return !RULES_HAS_CODE;
        return code >> 26 == 0x25 || (code & 0xfefff000) == 0xd63f0000;
}

/* The kernel has pushed all registers where the handler's frame ends: at sp. */
static inline bool rules_signal(struct unwind *unwind, struct rules *rules) {
        struct window *window = &unwind->window;
        uint64_t sp = unwind->sp, pc, frame, link, caller_sp;

        if (rules->n_signals >= RULES_MAX_SIGNALS)
                return rules_end(unwind, ABI_STACK_BAD_CFA);
        if (rules->is_sp_lost)
                return rules_end(unwind, ABI_STACK_UNSUPPORTED);
        if (!window_read_word(window, sp + RULES_SIGNAL_X29, &frame) ||
            !window_read_word(window, sp + RULES_SIGNAL_X30, &link) ||
            !window_read_word(window, sp + RULES_SIGNAL_SP, &caller_sp) ||
            !window_read_word(window, sp + RULES_SIGNAL_PC, &pc))
                return rules_end(unwind, ABI_STACK_FAULT);
        unwind->pc = pc;
        unwind->sp = caller_sp;
        unwind->bp = frame;
        rules->bx = unwind_return_address(link);
        rules_interrupt(unwind, rules);
        return true;
}

/* Registers of the caller, given the CFA. Return: false and `end`, registers untouched. */
static inline bool rules_restore(struct unwind *unwind, struct rules *rules, uint64_t rule, uint64_t cfa) {
        uint64_t at = cfa + (int64_t)(int16_t)(rule >> 32), pc = rules->bx, frame = unwind->bp;
        uint32_t kind = (uint32_t)(rule >> 56) & 3, place = (uint32_t)(rule >> 58);

        if (kind == UNWIND_RBP_LOST)
                frame = 0;
        else if (kind && !window_read_word(&unwind->window, at, &frame))
                return rules_end(unwind, ABI_STACK_FAULT);
        if (place) {
                at = place == UNWIND_RETURN_BESIDE ? at + 8 : cfa - 8 * (uint64_t)place;
                if (!window_read_word(&unwind->window, at, &pc))
                        return rules_end(unwind, ABI_STACK_FAULT);
                pc = unwind_return_address(pc);
        }
        if (!pc)        /* a word of 0 begins a stack; a register that is not known says nothing */
                return rules_end(unwind, place ? ABI_STACK_FP_END : ABI_STACK_BAD_CFA);
        unwind->pc = pc;
        unwind->sp = cfa;
        unwind->bp = frame;
        rules->bx = 0;                  /* a call has overwritten it: each frame above has saved its own */
        return true;
}

static __always_inline bool rules_apply(struct unwind *unwind, struct rules *rules, uint64_t rule) {
        uint32_t kind = (uint32_t)(rule >> 48) & 0xff;
        uint64_t base = unwind->sp, cfa;

        rules->is_exact = kind / UNWIND_CFA_LANDING;
        kind &= UNWIND_CFA_LANDING - 1;
        if (kind == UNWIND_CFA_FP)
                return rules_by_frame_pointer(unwind, rules);
        if (kind == UNWIND_CFA_SIGNAL)
                return rules_signal(unwind, rules);
        if (kind == UNWIND_CFA_END)
                return rules_end(unwind, ABI_STACK_COMPLETE);
        if (kind == UNWIND_CFA_GAP)
                return rules_end(unwind, unwind->bp ? ABI_STACK_NO_ROWS : ABI_STACK_FP_END);
        if (kind == UNWIND_CFA_RBP)
                base = unwind->bp;
        else if (kind != UNWIND_CFA_RSP || rules->is_sp_lost)
                return rules_end(unwind, ABI_STACK_UNSUPPORTED);
        cfa = base + (int64_t)(int32_t)rule;
        /* A frame without size has saved nothing: each step takes x30 away, so there are no circles. */
        if (cfa < unwind->sp || (cfa & 7) || (cfa == unwind->sp && rule >> 58))
                return rules_end(unwind, ABI_STACK_BAD_CFA);
        rules->is_sp_lost = 0;
        return rules_restore(unwind, rules, rule, cfa);
}
