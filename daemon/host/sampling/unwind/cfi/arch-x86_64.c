/* SPDX-License-Identifier: Apache-2.0 */

/*
 * x86-64
 *
 * A frame's caller is found from rsp, rbp and rbx: rsp because each return address
 * lies below a CFA, rbp because it is a frame pointer or holds a realigned frame,
 * rbx because the dynamic linker's lazy binding (_dl_runtime_resolve) keeps its
 * CFA in it. Others carry a CFA in a leaf, or across calls in assembly whose callees
 * leave them alone.
 */

#include "host/sampling/unwind/cfi/arch.h"

#include <string.h>

#include "border/unwind_abi.h"
#include "host/sampling/unwind/cfi/encoding.h"

enum {
        DWARF_RCX = 2,
        DWARF_RBX = 3,                  /* psABI, figure 3.36 */
        DWARF_RBP = 6,
        DWARF_RSP = 7,
        DWARF_GENERAL = 16,             /* rax … r15 are 0 … 15 */
        SLOT_RBX = 0,
        SLOT_RBP = 1,
        SLOT_RETURN = 2,
        /* rsp's place in the frame that the kernel pushes (struct rt_sigframe) */
        SIGNAL_RSP = 160,
        OP_BREG0 = 0x70,
        OP_DEREF = 0x06,
        OP_MUL = 0x1e,
        OP_PLUS = 0x22,
        OP_PLUS_UCONST = 0x23,
        OP_LIT0 = 0x30,
        OP_LIT31 = 0x4f,
};

const int8_t arch_slots[ARCH_N_REGISTERS] = {
        -1, -1, -1, SLOT_RBX, -1, -1, SLOT_RBP, -1, -1, -1, -1, -1, -1, -1, -1, -1, SLOT_RETURN,
};

bool arch_is_note(uint8_t op) {
        return false;
}

/*
 * A stub of the procedure linkage table pushes one word half-way through its 16
 * bytes. Linkers say so with one expression for all stubs:
 * rsp + 8 + ((rip & 15) >= LIMIT) * 8.
 */
static bool is_plt(const uint8_t *code, size_t size, int32_t *limitp) {
        static const uint8_t head[] = { 0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a };
        static const uint8_t tail[] = { 0x2a, 0x33, 0x24, 0x22 };

        if (size != sizeof(head) + 1 + sizeof(tail) || memcmp(code, head, sizeof(head)) != 0 ||
            memcmp(code + sizeof(head) + 1, tail, sizeof(tail)) != 0)
                return false;
        *limitp = code[sizeof(head)] - OP_LIT0;
        return *limitp >= 0 && *limitp <= 15;
}

/* Reads the words that may follow a dereference: nothing, plus_uconst N, or litN plus. */
static int64_t read_addend(Cursor *cursor) {
        int64_t add = 0;
        uint8_t op;

        if (cursor_left(cursor) == 0)
                return 0;
        op = cursor_u8(cursor);
        if (op == OP_PLUS_UCONST)
                add = (int64_t)encoding_uleb(cursor);
        else if (op >= OP_LIT0 && op <= OP_LIT31 && cursor_u8(cursor) == OP_PLUS)
                add = op - OP_LIT0;
        else
                cursor->failed = true;
        return add;
}

static bool fits_deref(int64_t offset, int64_t add) {
        return offset == (int64_t)((uint64_t)offset << 40) >> 40 && add >= INT8_MIN && add <= INT8_MAX;
}

/* Registers saved in memory, read by way of rsp or rbp: breg OFFSET, deref, addend. */
static bool is_deref(const uint8_t *code, size_t size, CfiState *state) {
        Cursor cursor = cursor_make(code, size);
        uint8_t reg = (uint8_t)(cursor_u8(&cursor) - OP_BREG0);
        int64_t offset = encoding_sleb(&cursor), add;

        if ((reg != DWARF_RSP && reg != DWARF_RBP) || cursor_u8(&cursor) != OP_DEREF)
                return false;
        add = read_addend(&cursor);
        if (cursor.failed || cursor.at != size || !fits_deref(offset, add))
                return false;
        state->deref_reg = reg;
        state->deref_offset = (int32_t)offset;
        state->deref_add = (int32_t)add;
        return true;
}

