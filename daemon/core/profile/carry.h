/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Carry
 *
 * Rows of a closed window → an open one. A row is carried over when something first refers to it, with all
 * that it refers to itself; from then on its index over there is known. Merge and copy are built on it: what
 * becomes of samples, profiles and resources is theirs to say.
 *
 * After WINDOW_E_FULL a carry goes on to be of use: what did not get in is asked for again with the next
 * reference.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/data/hashmap.h"
#include "core/profile/window.h"

typedef enum CarryTable {
        CARRY_STRINGS,
        CARRY_MODULES,
        CARRY_FUNCTIONS,
        CARRY_ATTRIBUTES,
        CARRY_SETS,
        CARRY_LINKS,
        CARRY_STACKS,
        CARRY_RESOURCES,
        _CARRY_N,
} CarryTable;

/* Part of a mapped file's path that is carried; [vdso] and the like are no paths. */
typedef enum CarryPaths {
        CARRY_PATHS_FULL,
        CARRY_PATHS_NAME,               /* name behind the last slash */
        CARRY_PATHS_NONE,
} CarryPaths;

typedef struct Carry Carry;

struct Carry {
        Window *into;
        const Window *from;
        uint32_t *known[_CARRY_N];      /* index in the open window, + 1, of each row; 0 = not carried yet */
        Hashmap frames;                 /* word → index in `words`, + 1 */
        FrameWord *words;               /* by frame: number of words that it became, then these words */
        size_t n_words, words_room;
        FrameWord *stack;               /* stack that is being made */
        size_t stack_room;

        /*
         * Turns the frame @word, whose row is @frame, into one or several by carry_frame(). NULL = it stays
         * one. Return: as carry_frame().
         */
        int (*expand)(Carry *carry, FrameWord word, const WindowFrame *frame);
        const void *userdata;
        CarryPaths paths;               /* paths of mapped files */
};

/*
 * Row 0 is row 0 in each table, except resources: what becomes of those, row 0 included, the caller's @make
 * says.
 * Return: 0, -ENOMEM (carry_deinit() is due all the same).
 */
int carry_init(Carry *carry, Window *into, const Window *from);
void carry_deinit(Carry *carry);

/*
 * *indexp: of @row over there, made by @make if nothing has referred to it yet. Return: 0, or what @make
 * says.
 */
int carry_row(Carry *carry, CarryTable table, uint32_t row, int (*make)(Carry *, uint32_t, uint32_t *),
              uint32_t *indexp);

/* Each returns 0, WINDOW_E_FULL, -ENOMEM. */
int carry_string(Carry *carry, uint32_t string, uint32_t *indexp);
int carry_attributes(Carry *carry, const uint32_t *attributes, size_t n,
                     uint32_t carried[static WINDOW_MAX_SET]);
int carry_set(Carry *carry, uint32_t set, uint32_t *indexp);
int carry_link(Carry *carry, uint32_t link, uint32_t *indexp);
int carry_stack(Carry *carry, uint32_t stack, uint32_t *indexp);
int carry_profile_names(Carry *carry, const WindowProfileNames *names, WindowProfileNames *namesp);

/*
 * The resource over there that has exactly @attributes, indexes of the open window: it is known by them, as
 * 64 bits of a seeded hash.
 */
int carry_resource(Carry *carry, const uint32_t *attributes, size_t n, uint32_t *indexp);

/* For expand(): adds the next frame, with indexes of the source window. */
int carry_frame(Carry *carry, const WindowFrame *frame);
