/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code of V8
 *
 * From the words of a frame to its functions, lines and files, the innermost function first: others may have
 * been inlined into the one whose frame it is.
 */

#include "host/runtime/v8/v8-baseline.h"
#include "host/runtime/v8/v8-script.h"

enum {
        V8_MAX_FUNCTIONS = 128,         /* functions of one frame */
};

typedef struct V8Answer {
        V8Function functions[V8_MAX_FUNCTIONS];
        uint32_t n;
} V8Answer;

/* Facts that a reader has learnt of one process. */
typedef struct V8Learnt {
        int fd;                         /* V8's file, borrowed; -1 = none: baseline code has no lines */
        uint64_t file_size;
        uint64_t searched;              /* bytes of the file, for `sizes` */
        bool is_served;                 /* whoever asks searches it, while there is no question */
        bool wants_sizes;               /* frames need `sizes`, which are not known yet, */
        bool is_late;                   /* and the present one does */
        V8Sizes sizes;
        V8Lines *lines;                 /* NULL = lines that V8 has not counted stay unknown */
        uint32_t votes[16];             /* word of a BytecodeArray's header: how often it was its positions */
        uint64_t header;                /* first word in front of code, a map; 0 = no code was met yet */
        uint32_t regexp_kind;           /* kind of Code of regular expressions + 1; 0 = not met yet */
        V8Pages pages;
        uint8_t table[64 << 10];        /* the table in work, and the bytecode */
        uint8_t bytecodes[64 << 10];
} V8Learnt;

enum {
        _V8_CODE_E_SUCCESS,
        V8_CODE_E_GONE,                 /* the function is not there any more, or has not been read */
        V8_CODE_E_SHORT,                /* the function is right, those inlined into it are not known */
        V8_CODE_E_LATER,                /* the file has not been searched to its end */
};

/*
 * @words: of a frame (bpf/border/runtime_abi.h). @reader->pages is not looked at. Return: V8_CODE_E_*; 0,
 * SHORT: with *answer.
 */
int v8_code_name(const V8Reader *reader, V8Learnt *learnt, const uint64_t *words, V8Answer *answer);
