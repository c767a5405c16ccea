/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code Objects
 *
 * From the words of a sample to a function's name, file and line. Lengths and addresses are the target's: each
 * is bounded, and a code object that is not the sample's any more has no name.
 */

#include <stddef.h>
#include <stdint.h>

#include "host/runtime/python/python-layout.h"
#include "host/runtime/python/python-reader.h"
#include "host/runtime/python/python-text.h"

enum {
        PYTHON_MAX_TABLE = 32 << 10,    /* bytes of a line table; what lies behind has no line */
};

typedef struct PythonFunction {
        char name[PYTHON_MAX_TEXT];     /* "" = none */
        char file[PYTHON_MAX_TEXT];
        uint32_t line;                  /* 0 = not known */
        uint32_t first_line;            /* 0 = not known */
} PythonFunction;

enum {
        _PYTHON_CODE_E_SUCCESS,
        PYTHON_CODE_E_GONE,             /* no code object, or another one than the sample's */
};

/* @words: of a frame (bpf/border/runtime_abi.h). Return: 0 with *function, PYTHON_CODE_E_GONE. */
int python_code_read(const PythonReader *reader, const PythonLayout *layout, const uint64_t *words,
                     PythonFunction *function);

/* Whether @words name an object whose type is called `code`. For where PyCode_Type is not known. */
bool python_code_is(const PythonReader *reader, const PythonLayout *layout, const uint64_t *words);

/*
 * The function of any frame that a sample has. @is_checked: the kernel half has seen that its object is of
 * PyCode_Type. Return: as python_code_read().
 */
int python_code_name(const PythonReader *reader, const PythonLayout *layout, bool is_checked,
                     const uint64_t *words, PythonFunction *function);

/*
 * The line of the instruction at @position, in bytes from the first one; < 0 = the function's begin.
 * @version: major << 8 | minor, 0x0308 or newer. @table: co_lnotab (3.8, 3.9) or co_linetable. Return: the
 * line, 0 = the instruction has none, or the table says nothing of it.
 */
uint32_t python_line(uint32_t version, const uint8_t *table, size_t size, uint32_t first_line,
                     int64_t position);
