/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Rules: x86-64
 *
 *     rule: CFA = rsp + 24, rbp saved at CFA - 16
 *
 *     address   word
 *     7ff..c0   local                       ← rsp
 *     7ff..c8   caller's rbp                = CFA - 16
 *     7ff..d0   return address              = CFA - 8, always (psABI 3.2.2)
 *     7ff..d8   …the caller's frame         ← CFA, the caller's rsp
 *
 * struct rules keeps the registers of frame 0 by their DWARF number; rsp, rbp and rbx are elsewhere.
 *
 * Assembly may keep its CFA in a register across calls of functions that leave it alone (OpenSSL's AES: rax,
 * r11). Its row says so for the call, and nothing else does: no rule knows what callees do to that register.
 * So where such a row is a caller's, its CFA counts only if the word below it lies behind a call:
 *
 *     aesni_gcm_encrypt   CFA = rax + 8    ─▶ word at rax: 55..84, and the code in front of 55..84 is a call
 *     its callee          CFA = rsp + 8    leaves rax alone, as the author of both has seen to
 */

enum {
        /* offsets in struct rt_sigframe, from the rsp at its start (arch/x86/include/asm/sigframe.h) */
        RULES_SIGNAL_R8 = 40,           /* … r15 */
        RULES_SIGNAL_RDI = 104,
        RULES_SIGNAL_RSI = 112,
        RULES_SIGNAL_RBP = 120,
        RULES_SIGNAL_RBX = 128,
        RULES_SIGNAL_RDX = 136,
        RULES_SIGNAL_RAX = 144,
        RULES_SIGNAL_RCX = 152,
        RULES_SIGNAL_RSP = 160,
        RULES_SIGNAL_RIP = 168,
};

/* `mov $15,%rax; syscall`: rt_sigreturn, as every libc's restorer has it. musl's has no row. */
#define RULES_SIGRETURN_CODE 0x0f0000000fc0c748ull
#define RULES_SIGRETURN_CODE_END 0x05

/*
 * `call *%rcx; add $8,%rsp; ret`: the code that CPython makes for each function under `-X perf`, from 3.12 on.
 * It calls the evaluator (Python/asm_trampoline.S).
 */
#define RULES_TRAMPOLINE_CODE 0xc308c48348d1ffull
#define RULES_TRAMPOLINE_SIZE 7
#define RULES_TRAMPOLINE_CALL 2         /* bytes before the return address */

/*
 * `xor %rdi,%rdi; call _exit; hlt`: where a coroutine of Boost.Context returns to (make_fcontext; PHP's fibers
 * have a copy of it). The distance of the call is left out.
 */
#define RULES_FIBER_END_CODE 0xe8ff3148ull
#define RULES_FIBER_END_SIZE 9
#define RULES_FIBER_END_LAST 0xf4

/*
 * Words of Go's runtime (runtime/runtime2.go), the same from Go 1.18 to 1.27, but for the place of m.curg.
 * Each is believed only if those that it leads to lead back.
 */
enum {
        RULES_GO_M = 48,                /* in struct g */
        RULES_GO_SP = 56,
        RULES_GO_PC = 64,
        RULES_GO_SELF = 72,             /* g.sched.g */
        RULES_GO_CURG = 184,            /* in struct m, from Go 1.25 on; one word later before */
        RULES_GO_REGISTER = 14,         /* r14 is g in all of Go's own code */
};

/*
 * Its rule: CFA = rsp + 16, and a place of rbp that counts for nothing where rbp was not saved. No row has
 * that, so the rule tells this code from all other.
 */
#define RULES_TRAMPOLINE_RULE unwind_rule(UNWIND_CFA_RSP, 16, 0, 1, 0)

/* The rule of a pc without a row that its code tells; 0 = it does not. */
static inline uint64_t rules_by_code(uint64_t pc) {
        uint64_t code[2] = { 0, 0 };

        if (!bpf_probe_read_user(code, RULES_TRAMPOLINE_SIZE, (const void *)(pc - RULES_TRAMPOLINE_CALL)) &&
            code[0] == RULES_TRAMPOLINE_CODE)
                return RULES_TRAMPOLINE_RULE;
        code[0] = 0;
        if (bpf_probe_read_user(code, RULES_FIBER_END_SIZE, (const void *)pc))
                return 0;
        if ((uint32_t)code[0] == RULES_FIBER_END_CODE && (code[1] & 0xff) == RULES_FIBER_END_LAST)
                return (uint64_t)UNWIND_CFA_END << 48;
        if (code[0] != RULES_SIGRETURN_CODE || (code[1] & 0xff) != RULES_SIGRETURN_CODE_END)
                return 0;
        return (uint64_t)UNWIND_CFA_SIGNAL << 48;
}

