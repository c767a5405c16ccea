/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Python Program
 *
 * Where an ELF file has an interpreter of CPython: libpython, `python3`, or a program that has one in it. It
 * is found by what the file exports, by its symbol table, or by a section.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/runtime/python/python-layout.h"
#include "host/sampling/process/dynamic-symbol.h"

typedef enum PythonSymbol {
        PYTHON_SYMBOL_RUNTIME,          /* _PyRuntime */
        PYTHON_SYMBOL_EVALUATOR,        /* _PyEval_EvalFrameDefault */
        PYTHON_SYMBOL_VERSION,          /* Py_Version, 3.11 and newer */
        PYTHON_SYMBOL_CODE,             /* PyCode_Type */
        PYTHON_SYMBOL_COROUTINE,        /* PyCoro_Type */
        PYTHON_SYMBOL_GENERATOR,        /* PyGen_Type */
        PYTHON_SYMBOL_TEXT,             /* PyUnicode_Type */
        PYTHON_SYMBOL_NUMBER,           /* PyLong_Type */
        PYTHON_SYMBOL_SEND,             /* PyIter_Send, 3.10 and newer */
        PYTHON_SYMBOL_GET_CODE,         /* PyFrame_GetCode, 3.9 and newer */
        PYTHON_SYMBOL_NEW_CODE,         /* PyCode_NewWithPosOnlyArgs, 3.8 and newer */
        PYTHON_N_SYMBOLS,
} PythonSymbol;

typedef struct PythonPlace {
        uint64_t address;               /* ELF address; 0 = not known */
        uint64_t size;
} PythonPlace;

typedef struct PythonProgram {
        DynamicImage image;
        PythonPlace places[PYTHON_N_SYMBOLS];
        uint32_t version;               /* major << 8 | minor; 0 = nothing tells it */
} PythonProgram;

/* @fd: borrowed, or -1: bytes are at @data. Return: whether the file has an interpreter; then *program. */
bool python_program_read(PythonProgram *program, int fd, const void *data, uint64_t size);