/*
 * A stack that was left, whose pointer lies in memory that a pointer on this one leads to: breg rsp OFFSET,
 * deref, addend, deref, addend. OCaml 5 says so of a handler of effects. The first addend is a word's place.
 */
static bool is_deref_twice(const uint8_t *code, size_t size, CfiState *state) {
        Cursor cursor = cursor_make(code, size);
        uint8_t reg = (uint8_t)(cursor_u8(&cursor) - OP_BREG0);
        int64_t offset = encoding_sleb(&cursor), middle = 0, add;

        if (reg != DWARF_RSP || cursor_u8(&cursor) != OP_DEREF || cursor_left(&cursor) == 0)
                return false;
        if (code[cursor.at] != OP_DEREF)
                middle = read_addend(&cursor);
        if (cursor_u8(&cursor) != OP_DEREF)
                return false;
        add = read_addend(&cursor);
        if (cursor.failed || cursor.at != size || offset != (int16_t)offset || middle != (int8_t)middle ||
            add != (int8_t)add)
                return false;
        state->deref_offset = (int32_t)((uint32_t)offset << 16 | (uint32_t)(uint8_t)middle << 8);
        state->deref_add = (int32_t)add;
        return true;
}

/* Whether the kernel half keeps the register's value for the leaf (RULES_N_REGISTERS). */
static bool is_leaf_register(uint8_t reg) {
        return reg < DWARF_GENERAL && reg != DWARF_RBX && reg != DWARF_RBP && reg != DWARF_RSP;
}

/*
 * A CFA from an array on the stack: breg rsp OFFSET, breg INDEX 0, lit8 mul plus, deref, addend (OpenSSL's
 * RSA).
 */
static bool is_indexed(const uint8_t *code, size_t size, CfiState *state) {
        static const uint8_t scale[] = { 0, OP_LIT0 + 8, OP_MUL, OP_PLUS, OP_DEREF };
        Cursor cursor = cursor_make(code, size);
        uint8_t base = cursor_u8(&cursor), index;
        int64_t offset = encoding_sleb(&cursor), add;
        const uint8_t *rest;

        index = (uint8_t)(cursor_u8(&cursor) - OP_BREG0);
        rest = cursor_take(&cursor, sizeof(scale));
        if (base != OP_BREG0 + DWARF_RSP || !is_leaf_register(index) || !rest ||
            memcmp(rest, scale, sizeof(scale)) != 0)
                return false;
        add = read_addend(&cursor);
        if (cursor.failed || cursor.at != size || !fits_deref(offset, add))
                return false;
        state->deref_reg = index;
        state->deref_offset = (int32_t)offset;
        state->deref_add = (int32_t)add;
        return true;
}

void arch_cfa_expression(CfiState *state, const uint8_t *code, size_t size) {
        if (is_plt(code, size, &state->deref_offset))
                state->cfa_kind = CFA_PLT;
        else if (is_deref(code, size, state))
                state->cfa_kind = CFA_DEREF;
        else if (is_deref_twice(code, size, state))
                state->cfa_kind = CFA_DEREF_TWICE;
        else if (is_indexed(code, size, state))
                state->cfa_kind = CFA_INDEXED;
        else
                state->cfa_kind = CFA_OTHER;
}

static uint32_t register_kind(const CfiState *state) {
        switch (state->cfa_reg) {
        case DWARF_RSP:
                return UNWIND_CFA_RSP;
        case DWARF_RBP:
                return UNWIND_CFA_RBP;
        case DWARF_RBX:
                return UNWIND_CFA_RBX;
        }
        return state->cfa_reg < DWARF_GENERAL ? UNWIND_CFA_REGISTER + state->cfa_reg : UNWIND_CFA_BAD;
}

