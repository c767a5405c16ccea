/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Go keeps the frame pointer in rbp, as C does, in every function that has a frame
 * (cmd/internal/obj/x86/obj6.go):
 *
 *     from Go 1.21 on                      before
 *     push %rbp              size 8        sub  $N,%rsp            size N
 *     mov  %rsp,%rbp                       mov  %rbp,N-8(%rsp)
 *     sub  $N-8,%rsp         size N        lea  N-8(%rsp),%rbp
 *
 * so the caller's rbp is the word below the return address, from the push or the mov on until it is popped.
 * No other register survives a call.
 */
#include "host/sampling/unwind/go/go-arch.h"

#include <string.h>

#include "border/unwind_abi.h"

enum {
        SAVED = -16,                    /* place of rbp, from the CFA */
        FRAME = 16,                     /* rbp to the CFA, once it is set */
        SHORT = 127,                    /* largest displacement of one byte */
        PADDING = 0xcc,
};

uint64_t go_arch_rule(GoArchFrame frame, int32_t size) {
        switch (frame) {
        case GO_ARCH_ENTRY:
                return unwind_rule(UNWIND_CFA_RSP, size + GO_ARCH_WORD, UNWIND_RBP_SAME, 0, UNWIND_RBX_LOST);
        case GO_ARCH_SAVED:
                return unwind_rule(UNWIND_CFA_RSP, size + GO_ARCH_WORD, UNWIND_RBP_AT_CFA, SAVED,
                                   UNWIND_RBX_LOST);
        case GO_ARCH_LOST:
                return unwind_rule(UNWIND_CFA_RSP, size + GO_ARCH_WORD, UNWIND_RBP_LOST, 0, UNWIND_RBX_LOST);
        case GO_ARCH_SWITCH:
                return unwind_rule(UNWIND_CFA_SWITCH, FRAME, UNWIND_RBP_AT_CFA, SAVED, UNWIND_RBX_LOST);
        }
        return go_arch_bad();
}

/* The handler has pushed the pc as a call would. */
uint64_t go_arch_injected(uint64_t rule) {
        return unwind_rule_cfa(rule) == UNWIND_CFA_RSP ? rule | (uint64_t)UNWIND_CFA_LANDING << 48 : rule;
}

bool go_arch_is_prologue(const uint8_t *code) {
        static const uint8_t prologue[GO_ARCH_PROLOGUE] = { 0x55, 0x48, 0x89, 0xe5 };

        return !memcmp(code, prologue, sizeof(prologue));
}

bool go_arch_is_store(const uint8_t *code, int32_t size) {
        uint8_t store[GO_ARCH_CODE] = { 0x48, 0x89, 0x6c, 0x24 };
        int32_t at = size - GO_ARCH_WORD;

        if (at > SHORT)
                store[2] = 0xac;
        memcpy(store + 4, &at, sizeof(at));
        return !memcmp(code, store, go_arch_store_size(size));
}

uint32_t go_arch_store_size(int32_t size) {
        return size - GO_ARCH_WORD > SHORT ? 8 : 5;
}

bool go_arch_is_signal_return(const uint8_t *code) {
        static const uint8_t restorer[GO_ARCH_CODE] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };

        return !memcmp(code, restorer, sizeof(restorer));
}

bool go_arch_is_padding(uint8_t byte) {
        return byte == PADDING;
}
