/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Remap
 *
 * Maps rows of a closed window to rows of an open one. The first reference to a row copies it, with all rows
 * that it refers to; later references find its index in the open window. Merge, copy and reshape are built on
 * it: they decide what becomes of samples, profiles and resources.
 *
 * After WINDOW_E_FULL a remap stays usable: the next reference asks again for a row that did not get in.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/data/hashmap.h"
#include "core/profile/window.h"

typedef enum RemapTable {
        REMAP_STRINGS,
        REMAP_MODULES,
        REMAP_FUNCTIONS,
        REMAP_ATTRIBUTES,
        REMAP_SETS,
        REMAP_LINKS,
        REMAP_STACKS,
        REMAP_RESOURCES,
        _REMAP_N,
} RemapTable;

/* Part of a mapped file's path that is copied; [vdso] and the like are no paths. */
typedef enum RemapPaths {
        REMAP_PATHS_FULL,
        REMAP_PATHS_NAME,               /* name behind the last slash */
        REMAP_PATHS_NONE,
} RemapPaths;

typedef struct Remap Remap;

struct Remap {
        Window *into;
        const Window *from;
        uint32_t *known[_REMAP_N];      /* index in the open window, + 1, of each row; 0 = not copied yet */
        Hashmap frames;                 /* word → index in `words`, + 1 */
        FrameWord *words;               /* by frame: number of words that it became, then these words */
        size_t n_words, words_room;
        FrameWord *stack;               /* stack that is being made */
        size_t stack_room;

        /*
         * Turns the frame @word, whose row is @frame, into one or several by remap_frame(). NULL = it stays
         * one. Return: as remap_frame().
         */
        int (*expand)(Remap *remap, FrameWord word, const WindowFrame *frame);
        const void *userdata;
        RemapPaths paths;               /* paths of mapped files */
};

/*
 * Row 0 is row 0 in each table, except resources: what becomes of those, row 0 included, the caller's @make
 * says.
 * Return: 0, -ENOMEM (remap_deinit() is due all the same).
 */
int remap_init(Remap *remap, Window *into, const Window *from);
void remap_deinit(Remap *remap);

/*
 * *indexp: of @row over there, made by @make if nothing has referred to it yet. Return: 0, or what @make
 * says.
 */
int remap_row(Remap *remap, RemapTable table, uint32_t row, int (*make)(Remap *, uint32_t, uint32_t *),
              uint32_t *indexp);

/* Each returns 0, WINDOW_E_FULL, -ENOMEM. */
int remap_string(Remap *remap, uint32_t string, uint32_t *indexp);
int remap_attributes(Remap *remap, const uint32_t *attributes, size_t n,
                     uint32_t remapped[static WINDOW_MAX_SET]);
int remap_set(Remap *remap, uint32_t set, uint32_t *indexp);
int remap_link(Remap *remap, uint32_t link, uint32_t *indexp);
int remap_stack(Remap *remap, uint32_t stack, uint32_t *indexp);
int remap_profile_names(Remap *remap, const WindowProfileNames *names, WindowProfileNames *namesp);

/*
 * The resource over there that has exactly @attributes, indexes of the open window: it is known by them, as
 * 64 bits of a seeded hash.
 */
int remap_resource(Remap *remap, const uint32_t *attributes, size_t n, uint32_t *indexp);

/* For expand(): adds the next frame, with indexes of the source window. */
int remap_frame(Remap *remap, const WindowFrame *frame);