static uint32_t bad(CfiCounts *counts, CfiUnsupported why) {
        counts->unsupported[why]++;
        return UNWIND_CFA_BAD;
}

static uint32_t cfa(const CfiState *state, int32_t *offsetp, CfiCounts *counts) {
        uint32_t kind;

        switch (state->cfa_kind) {
        case CFA_REGISTER:
                kind = register_kind(state);
                if (kind == UNWIND_CFA_BAD)
                        return bad(counts, CFI_UNSUPPORTED_CFA_REGISTER);
                if (state->cfa_offset != (int32_t)state->cfa_offset)
                        return bad(counts, CFI_UNSUPPORTED_CFA_OFFSET);
                *offsetp = (int32_t)state->cfa_offset;
                return kind;
        case CFA_PLT:
                *offsetp = state->deref_offset;
                return UNWIND_CFA_PLT;
        case CFA_DEREF:
                *offsetp = (int32_t)((uint32_t)state->deref_offset << 8 | (uint8_t)state->deref_add);
                return state->deref_reg == DWARF_RSP ? UNWIND_CFA_DEREF_RSP : UNWIND_CFA_DEREF_RBP;
        case CFA_DEREF_TWICE:
                *offsetp = state->deref_offset | (uint8_t)state->deref_add;
                return UNWIND_CFA_DEREF_TWICE;
        case CFA_INDEXED:
                *offsetp = (int32_t)((uint32_t)state->deref_offset << 8 | (uint8_t)state->deref_add);
                return UNWIND_CFA_INDEXED + state->deref_reg;
        case CFA_UNSET:
                return bad(counts, CFI_UNSUPPORTED_CFA_UNSET);
        }
        return bad(counts, CFI_UNSUPPORTED_CFA_EXPRESSION);
}

static uint32_t rbp(const Saved *saved, int16_t *offsetp, CfiCounts *counts) {
        bool fits = saved->offset == (int16_t)saved->offset;

        if (saved->kind == SAVED_SAME)
                return UNWIND_RBP_SAME;
        *offsetp = (int16_t)saved->offset;
        if (saved->kind == SAVED_AT_CFA && fits)
                return UNWIND_RBP_AT_CFA;
        if (saved->kind == SAVED_AT_REGISTER && saved->reg == DWARF_RBP && fits)
                return UNWIND_RBP_AT_RBP;
        *offsetp = 0;
        counts->unsupported[CFI_UNSUPPORTED_FRAME_POINTER]++;
        return UNWIND_RBP_LOST;
}

static uint32_t rbx(const Saved *saved, CfiCounts *counts) {
        if (saved->kind == SAVED_SAME)
                return UNWIND_RBX_SAME;
        if (saved->kind == SAVED_AT_CFA && saved->offset < 0 && saved->offset >= -8 * UNWIND_RBX_MAX &&
            saved->offset % 8 == 0)
                return (uint32_t)(-saved->offset / 8);
        counts->unsupported[CFI_UNSUPPORTED_BASE_REGISTER]++;
        return UNWIND_RBX_LOST;
}

/*
 * libc's __restore_rt: the kernel has pushed all registers, and each has an
 * expression of rsp. One look at rsp's tells the frame from others that carry
 * the augmentation 'S' only to say that their return address is exact.
 */
static bool is_signal_frame(const CfiState *state) {
        return state->cfa_kind == CFA_DEREF && state->deref_reg == DWARF_RSP &&
               state->deref_offset == SIGNAL_RSP && state->deref_add == 0 &&
               state->saved[SLOT_RETURN].kind == SAVED_AT_REGISTER;
}

/* `pop %rcx … jmp *%rcx`, as vfork() and exceptions leave: all else is in its place already. */
static bool is_return_register(const CfiState *state) {
        const Saved *ra = &state->saved[SLOT_RETURN];

        return ra->kind == SAVED_IN_REGISTER && is_leaf_register(ra->reg) &&
                state->cfa_kind == CFA_REGISTER && state->cfa_reg == DWARF_RSP &&
                state->cfa_offset == (int32_t)state->cfa_offset && state->saved[SLOT_RBP].kind == SAVED_SAME;
}

