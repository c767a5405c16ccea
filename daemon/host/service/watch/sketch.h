/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sketches
 *
 * What functions of one build of a service took of its CPU time lately, in 64 KiB, and the comparison of two
 * builds. A function is what its plain name says (core/symbol/function/plain-name.h). Pure.
 */

#include <stdbool.h>
#include <stdint.h>

enum {
        SKETCH_BLOCKS = 48,             /* one of them is open */
        SKETCH_ENOUGH_BLOCKS = 32,      /* for a comparison */
        SKETCH_ENOUGH_SAMPLES = 2000,   /* the same */
        SKETCH_ROWS = 224,
        SKETCH_ROWS_LEFT = 168,         /* after rows were dropped */
        SKETCH_NAME = 84,
        SKETCH_BUILD = 160,
        SKETCH_MAX_BLOCK = 1 << 24,     /* samples of a block; more are not counted */
};

typedef struct SketchRow {
        uint64_t hash;                  /* hash of its whole plain name */
        uint32_t since;                 /* blocks before this one may have more of it: `missed` */
        uint32_t n[SKETCH_BLOCKS];      /* samples */
        char name[SKETCH_NAME];         /* begin of that */
} SketchRow;

typedef struct Sketch {
        char build[SKETCH_BUILD];
        uint32_t n_blocks;              /* closed ones, oldest first; the open one is behind them */
        uint32_t n_rows;
        uint32_t lost;                  /* samples of the largest function of this moment without a row */
        uint64_t open_ns;               /* time of the open block */
        uint64_t serial;                /* number that its owner gives it; */
        uint64_t seen_s;                /* … and REALTIME of its last sample */
        uint32_t total[SKETCH_BLOCKS];  /* samples of all functions */
        uint32_t missed[SKETCH_BLOCKS]; /* a function without a row has no more than this */
        SketchRow rows[SKETCH_ROWS];
} Sketch;

_Static_assert(sizeof(Sketch) <= 64 << 10, "a sketch is small");

/* A function that takes more than before. Shares are millionths of the CPU time. */
typedef struct SketchSlower {
        char name[SKETCH_NAME];
        int32_t before, after;
        int32_t low, high;              /* the change is in between */
} SketchSlower;

enum { SKETCH_SLOWER = 8 };

typedef struct SketchVerdict {
        char before[SKETCH_BUILD], after[SKETCH_BUILD];         /* builds */
        uint32_t n_compared;            /* functions */
        uint32_t n_slower;              /* in all; the first SKETCH_SLOWER are listed, largest change first */
        SketchSlower slower[SKETCH_SLOWER];
} SketchVerdict;

/* @hash: of a plain name, the same after a restart. */
uint64_t sketch_hash(const char *name);

/*
 * Counts samples of a function. Of several functions of the same moment the largest comes first. Return:
 * whether it has a row.
 */
bool sketch_add(Sketch *sketch, uint64_t hash, const char *name, uint32_t n);

/* NULL = it has no row of this function. */
SketchRow *sketch_find(const Sketch *sketch, uint64_t hash);

/* Time of what was added: @ns. A block that has @block_ns or more is closed. */
void sketch_pass(Sketch *sketch, uint64_t ns, uint64_t block_ns);

bool sketch_is_enough(const Sketch *sketch);

/* Samples of closed blocks. */
uint64_t sketch_samples(const Sketch *sketch);

/* Functions of @after that take more than in @before; both are enough. */
void sketch_compare(const Sketch *before, const Sketch *after, SketchVerdict *verdict);