/* The kernel has pushed all registers where the handler's frame ends: at rsp. */
static inline bool rules_signal(struct unwind *unwind, struct rules *rules) {
        struct window *window = &unwind->window;
        uint64_t sp = unwind->sp, pc, bp, bx, caller_sp;

        if (rules->n_signals >= RULES_MAX_SIGNALS)
                return rules_end(unwind, ABI_STACK_BAD_CFA);
        if (!window_read_word(window, sp + RULES_SIGNAL_RBP, &bp) ||
            !window_read_word(window, sp + RULES_SIGNAL_RBX, &bx) ||
            !window_read_word(window, sp + RULES_SIGNAL_RSP, &caller_sp) ||
            !window_read_word(window, sp + RULES_SIGNAL_RIP, &pc))
                return rules_end(unwind, ABI_STACK_FAULT);
        unwind->pc = pc;
        unwind->sp = caller_sp;
        unwind->bp = bp;
        rules->bx = bx;
        rules->signal_frame = sp;
        rules_interrupt(unwind, rules);
        return true;
}

enum { RULES_CALL_SIZE = 8 };           /* bytes in front of a return address; the longest call has 7 */

/*
 * A call in front of @end: e8 and a distance, or ff /2 with its operand (Intel SDM, CALL), whose second byte
 * has the mode in its upper two bits and 4 in the lower three if a third byte follows.
 */
static inline bool rules_is_call(const uint8_t code[RULES_CALL_SIZE]) {
        const uint8_t *end = code + RULES_CALL_SIZE;
        bool is_plain = end[-2] == 0xff && (end[-1] & 0x38) == 0x10 && (end[-1] & 7) != 4 && end[-1] != 0x15;
        bool is_third = end[-3] == 0xff && (end[-2] == 0x14 || ((end[-2] & 0xf8) == 0x50 && end[-2] != 0x54));
        bool is_fourth = end[-4] == 0xff && end[-3] == 0x54;
        bool is_far = end[-6] == 0xff && (end[-5] == 0x15 || ((end[-5] & 0xf8) == 0x90 && end[-5] != 0x94));

        return end[-5] == 0xe8 || is_plain || is_third || is_fourth || is_far ||
                (end[-7] == 0xff && end[-6] == 0x94);
}

static inline bool rules_is_behind_call(uint64_t pc) {
        uint8_t code[RULES_CALL_SIZE];

        if (bpf_probe_read_user(code, sizeof(code), (const void *)(pc - sizeof(code))))
                return !RULES_HAS_CODE;
        return rules_is_call(code);
}

/* Whether the word below @cfa lies behind a call. One that cannot be read is rules_restore()'s to report. */
static inline bool rules_is_called(struct unwind *unwind, uint64_t cfa) {
        uint64_t pc;

        return !window_read_word(&unwind->window, cfa - 8, &pc) || rules_is_behind_call(pc);
}

/* CFA in memory: at a register + 24-bit offset, + 8-bit addend. */
static inline bool rules_deref(struct unwind *unwind, uint64_t base, int32_t offset, uint64_t *cfap) {
        uint64_t value;

        if (!window_read_word(&unwind->window, base + (int64_t)(offset >> 8), &value))
                return rules_end(unwind, ABI_STACK_FAULT);
        *cfap = value + (int64_t)(int8_t)offset;
        return true;
}

/* CFA in memory that memory leads to: 16-bit offset, 8 bits in between, 8-bit addend. */
static inline bool rules_deref_twice(struct unwind *unwind, uint64_t base, int32_t offset, uint64_t *cfap) {
        uint64_t value;

        if (!window_read_word(&unwind->window, base + (int64_t)(offset >> 16), &value) ||
            !window_read_word(&unwind->window, value + (int64_t)(int8_t)(offset >> 8), &value))
                return rules_end(unwind, ABI_STACK_FAULT);
        *cfap = value + (int64_t)(int8_t)offset;
        return true;
}