uint64_t arch_rule(const CfiState *state, bool is_signal, CfiCounts *counts) {
        const Saved *ra = &state->saved[SLOT_RETURN];
        int16_t rbp_offset = 0;
        int32_t offset = 0;
        uint32_t kind, fp, bx;

        if (is_signal && is_signal_frame(state))
                return unwind_rule(UNWIND_CFA_SIGNAL, 0, 0, 0, 0);
        if (ra->kind == SAVED_UNDEFINED)
                return unwind_rule(UNWIND_CFA_END, 0, 0, 0, 0);
        if (is_return_register(state))
                return unwind_rule(UNWIND_CFA_RETURN + ra->reg, (int32_t)state->cfa_offset, 0, 0, 0);
        /* The return address is the word below the CFA: a call has pushed it (psABI 3.2.2). */
        if (ra->kind != SAVED_AT_CFA || ra->offset != -8)
                kind = bad(counts, CFI_UNSUPPORTED_RETURN_ADDRESS);
        else
                kind = cfa(state, &offset, counts);
        if (kind == UNWIND_CFA_BAD)
                return unwind_rule(UNWIND_CFA_BAD, 0, 0, 0, 0);
        fp = rbp(&state->saved[SLOT_RBP], &rbp_offset, counts);
        bx = rbx(&state->saved[SLOT_RBX], counts);
        return unwind_rule(kind, offset, fp, rbp_offset, bx);
}

bool arch_is_landing(uint64_t rule) {
        return unwind_rule_cfa(rule) == UNWIND_CFA_REGISTER + DWARF_RCX && unwind_rule_offset(rule) == 8;
}

bool arch_land(uint64_t *rulep) {
        uint32_t kind = unwind_rule_cfa(*rulep);
        int32_t offset = unwind_rule_offset(*rulep);

        if (!arch_is_landing(*rulep) && !(kind == UNWIND_CFA_RSP && offset == 8) &&
            kind != UNWIND_CFA_RETURN + DWARF_RCX)
                return false;
        *rulep = unwind_rule(UNWIND_CFA_LANDING + kind, offset, UNWIND_RBP_SAME, 0, UNWIND_RBX_SAME);
        return true;
}

/* End of the last @what in @code[0 … size - 1]; 0 = there is none. */
static size_t find_last(const uint8_t *code, size_t size, const uint8_t *what, size_t n) {
        for (size_t end = size; end >= n; end--)
                if (memcmp(code + end - n, what, n) == 0)
                        return end;
        return 0;
}

size_t arch_find_landing(const uint8_t *code, size_t size, ArchLanding *landings) {
        static const uint8_t lea[] = { 0x48, 0x8d, 0x4c, 0x0d, 0x08 };
        static const uint8_t by_rax[] = { 0x48, 0x89, 0xc1, 0x48, 0x89, 0x74, 0x05, 0x08 };
        static const uint8_t by_rdx[] = { 0x48, 0x89, 0xd1, 0x48, 0x89, 0x74, 0x15, 0x08 };
        size_t end = find_last(code, size, lea, sizeof(lea)), stored, n = 0;
        uint32_t rcx = UNWIND_CFA_LANDING + DWARF_RCX;

        if (!end)
                return 0;
        stored = find_last(code, end, by_rax, sizeof(by_rax)) ?: find_last(code, end, by_rdx, sizeof(by_rdx));
        if (stored)
                landings[n++] = (ArchLanding){ .from = stored,
                                               .rule = unwind_rule(rcx + UNWIND_CFA_SUM, 16,
                                                                   UNWIND_RBP_AT_RBP, 0, UNWIND_RBX_LOST) };
        landings[n++] = (ArchLanding){ .from = end,
                                       .rule = unwind_rule(rcx + UNWIND_CFA_REGISTER, 8, UNWIND_RBP_AT_RBP, 0,
                                                           UNWIND_RBX_LOST) };
        return n;
}
