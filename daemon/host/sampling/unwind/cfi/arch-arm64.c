/* SPDX-License-Identifier: Apache-2.0 */

/*
 * arm64
 *
 * A frame's caller is found from sp, x29 and x30: a call leaves the return address in x30, and a function
 * that calls others saves it, mostly beside the caller's x29 (bpf/arch/rules-arm64.bpf.h has a picture). No
 * compiler puts a CFA into another register than sp and x29.
 *
 * Code that signs its return addresses says where it does (DW_CFA_AARCH64_negate_ra_state). The walk need not
 * know: it takes the code off any return address, and an address without one stays as it is.
 */

#include "host/sampling/unwind/cfi/arch.h"

#include "border/unwind_abi.h"

enum {
        DWARF_X29 = 29,                 /* DWARF for the Arm 64-bit Architecture, 4.1 */
        DWARF_SP = 31,
        SLOT_X29 = 0,
        SLOT_X30 = 1,
        OP_NEGATE_RA_STATE_WITH_PC = 0x2c,
        OP_NEGATE_RA_STATE = 0x2d,
};

const int8_t arch_slots[ARCH_N_REGISTERS] = {
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,       -1,       -1, -1, -1, -1,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,       -1,       -1, SLOT_X29, SLOT_X30, -1,
};

bool arch_is_note(uint8_t op) {
        return op == OP_NEGATE_RA_STATE || op == OP_NEGATE_RA_STATE_WITH_PC;
}

void arch_cfa_expression(CfiState *state, const uint8_t *code, size_t size) {
        state->cfa_kind = CFA_OTHER;
}

static uint64_t bad(CfiCounts *counts, CfiUnsupported why) {
        counts->unsupported[why]++;
        return unwind_rule(UNWIND_CFA_BAD, 0, 0, 0, 0);
}

static uint32_t frame_pointer(const Saved *saved, int16_t *offsetp, CfiCounts *counts) {
        if (saved->kind == SAVED_SAME)
                return UNWIND_RBP_SAME;
        if (saved->kind == SAVED_AT_CFA && saved->offset == (int16_t)saved->offset) {
                *offsetp = (int16_t)saved->offset;
                return UNWIND_RBP_AT_CFA;
        }
        counts->unsupported[CFI_UNSUPPORTED_FRAME_POINTER]++;
        return UNWIND_RBP_LOST;
}

/*
 * Where x29 was not saved, @frame_offset is free for x30. Return: UNWIND_RETURN_* or the number of words
 * below the CFA; −1 = the rule cannot say it.
 */
static int return_address(const Saved *x30, uint32_t kind, int16_t *frame_offset) {
        int64_t beside;

        if (x30->kind == SAVED_SAME)
                return UNWIND_RETURN_LINK;
        if (x30->kind != SAVED_AT_CFA || __builtin_sub_overflow(x30->offset, ARCH_ADDRESS_SIZE, &beside))
                return -1;
        if (kind != UNWIND_RBP_AT_CFA && beside == (int16_t)beside)
                *frame_offset = (int16_t)beside;
        if (beside == *frame_offset)
                return UNWIND_RETURN_BESIDE;
        if (x30->offset >= 0 || x30->offset < -UNWIND_RETURN_MAX * ARCH_ADDRESS_SIZE ||
            x30->offset % ARCH_ADDRESS_SIZE)
                return -1;
        return (int)(-x30->offset / ARCH_ADDRESS_SIZE);
}

uint64_t arch_rule(const CfiState *state, bool is_signal, CfiCounts *counts) {
        uint32_t cfa = state->cfa_reg == DWARF_SP ? UNWIND_CFA_RSP : UNWIND_CFA_RBP, kind;
        int16_t frame_offset = 0;
        int place;

        /*
         * The row of a signal frame (the vdso's before Linux 5.8) leads to x30 of the interrupted code, not
         * to its pc. Without a row the walk tells the frame by its code.
         */
        if (is_signal)
                return unwind_rule(UNWIND_CFA_NONE, 0, 0, 0, 0);
        if (state->saved[SLOT_X30].kind == SAVED_UNDEFINED)
                return unwind_rule(UNWIND_CFA_END, 0, 0, 0, 0);
        if (state->cfa_kind != CFA_REGISTER)
                return bad(counts, state->cfa_kind == CFA_UNSET ? CFI_UNSUPPORTED_CFA_UNSET :
                                                                  CFI_UNSUPPORTED_CFA_EXPRESSION);
        if (state->cfa_reg != DWARF_SP && state->cfa_reg != DWARF_X29)
                return bad(counts, CFI_UNSUPPORTED_CFA_REGISTER);
        if (state->cfa_offset != (int32_t)state->cfa_offset)
                return bad(counts, CFI_UNSUPPORTED_CFA_OFFSET);
        kind = frame_pointer(&state->saved[SLOT_X29], &frame_offset, counts);
        place = return_address(&state->saved[SLOT_X30], kind, &frame_offset);
        if (place < 0)
                return bad(counts, CFI_UNSUPPORTED_RETURN_ADDRESS);
        return unwind_rule(cfa, (int32_t)state->cfa_offset, kind, frame_offset, (uint32_t)place);
}

/* Exceptions go to their landing pads by registers that rows speak of. */
bool arch_is_landing(uint64_t rule) {
        return false;
}

bool arch_land(uint64_t *rulep) {
        return false;
}

size_t arch_find_landing(const uint8_t *code, size_t size, ArchLanding *landings) {
        return 0;
}
