/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Instructions of arm64 are not known here yet: code without call frame information has no rows. No function
 * but the first one is ever called.
 */
#include "sampling/unwind/scan-arch.h"

#include "unwind_abi.h"

bool scan_arch_is_known(void) {
        return false;
}

bool scan_decode(const uint8_t *code, size_t size, uint64_t address, ScanInstruction *to) {
        return false;
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
