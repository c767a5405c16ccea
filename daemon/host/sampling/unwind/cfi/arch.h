/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Architecture
 *
 * Knowledge of a processor that the reader of call frame information needs. One file per architecture
 * implements it (arch-x86_64.c, arch-arm64.c), and meson picks that of the machine that is built for: a
 * daemon reads programs of its own machine.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/elf/machine.h"
#include "host/sampling/unwind/cfi/counts.h"
#include "host/sampling/unwind/cfi/state.h"

#if defined(__x86_64__)
enum {
        ARCH_SHT_UNWIND = 0x70000001,   /* SHT_X86_64_UNWIND: type of .eh_frame in the psABI */
        ARCH_RETURN_ADDRESS = 16,       /* DWARF column */
        ARCH_ADDRESS_SIZE = 8,
        ARCH_N_REGISTERS = 17,
        ARCH_N_LANDINGS = 2,
        ARCH_LANDING_SIZE = 64,         /* bytes of code that arch_find_landing() looks at */
        ARCH_LANDING_REGISTER = 2,      /* rcx: holds the CFA there */
};
#elif defined(__aarch64__)
enum {
        ARCH_SHT_UNWIND = SHT_PROGBITS,
        ARCH_RETURN_ADDRESS = 30,
        ARCH_ADDRESS_SIZE = 8,
        ARCH_N_REGISTERS = 32,
        ARCH_N_LANDINGS = 1,            /* no landing exists */
        ARCH_LANDING_SIZE = 4,
        ARCH_LANDING_REGISTER = 0xff,
};
#else
#error "no arch-*.c for this machine yet"
#endif

/* A rule from byte @from of a function's code on. */
typedef struct ArchLanding {
        size_t from;
        uint64_t rule;
} ArchLanding;

/* DWARF register → slot in CfiState.saved, or -1 = not tracked. */
extern const int8_t arch_slots[ARCH_N_REGISTERS];

/* Whether a call frame instruction without operands, by its number, says nothing that a walk needs. */
bool arch_is_note(uint8_t op);

/* Reads the DWARF expression of a CFA: sets cfa_kind and what belongs to it. */
void arch_cfa_expression(CfiState *state, const uint8_t *code, size_t size);

/*
 * Rule (unwind_abi.h) for @state. It counts what no rule can express. @is_signal: from the entry's
 * augmentation.
 */
uint64_t arch_rule(const CfiState *state, bool is_signal, CfiCounts *counts);

/* Whether @rule is that of the last instructions before an exception's landing pad (see eh-return.h). */
bool arch_is_landing(uint64_t rule);

/*
 * Makes *@rulep say that its caller is a landing pad. Return: false = it is not a rule of those instructions.
 */
bool arch_land(uint64_t *rulep);

/*
 * @code ends where such a rule begins. Return: how many rules (ARCH_N_LANDINGS at most) are missing in front
 * of it, where the stack was given up already; by ascending `from`.
 */
size_t arch_find_landing(const uint8_t *code, size_t size, ArchLanding *landings);
