/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Go saves the return address at the bottom of each frame, and the caller's x29 in the word below the frame
 * (cmd/internal/obj/arm64/obj7.go):
 *
 *     small frames                             larger ones
 *     str  x30,[sp,#-N]!     size N            sub  x20,sp,#N
 *     stur x29,[sp,#-8]                        stp  x29,x30,[x20,#-8]
 *     sub  x29,sp,#8                           mov  sp,x20             size N
 *                                              sub  x29,sp,#8
 *
 * So both are at CFA - N - 8, and the first instruction behind the change of sp still has the caller's x29. A
 * function that makes no call may have no frame: its return address is in x30. Assembly may keep its frames
 * as it likes, and is believed only where it saves x29 as the compiler does.
 *
 * Functions that go to another stack end the walk: nothing is known of them here.
 */
#include "host/sampling/unwind/go/go-arch.h"

#include <string.h>

#include "border/unwind_abi.h"

enum {
        INSTRUCTION = 4,                /* bytes */
        PUSHED = 16,
        SAVE_SMALL = (int32_t)0xf81f83fd,       /* stur x29,[sp,#-8] */
        SET_LARGE = (int32_t)0xd10023fd,        /* sub x29,sp,#8 */
};

uint64_t go_arch_rule(GoArchFrame frame, int32_t size) {
        int16_t place = (int16_t)(-size - GO_ARCH_WORD);
        uint32_t kind = frame == GO_ARCH_SAVED ? UNWIND_RBP_AT_CFA : UNWIND_RBP_SAME;

        if (!size)
                return unwind_rule(UNWIND_CFA_RSP, 0, UNWIND_RBP_SAME, 0, UNWIND_RETURN_LINK);
        if (frame == GO_ARCH_LOST || frame == GO_ARCH_SWITCH || place != -size - GO_ARCH_WORD)
                return go_arch_bad();
        return unwind_rule(UNWIND_CFA_RSP, size, kind, place, UNWIND_RETURN_BESIDE);
}

/*
 * The handler has put the pc into x30, and what was there into a place of 16 bytes that it has made on the
 * stack (runtime/signal_arm64.go). No rule says how to get at that word: who called the interrupted function
 * is known only if that has saved it.
 */
uint64_t go_arch_injected(uint64_t rule) {
        int32_t offset = unwind_rule_offset(rule) + PUSHED;
        int16_t place = (int16_t)(unwind_rule_rbp_offset(rule) - PUSHED);

        if (unwind_rule_cfa(rule) != UNWIND_CFA_RSP || place > unwind_rule_rbp_offset(rule))
                return go_arch_bad();
        return unwind_rule(UNWIND_CFA_LANDING + UNWIND_CFA_RSP, offset, unwind_rule_rbp(rule), place,
                           unwind_rule_rbx(rule));
}

/* A prologue would tell where the frame of a function lies that goes to another stack. */
bool go_arch_is_prologue(const uint8_t *code) {
        return false;
}

bool go_arch_is_store(const uint8_t *code, int32_t size) {
        int32_t instruction;

        memcpy(&instruction, code, sizeof(instruction));
        return instruction == SAVE_SMALL || instruction == SET_LARGE;
}

uint32_t go_arch_store_size(int32_t size) {
        return INSTRUCTION;
}

/* The kernel's own trampoline is used, which the walk tells by its code. */
bool go_arch_is_signal_return(const uint8_t *code) {
        return false;
}

bool go_arch_is_padding(uint8_t byte) {
        return false;
}
