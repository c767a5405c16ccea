/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Call Frame State
 *
 * CfiState is the result of call frame instructions: how to find the CFA, and where the few registers that a
 * walk needs were saved. Expressions are recognised by pattern as they are read; one without a known pattern
 * is OTHER, a value that is not known. Cie and Fde are the entries that hold such instructions, once their
 * headers are read (entry.h), ready to be run (program.h).
 */

#include <stdbool.h>
#include <stdint.h>

enum {
        STATE_MAX_SAVED = 4,            /* registers tracked, the return address included */
        STATE_NO_REGISTER = 0xff,
};

typedef enum CfaKind {
        CFA_UNSET,                      /* no instruction has said it yet */
        CFA_REGISTER,                   /* value of a register + offset */
        CFA_DEREF,                      /* memory at a register + deref_offset, + deref_add */
        CFA_DEREF_TWICE,                /* the same, by memory: deref_offset has both offsets */
        CFA_INDEXED,                    /* memory at rsp + 8 deref_reg + deref_offset, + deref_add */
        /* the linker's expression for lazy binding stubs; deref_offset: its limit */
        CFA_PLT,
        CFA_OTHER,
} CfaKind;

typedef enum SavedKind {
        /* the default: by the ABI, callee-saved registers are kept */
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

/* Common information entry: what many functions share. */
typedef struct Cie {
        uint64_t offset;                /* in the section */
        uint64_t code_align;
        int64_t data_align;
        uint8_t id_size;                /* bytes of its own id and of those of its FDEs */
        uint8_t encoding;               /* form of an FDE's addresses */
        bool is_known;                  /* the slot of the cache is used (entry.h) */
        bool is_good;
        bool has_augmentation;          /* FDEs carry a length of augmentation data */
        bool is_signal;
        CfiState initial;               /* state after its own instructions */
} Cie;

/* Frame description entry: one function. */
typedef struct Fde {
        const Cie *cie;
        uint64_t start, end;            /* ELF addresses */
        const uint8_t *code;            /* valid until the reader's next use */
        uint64_t code_size;
        uint64_t code_address;
} Fde;
