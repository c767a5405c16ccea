/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What Files Say of an Interpreter
 *
 * Release, offsets and symbols of the file with the interpreter, and what other files of the process add. All
 * addresses are ELF addresses of that file, so one answer is right for each process that has it mapped.
 */

#include "host/runtime/python/python-layout.h"
#include "host/runtime/python/python-program.h"
#include "host/runtime/python/python-task.h"

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
        PythonMore more;                /* of the interpreter's own file: TASKS or NONE */
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
