/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Instructions on a Processor
 *
 * What scan.c needs to know of a processor: how long an instruction is, where it leads, and what it does to
 * the stack. One file per architecture, as arch.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ScanFlow {
        SCAN_NEXT,
        SCAN_JUMP,                      /* to `target` */
        SCAN_BRANCH,                    /* to `target`, or to the next one */
        SCAN_CALL,                      /* `target` is 0 if it is unknown */
        SCAN_RETURN,
        SCAN_INDIRECT,                  /* a jump by a register or by memory */
        SCAN_STOP,                      /* nothing comes after it */
} ScanFlow;

typedef enum ScanEffect {
        SCAN_NOTHING,
        SCAN_PUSH,                      /* pushes `reg` */
        SCAN_POP,
        SCAN_ADD,                       /* `value` to the stack pointer */
        SCAN_LOSE_STACK,                /* another, unknown value */
        SCAN_LOSE_FRAME,                /* the same of the frame pointer */
        SCAN_SET_FRAME,                 /* frame pointer = stack pointer + `value` */
        SCAN_FROM_FRAME,                /* stack pointer = frame pointer + `value` */
        SCAN_SET_BASE,                  /* the same three of rbx, where the stack pointer is put by */
        SCAN_FROM_BASE,
        SCAN_LOSE_BASE,
        SCAN_LEAVE,
        SCAN_STORE,                     /* `reg` at stack pointer + `value` */
        SCAN_LOAD,
        SCAN_TOP,                       /* clears the frame pointer */
        SCAN_KERNEL,                    /* a system call */
} ScanEffect;

typedef enum ScanRegister {
        SCAN_OTHER,
        SCAN_FRAME,                     /* rbp */
        SCAN_BASE,                      /* rbx */
} ScanRegister;

/* Parts of a jump by a table. */
typedef enum ScanTable {
        SCAN_NO_TABLE,
        SCAN_COMPARE,                   /* with `value` */
        SCAN_UP_TO,                     /* goes on if the value was not above */
        SCAN_ABOVE,                     /* goes to `target` if the value was not above */
        SCAN_ADDRESS,                   /* `target` is an address of the file */
        SCAN_ENTRY,                     /* reads an entry relative to its table */
        SCAN_ABSOLUTE,                  /* jumps by an entry of the table at `target` */
} ScanTable;

enum {
        SCAN_MAX_SIZE = 15,             /* bytes of an instruction */
        SCAN_WORD = 8,
        SCAN_RESTORER = 9,              /* bytes of what a signal handler returns to */
        SCAN_MANY = 255,                /* registers, or unknown ones */
};

typedef struct ScanInstruction {
        uint8_t size;
        uint8_t flow;                   /* ScanFlow */
        uint8_t effect;                 /* ScanEffect */
        uint8_t reg;                    /* ScanRegister */
        uint8_t table;                  /* ScanTable */
        uint8_t written;                /* number of a register, + 1; 0 = none, SCAN_MANY */
        uint8_t used;                   /* the same, of a register that holds where a jump leads */
        int64_t value;
        uint64_t target;                /* ELF address */
} ScanInstruction;

/* @address: of @code. Return: false = cut off, or unknown. */
bool scan_decode(const uint8_t *code, size_t size, uint64_t address, ScanInstruction *to);

/* Whether this processor's instructions are known here. Where they are not, no code is scanned. */
bool scan_arch_is_known(void);

/*
 * The address of main(), which the code at the entry of a program loads for its first call; 0 = it is not
 * known. @address: of @code.
 */
uint64_t scan_main(const uint8_t *code, size_t size, uint64_t address);

/* @code: SCAN_RESTORER bytes. */
bool scan_is_restorer(const uint8_t *code);

/*
 * Rule (unwind_abi.h) of a frame. @depth: CFA - stack pointer, @frame: CFA - frame pointer, @base: CFA - rbx;
 * the first that is not 0 counts. @rbp, @rbx: CFA - their place; 0 = kept, SCAN_LOST.
 */
enum { SCAN_LOST = -1 };
uint64_t scan_rule(int32_t depth, int32_t frame, int32_t base, int32_t rbp, int32_t rbx);
uint64_t scan_rule_top(void);
