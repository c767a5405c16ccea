/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Layout of Erlang's Structs
 *
 * Where fields lie that names are read from. Most places are the same in all releases that are known; what
 * differs is in a table.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct BeamLayout {
        uint32_t release;
        uint16_t functions;             /* in a module's header: the first of its functions */
        uint16_t end;                   /* in a process: the end of its stack */
        uint16_t pc;                    /* in a process: where it goes on */
        uint16_t registered;            /* in a process: the entry that it is registered by */
        uint16_t initial;               /* in a process: module, function and arity that it began with */
        bool has_terms;                 /* the text of an atom is a term, a binary */
        bool has_short_pids;            /* both numbers of a pid are in 28 bits */
} BeamLayout;

enum {
        BEAM_HEADER_N = 0,              /* a module's number of functions */
        BEAM_HEADER_LINES = 72,
        BEAM_INFO_MODULE = 16,          /* words of a function: three, the last one's low byte is the arity */
        BEAM_INFO_WORDS = 3,
        BEAM_ATOMS_NAME = 64,           /* in the table of atoms: `atom_tab` */
        BEAM_ATOMS_SEGMENTS = 120,
        BEAM_ATOM_LENGTH = 24,
        BEAM_ATOM_NAME = 32,
        BEAM_BINARY_BITS = 8,           /* in a binary */
        BEAM_BINARY_TEXT = 16,
        BEAM_SCHEDULER_THREAD = 32,     /* as in bpf/runtimes/beam.bpf.h */
        BEAM_SCHEDULER_CURRENT = 168,
        BEAM_SCHEDULER_KIND = 176,      /* then: its number, 0, its number; of a dirty one 0, its number, 0 */
        BEAM_PROCESS_STOP = 88,
        BEAM_TABLES = 3,                /* tables of ranges */
        BEAM_MAX_RANGES = 1000000,
        BEAM_MAX_FUNCTIONS = 100000,
        BEAM_MAX_MODULE = 1 << 30,      /* bytes of code */
        BEAM_MAX_CODE_AHEAD = 64 << 10, /* as BEAM_MAX_FRAGMENTS in bpf/runtimes/beam.bpf.h */
        BEAM_TERM_ATOM = 0x0b,
        BEAM_TERM_ATOM_MASK = 0x3f,
        BEAM_TERM_ATOM_SHIFT = 6,
};

/* Return: NULL = the release is not known. */
const BeamLayout *beam_layout(uint32_t release);

/* Whether a release that is known has these in a process. */
bool beam_layout_has_process(uint16_t end, uint16_t pc, uint16_t registered, uint16_t initial);
