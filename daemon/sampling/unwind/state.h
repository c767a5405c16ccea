/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * State
 *
 * What call frame instructions compute: how to find the CFA, and where the few
 * registers that a walk needs were saved. Expressions are recognised by pattern
 * as they are read; what fits no pattern is OTHER, a value that is not known.
 */

#include <stdint.h>

enum {
        STATE_MAX_SAVED = 4,            /* registers tracked, the return address included */
        STATE_NO_REGISTER = 0xff,
};

typedef enum CfaKind {
        CFA_UNSET,                      /* no instruction has said it yet */
        CFA_REGISTER,                   /* value of a register + offset */
        CFA_DEREF,                      /* memory at a register + deref_offset, + deref_add */
        CFA_INDEXED,                    /* memory at rsp + 8 deref_reg + deref_offset, + deref_add */
        /* the linker's expression for lazy binding stubs; deref_offset: its limit */
        CFA_PLT,
        CFA_OTHER,
} CfaKind;

typedef enum SavedKind {
        /* also when nothing was said: by the ABI, callee-saved registers are kept */
        SAVED_SAME,
        SAVED_AT_CFA,                   /* in memory at CFA + offset */
        SAVED_AT_REGISTER,              /* in memory at a register + offset */
        SAVED_UNDEFINED,
        SAVED_IN_REGISTER,
        SAVED_OTHER,
} SavedKind;

typedef struct Saved {
        int64_t offset;
        uint8_t kind;                   /* SavedKind */
        uint8_t reg;                    /* DWARF number */
} Saved;

typedef struct CfiState {
        int64_t cfa_offset;
        int32_t deref_offset;
        int32_t deref_add;
        uint8_t cfa_kind;               /* CfaKind */
        uint8_t cfa_reg;                /* DWARF number, STATE_NO_REGISTER = beyond what is known */
        uint8_t deref_reg;
        Saved saved[STATE_MAX_SAVED];   /* by slot, see arch.h */
} CfiState;
