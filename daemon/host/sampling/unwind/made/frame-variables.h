/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Variables of Registered Frames
 *
 * Where a library keeps the call frame information that compilers at run time hand to it
 * (__register_frame), learnt from the code of functions that it exports. Nothing is guessed: a library whose
 * code says anything else is refused.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/sampling/process/dynamic-symbol.h"

enum {
        FRAME_MAX_FUNCTION = 4096,      /* bytes of a function that are read; a larger one is refused */
        FRAME_TREE_LOCK = 16,           /* place of the lock in a tree: root, free nodes, lock */
};

/* In addresses. `used` is LLVM's, then `unseen` and `seen` are 0. */
typedef struct FrameVariables {
        uint64_t lock;                  /* a mutex; of LLVM's one of readers and a writer */
        uint64_t unseen, seen;          /* the heads of both lists; seen 0 = `unseen` is a tree's begin */
        uint64_t begin, used;           /* the array of LLVM's library, and its end */
} FrameVariables;

/* The same, @bias bytes further. */
FrameVariables frame_variables_at(const FrameVariables *variables, uint64_t bias);

enum {
        _FRAME_VARIABLES_E_SUCCESS,
        FRAME_VARIABLES_E_NONE,         /* the library has no such functions */
        FRAME_VARIABLES_E_UNKNOWN,      /* the library keeps what they get in a way that is not known */
};

/* @image: opened. *variables: in ELF addresses. Return: 0, FRAME_VARIABLES_E_*. */
int frame_variables_find(const DynamicImage *image, FrameVariables *variables);

/* Pure. The same of the code of both functions, at their addresses. */
typedef struct FrameCode {
        const uint8_t *bytes;
        uint32_t size;
        uint64_t address;
} FrameCode;

int frame_variables_learn(const DynamicImage *image, const FrameCode *registrar, const FrameCode *finder,
                          FrameVariables *variables);

/* Pure. The same of LLVM's library, by the code that takes functions out. */
int frame_variables_learn_array(const DynamicImage *image, const FrameCode *remover,
                                FrameVariables *variables);