/*
 * The rarer kinds are sums, told apart by a table and not by branches: the verifier
 * follows each branch through all that comes after it. The leaf's value is that of a
 * general register, which is known where the sample was taken, or where a signal came in.
 */
struct rules_terms {
        uint8_t sp, bp, leaf;           /* factors of the registers */
        uint8_t is_leaf;                /* the kind needs a general register's value */
        uint8_t is_kept;                /* … which callees may have kept for it */
        uint8_t is_deref;               /* the CFA lies in memory there; 2 = where memory leads */
        uint8_t is_stub;
        uint8_t is_switch;              /* the CFA is on another stack than the frame's own */
        uint8_t may_switch;             /* it may be: OCaml notes the stack that it leaves */
};

enum {
        /* index of the kinds that have a register's number in their low four bits */
        RULES_TERMS_LEAF = 16,
        RULES_N_TERMS = 32,
};

static const struct rules_terms rules_terms[RULES_N_TERMS] = {
        [UNWIND_CFA_RSP] = { .sp = 1 },         /* with LANDING: the others do not come here */
        [UNWIND_CFA_DEREF_RSP] = { .sp = 1, .is_deref = 1, .may_switch = 1 },
        [UNWIND_CFA_DEREF_RBP] = { .bp = 1, .is_deref = 1 },
        [UNWIND_CFA_PLT] = { .sp = 1, .is_stub = 1 },
        [UNWIND_CFA_SWITCH] = { .bp = 1, .is_switch = 1 },
        [RULES_TERMS_LEAF + UNWIND_CFA_REGISTER / 16] = { .leaf = 1, .is_leaf = 1, .is_kept = 1 },
        [RULES_TERMS_LEAF + UNWIND_CFA_RETURN / 16] = { .sp = 1, .is_leaf = 1 },
        [RULES_TERMS_LEAF + UNWIND_CFA_INDEXED / 16] = { .sp = 1,
                                                         .leaf = 8,
                                                         .is_leaf = 1,
                                                         .is_kept = 1,
                                                         .is_deref = 1 },
        [RULES_TERMS_LEAF + UNWIND_CFA_SUM / 16] = { .bp = 1, .leaf = 1, .is_leaf = 1 },
        [RULES_TERMS_LEAF + UNWIND_CFA_DEREF_TWICE / 16] = { .sp = 1, .is_deref = 2, .may_switch = 1 },
};

static inline const struct rules_terms *rules_terms_of(uint32_t kind) {
        uint32_t index = kind < 16 ? kind : RULES_TERMS_LEAF + (kind >> 4);

        index &= RULES_N_TERMS - 1;
        barrier_var(index);
        index &= RULES_N_TERMS - 1;
        return &rules_terms[index];
}

/*
 * Places in the kernel's frame of registers by their DWARF number. The 17th is that of the return address, so
 * that it is no constant of 16 bytes: clang gives these a section of their own, which libbpf cannot load.
 */
static const uint8_t rules_signal_places[RULES_N_REGISTERS + 1] = {
        RULES_SIGNAL_RAX,     RULES_SIGNAL_RDX,     RULES_SIGNAL_RCX,     RULES_SIGNAL_RBX,
        RULES_SIGNAL_RSI,     RULES_SIGNAL_RDI,     RULES_SIGNAL_RBP,     RULES_SIGNAL_RSP,
        RULES_SIGNAL_R8,      RULES_SIGNAL_R8 + 8,  RULES_SIGNAL_R8 + 16, RULES_SIGNAL_R8 + 24,
        RULES_SIGNAL_R8 + 32, RULES_SIGNAL_R8 + 40, RULES_SIGNAL_R8 + 48, RULES_SIGNAL_R8 + 56,
        RULES_SIGNAL_RIP,
};

static inline uint64_t rules_leaf_register(struct unwind *unwind, const struct rules *rules, uint32_t kind) {
        uint32_t reg = kind & (RULES_N_REGISTERS - 1);
        uint64_t value = 0;

        barrier_var(reg);
        reg &= RULES_N_REGISTERS - 1;
        if (!rules->signal_frame)
                return rules->registers[reg];
        window_read_word(&unwind->window, rules->signal_frame + rules_signal_places[reg], &value);
        return value;
}

