/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Scripts and Functions of V8
 *
 * A function's name, its file, and the line of a place in it.
 */

#include "core/base/util/macro.h"
#include "host/runtime/v8/v8-object.h"

typedef struct V8Function {
        char name[V8_MAX_TEXT];         /* never empty */
        char file[V8_MAX_TEXT];         /* "" = not known */
        uint32_t line, first_line;      /* 0 = not known */
} V8Function;

/* Ends of lines of scripts, kept by a reader so that each text is counted once. */
typedef struct V8Lines V8Lines;

V8Lines *v8_lines_new(void);            /* NULL = no memory: no lines are counted */
V8Lines *v8_lines_free(V8Lines *lines);
DEFINE_CLEANUP(V8Lines, v8_lines_free)

/*
 * Names the function of a SharedFunctionInfo. @script_offset: the place in it, < 0 = not known. Return:
 * whether it is one that could be read.
 */
bool v8_function_read(const V8Reader *reader, V8Lines *lines, const V8Object *info, int32_t script_offset,
                      V8Function *function);

/* Begin and end of the function in its script. Return: whether they are known. */
bool v8_function_range(const V8Reader *reader, const V8Object *info, int32_t *startp, int32_t *endp);
