/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Areas of Made Code
 *
 * Areas of memory without a file whose rows a process has handed to its unwinder, and how long they hold. A
 * row holds while its code stays as it was. Code in memory that cannot be written changes only where that
 * memory is made executable anew, of which the kernel gives a notice. Of two ways it gives none: mremap() to
 * a fixed address, and writes through /proc/PID/mem.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        MADE_MAX_PIECES = 16,           /* areas of a process; code in more of them has no rows */
        MADE_MAX_CHANGES = 64,          /* notices that are kept; what was read before the oldest is void */
};

/* Begins ids of tables of areas; those of files are counted from 1. */
#define MADE_FIRST_ID (UINT64_C(1) << 63)

/* Whole pages with functions in them. */
typedef struct MadeRun {
        uint64_t start, end;
} MadeRun;

/* An area, with all that was read of it at one time. */
typedef struct MadePiece {
        uint64_t start, end;            /* whole pages: those of the first and the last run */
        MadeRun *runs;                  /* sorted, disjoint, owned */
        uint32_t n_runs;
        uint64_t hash;                  /* hash of runs and frames */
        uint64_t id;                    /* id of its table */
        uint64_t since_ns;              /* MONOTONIC: the rows hold from here on */
        bool is_void;                   /* code of it has changed since it was read */
} MadePiece;

/* Memory that became executable. */
typedef struct MadeChange {
        uint64_t start, end, time_ns;
} MadeChange;

typedef struct MadeAreas {
        MadePiece pieces[MADE_MAX_PIECES];      /* sorted, disjoint */
        uint32_t n_pieces;
        MadeChange changes[MADE_MAX_CHANGES];   /* a ring: one that is overwritten sets forgotten_ns */
        uint64_t n_changes;             /* all there were */
        uint64_t forgotten_ns;          /* changes up to here may be missing */
        uint64_t read_ns;               /* begin of the look that `pieces` are of; 0 = there was none */
        uint32_t n_lost;                /* functions and areas that this look left out; the owner's */
} MadeAreas;

MadeAreas *made_areas_free(MadeAreas *made);

/* Pure. Whether code of the piece lies in a range. */
bool made_piece_has_code(const MadePiece *piece, uint64_t start, uint64_t end);

/* Pure. A change at @time_ns. Return: whether it has made pieces void. */
bool made_areas_change(MadeAreas *made, uint64_t start, uint64_t end, uint64_t time_ns);

/* Something may have changed anywhere, until @time_ns. Return: the same. */
bool made_areas_change_all(MadeAreas *made, uint64_t time_ns);

/* Since when rows that were read from @read_ns on hold in @piece. Return: false = not even then. */
bool made_areas_hold(const MadeAreas *made, const MadePiece *piece, uint64_t read_ns, uint64_t *since_nsp);

/*
 * Puts @n pieces of a look that began at @read_ns, sorted and disjoint, in the place of all; their runs move.
 * One that is as it was keeps its id; the others get new ones, and hold from the look on if no notice came
 * since the last one. Return: whether anything is other than before.
 */
bool made_areas_take(MadeAreas *made, MadePiece *pieces, uint32_t n, uint64_t read_ns);

/* The piece that holds now, and held at @time_ns, and the first that ends behind @address; NULL = none. */
const MadePiece *made_areas_next(const MadeAreas *made, uint64_t address, uint64_t time_ns);
