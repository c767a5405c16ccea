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
#include "host/runtime/python/python-task.h"
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
        PYTHON_SYMBOL_CONTEXT,          /* PyContext_Type, and types of other objects that lead to spans */
        PYTHON_SYMBOL_VARIABLE,         /* PyContextVar_Type */
        PYTHON_SYMBOL_DICT,             /* PyDict_Type */
        PYTHON_SYMBOL_TUPLE,            /* PyTuple_Type */
        PYTHON_SYMBOL_TYPE,             /* PyType_Type */
        PYTHON_SYMBOL_MODULE,           /* PyModule_Type */
        PYTHON_SYMBOL_FALSE,            /* _Py_FalseStruct, _Py_NoneStruct */
        PYTHON_SYMBOL_NONE,
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

typedef enum PythonMoreKind {
        PYTHON_MORE_NONE = 0,
        PYTHON_MORE_TASKS = 1,          /* tasks of asyncio: the module _asyncio, or the interpreter itself */
        PYTHON_MORE_GREENLETS = 2,      /* greenlet's library */
        PYTHON_MORE_THREADS = 4,        /* the C library: how it makes ids of threads; on arm64 */
} PythonMoreKind;

typedef struct PythonMore {
        uint32_t kind, zero;            /* PythonMoreKind */
        uint64_t tasks[PYTHON_TASK_WORDS];      /* .AsyncioDebug */
        uint64_t root, root_size;       /* code that greenlets begin in */
        uint32_t thread_below;          /* bytes from pthread_self() to the thread pointer */
        uint32_t reserved;
} PythonMore;

typedef struct PythonOpened {
        PythonLayout layout;
        PythonPlace places[PYTHON_N_SYMBOLS];
        PythonMore more;                /* from the interpreter's own file: TASKS or NONE */
        char reason[PYTHON_MAX_REASON]; /* `python 3.13`; if the result is not 0, what is not known */
} PythonOpened;

enum {
        _PYTHON_OPEN_E_SUCCESS,
        PYTHON_OPEN_E_UNKNOWN,
};

/*
 * @fd: a file of @size bytes, borrowed for as long as *program is used. Return: 0 with *program and *opened,
 * PYTHON_OPEN_E_UNKNOWN with opened->reason. No byte of *opened is left as it was.
 */
int python_open(int fd, uint64_t size, PythonProgram *program, PythonOpened *opened);

/* @fd: another file of the process. Return: whether it tells what @kind asks for. All of *more is written. */
bool python_more_read(PythonMoreKind kind, int fd, uint64_t size, PythonMore *more);