/* A stub's offset is 8, and 8 more where pc & 15 is not below the limit that the rule has in its place. */
static inline int64_t rules_offset(const struct rules_terms *terms, uint64_t pc, int32_t offset) {
        int64_t stub = 8 + (int64_t)(8 * ((uint64_t)((int64_t)offset - 1 - (int64_t)(pc & 15)) >> 63));

        return terms->is_stub * stub + (1 - terms->is_stub) * (int64_t)offset;
}

static inline uint64_t rules_go_word(struct unwind *unwind, uint64_t at) {
        uint64_t word = 0;

        window_read_word(&unwind->window, at, &word);
        return word;
}

static inline bool rules_is_goroutine(struct unwind *unwind, uint64_t g, uint64_t m) {
        return g && rules_go_word(unwind, g + RULES_GO_M) == m &&
                rules_go_word(unwind, g + RULES_GO_SELF) == g;
}

/*
 * Go's morestack has written down where the goroutine was, and has gone to the scheduler's stack, where
 * nothing leads back but g: r14 → scheduler's g → m → the goroutine's g.
 */
static inline bool rules_goroutine(struct unwind *unwind, struct rules *rules) {
        uint64_t g0 = rules->registers[RULES_GO_REGISTER], m = rules_go_word(unwind, g0 + RULES_GO_M), g,
                 other;

        if (unwind->n_frames == rules->first + 1 || !m || rules_go_word(unwind, m) != g0)
                return rules_end(unwind, ABI_STACK_UNSUPPORTED);
        g = rules_go_word(unwind, m + RULES_GO_CURG);
        other = rules_go_word(unwind, m + RULES_GO_CURG + 8);
        if (!(g | other))
                /* the goroutine has been put aside: the scheduler's stack is all that runs */
                return rules_end(unwind, ABI_STACK_COMPLETE);
        if (!rules_is_goroutine(unwind, g, m)) {
                g = other;
                if (!rules_is_goroutine(unwind, g, m))
                        return rules_end(unwind, ABI_STACK_UNSUPPORTED);
        }
        unwind->pc = rules_go_word(unwind, g + RULES_GO_PC);
        if (!unwind->pc || !rules_switch(unwind, rules))
                return rules_end(unwind, ABI_STACK_BAD_CFA);
        unwind->sp = rules_go_word(unwind, g + RULES_GO_SP);
        unwind->bp = 0;
        rules->bx = 0;
        /* systemstack notes the start of a function, which has made no call */
        rules->is_exact = 1;
        return true;
}

static inline bool rules_find_other_cfa(struct unwind *unwind, struct rules *rules, uint32_t kind,
                                        int32_t offset, uint64_t *cfap) {
        const struct rules_terms *terms = rules_terms_of(kind & (UNWIND_CFA_LANDING - 1));
        bool is_known = unwind->n_frames == rules->known, is_down;
        uint64_t base;

        if (kind == UNWIND_CFA_END)
                return rules_end(unwind, ABI_STACK_COMPLETE);
        if (kind == UNWIND_CFA_GAP)
                /* no guess: rbp is 0 where a program begins, as in ld.so's entry, which has no row */
                return rules_end(unwind, unwind->bp ? ABI_STACK_NO_ROWS : ABI_STACK_FP_END);
        if (!(terms->sp | terms->bp | terms->leaf) ||
            (terms->is_leaf && !is_known && !(terms->is_kept && rules->known)))
                return rules_end(unwind, ABI_STACK_UNSUPPORTED);
        rules->is_exact = kind / UNWIND_CFA_LANDING;
        if (terms->is_leaf)
                rules->leaf_value = rules_leaf_register(unwind, rules, kind);
        base = terms->sp * unwind->sp + terms->bp * unwind->bp + terms->leaf * rules->leaf_value;
        if (!terms->is_deref)
                *cfap = base + rules_offset(terms, unwind->pc, offset);
        else if (terms->is_deref == 1 ? !rules_deref(unwind, base, offset, cfap)
                                      : !rules_deref_twice(unwind, base, offset, cfap))
                return false;
        is_down = terms->may_switch && *cfap <= unwind->sp;
        if (((terms->is_leaf && !is_known) || is_down) && !rules_is_called(unwind, *cfap))
                return rules_end(unwind, is_down ? ABI_STACK_BAD_CFA : ABI_STACK_UNSUPPORTED);
        if (terms->is_switch || is_down)
                return rules_switch(unwind, rules);
        return true;
}

