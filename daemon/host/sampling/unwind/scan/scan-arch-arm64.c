/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tells where instructions of arm64 lead (Arm ARM, branches). Their effect on the stack is not known: code
 * without call frame information has no rows, and scan.c asks for none.
 */
#include "host/sampling/unwind/scan/scan-arch.h"

#include <string.h>

#include "border/unwind_abi.h"

enum { INSTRUCTION = 4 };

bool scan_arch_is_known(void) {
        return false;
}

/* Bytes that a branch has in @bits bits of @word from @shift on, as instructions. */
static uint64_t distance(uint32_t word, unsigned shift, unsigned bits) {
        uint32_t value = word << (32 - shift - bits);

        return (uint64_t)(int64_t)((int32_t)value >> (32 - bits)) * INSTRUCTION;
}

static void set_flow(ScanInstruction *to, uint32_t word, uint64_t address) {
        if ((word & 0x7c000000) == 0x14000000) {                /* b, bl */
                to->flow = word >> 31 ? SCAN_CALL : SCAN_JUMP;
                to->target = address + distance(word, 0, 26);
        } else if ((word & 0xff000000) == 0x54000000 ||         /* b.cond, bc.cond */
                   (word & 0x7e000000) == 0x34000000) {         /* cbz, cbnz */
                to->flow = SCAN_BRANCH;
                to->target = address + distance(word, 5, 19);
        } else if ((word & 0x7e000000) == 0x36000000) {         /* tbz, tbnz */
                to->flow = SCAN_BRANCH;
                to->target = address + distance(word, 5, 14);
        } else if ((word & 0xfe000000) == 0xd6000000) {         /* to a register, authenticated or not */
                uint32_t kind = word >> 21 & 7;

                to->flow = kind == 1 ? SCAN_CALL : kind == 0 ? SCAN_INDIRECT : SCAN_RETURN;
        } else if (!(word >> 16) || (word & 0xffe0001f) == 0xd4200000) {        /* udf, brk */
                to->flow = SCAN_STOP;
        }
}

bool scan_decode(const uint8_t *code, size_t size, uint64_t address, ScanInstruction *to) {
        uint32_t word;

        if (size < sizeof(word))
                return false;
        memcpy(&word, code, sizeof(word));
        *to = (ScanInstruction){ .size = INSTRUCTION };
        set_flow(to, word, address);
        return true;
}

uint64_t scan_main(const uint8_t *code, size_t size, uint64_t address) {
        return 0;
}

bool scan_is_restorer(const uint8_t *code) {
        return false;
}

uint64_t scan_rule(int32_t depth, int32_t frame, int32_t base, int32_t rbp, int32_t rbx) {
        return unwind_rule(UNWIND_CFA_BAD, 0, 0, 0, 0);
}

uint64_t scan_rule_top(void) {
        return unwind_rule(UNWIND_CFA_END, 0, 0, 0, 0);
}
