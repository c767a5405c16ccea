/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Profile of Go's Heap
 *
 * What a look has read (go-heap.h), with functions in place of addresses, as a worker gives it to who asks.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/elf/go-lines.h"
#include "host/runtime/go/go-heap.h"

enum {
        GO_HEAP_MAX_PLACES = 1 << 20,
        GO_HEAP_MAX_FRAMES = 1 << 22,
        GO_HEAP_MAX_TEXT = 64 << 20,
        GO_HEAP_MAX_INLINED = 64,       /* functions at one address */
        /* functions of one stack */
        GO_HEAP_MAX_LINES = GO_HEAP_MAX_DEPTH + GO_HEAP_MAX_INLINED,
};

/* Allocations of one size by one stack. */
typedef struct GoHeapSample {
        uint64_t bucket;                /* address of the bucket in the process: no other sample has it */
        uint64_t size;                  /* bytes of each object */
        uint64_t allocs, frees;         /* objects, of those that were sampled */
        /* in `stacks`, the innermost first; they lie one behind the other, in the order of samples */
        uint32_t stack, n_stack;
} GoHeapSample;

/* A place where stacks call. */
typedef struct GoHeapPlace {
        uint64_t address;               /* ELF address of the call; of code not Go's: in the process */
        uint32_t frame, n_frames;       /* functions there, the innermost first; 0 = none of Go's */
        uint32_t is_runtime;            /* whether the innermost one is of Go's runtime */
        uint32_t zero;
} GoHeapPlace;

/* A function. Texts are places in `text`; 0 = not known. */
typedef struct GoHeapFrame {
        uint32_t name, file;
        uint32_t line, first_line;      /* 0 = not known */
} GoHeapFrame;

typedef struct GoHeapSizes {
        uint32_t n_samples, n_stacks, n_places, n_frames, n_text;
} GoHeapSizes;

typedef struct GoHeapProfile {
        GoHeapSizes n;
        GoHeapSample *samples;
        uint32_t *stacks;               /* numbers of places */
        GoHeapPlace *places;
        GoHeapFrame *frames;
        char *text;                     /* begins with an empty text; each has its NUL */
} GoHeapProfile;

void go_heap_profile_deinit(GoHeapProfile *profile);

/* @bias: address in the process - ELF address. Return: 0, GO_HEAP_E_MANY, -ENOMEM. */
int go_heap_profile_make(GoHeapProfile *profile, const GoHeap *heap, const GoLines *lines, uint64_t bias);

/* Pure. Whether there may be as many. */
bool go_heap_sizes_check(const GoHeapSizes *sizes);

/* Pure. Whether all that the profile refers to is there, and its numbers may be so. */
bool go_heap_profile_check(const GoHeapProfile *profile);

/* A function of a stack. */
typedef struct GoHeapLine {
        const char *name, *file;        /* name NULL = code that is none of Go's; file "" = not known */
        uint32_t line, first_line;
        uint64_t address;               /* as in GoHeapPlace; of inlined ones that of the innermost */
        bool is_inlined;                /* into the next one */
} GoHeapLine;

/*
 * Pure. Functions of a sample's stack, as Go's own profile shows them: without those of the runtime that the
 * allocation went through, and without runtime.goexit. Return: how many.
 */
size_t go_heap_profile_stack(const GoHeapProfile *profile, const GoHeapSample *sample,
                             GoHeapLine lines[static GO_HEAP_MAX_LINES]);

/* Objects and bytes. */
typedef struct GoHeapValues {
        int64_t alloc_objects, alloc_bytes, inuse_objects, inuse_bytes;
} GoHeapValues;

/*
 * Pure. What a sample stands for, as Go's own profile says it: by how likely it was that an object of this
 * size is sampled. @rate: as in GoHeapLook.
 */
GoHeapValues go_heap_values(const GoHeapSample *sample, int64_t rate);

/* Pure. A sum that is no number of 63 bits becomes the largest one. Values are not below zero. */
void go_heap_values_add(GoHeapValues *to, const GoHeapValues *values);