/* Registers of the caller, given the CFA. Return: false and `end`, registers untouched. */
static inline bool rules_restore(struct unwind *unwind, struct rules *rules, uint64_t rule, uint64_t cfa) {
        uint64_t at = cfa, pc, bp = unwind->bp, bx = rules->bx;
        uint32_t kind = (uint32_t)(rule >> 56) & 3, slot = (uint32_t)(rule >> 58);

        /* rbx first: it lies lowest, and the window grows upwards from the first word that is read. */
        if (slot == UNWIND_RBX_LOST)
                bx = 0;
        else if (slot && !window_read_word(&unwind->window, cfa - 8 * (uint64_t)slot, &bx))
                return rules_end(unwind, ABI_STACK_FAULT);
        if (kind == UNWIND_RBP_AT_RBP)
                at = bp;
        if (kind == UNWIND_RBP_LOST)
                bp = 0;
        else if (kind && !window_read_word(&unwind->window, at + (int64_t)(int16_t)(rule >> 32), &bp))
                return rules_end(unwind, ABI_STACK_FAULT);
        if (!window_read_word(&unwind->window, cfa - 8, &pc))
                return rules_end(unwind, ABI_STACK_FAULT);
        /*
         * Rows have led here from the leaf, so this is where the return address is: the function was entered
         * with 0 behind it, as the first one of a fiber is (D, Crystal). By a frame pointer it may be any
         * word.
         */
        if (!pc)
                return rules_end(unwind, rules->known ? ABI_STACK_COMPLETE : ABI_STACK_FP_END);
        unwind->pc = pc;
        unwind->sp = cfa;
        unwind->bp = bp;
        rules->bx = bx;
        return true;
}

/*
 * The leaf has popped its return address into a register: nothing is left to be read. It happens once, so the
 * CFA may stay.
 */
static inline bool rules_leaf_return(struct unwind *unwind, struct rules *rules, uint64_t cfa) {
        if (cfa < unwind->sp || (cfa & 7))
                return rules_end(unwind, ABI_STACK_BAD_CFA);
        if (!rules->leaf_value)
                return rules_end(unwind, ABI_STACK_FP_END);
        unwind->pc = rules->leaf_value;
        unwind->sp = cfa;
        return true;
}

/* Return: 0 = the walk is over, `end` says why; 1 = it is at the caller; 2 = rules->cfa is the CFA. */
APART int rules_rare(struct unwind *unwind, struct rules *rules, uint64_t rule) {
        uint32_t kind = (uint32_t)(rule >> 48) & 0xff;

        if (!unwind || !rules)
                return 0;
        if (kind == UNWIND_CFA_SIGNAL)
                return rules_signal(unwind, rules);
        if (kind == UNWIND_CFA_GOROUTINE)
                return rules_goroutine(unwind, rules);
        if (!rules_find_other_cfa(unwind, rules, kind, (int32_t)rule, &rules->cfa))
                return 0;
        return (kind & 0x70) == UNWIND_CFA_RETURN ? rules_leaf_return(unwind, rules, rules->cfa) : 2;
}

static __always_inline bool rules_apply(struct unwind *unwind, struct rules *rules, uint64_t rule) {
        uint32_t kind = (uint32_t)(rule >> 48) & 0xff;
        uint64_t cfa = unwind->sp;
        int r;

        if (kind <= UNWIND_CFA_RBX) {
                if (kind == UNWIND_CFA_RBP)
                        cfa = unwind->bp;
                if (kind == UNWIND_CFA_RBX)
                        cfa = rules->bx;
                cfa += (int64_t)(int32_t)rule;
        } else if (kind == UNWIND_CFA_FP) {
                return rules_by_frame_pointer(unwind, rules);
        } else {
                r = rules_rare(unwind, rules, rule);
                if (r < 2)
                        return r;
                cfa = rules->cfa;
        }
        /* Every frame lies above the one that it called: else a crafted stack would be walked in circles. */
        if (cfa <= unwind->sp || (cfa & 7))
                return rules_end(unwind, ABI_STACK_BAD_CFA);
        return rules_restore(unwind, rules, rule, cfa);
}
