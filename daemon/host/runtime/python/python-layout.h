/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Layout of CPython
 *
 * Where a release keeps what a stack walk needs. 3.13 and newer describe themselves, in the first bytes of
 * `_PyRuntime` (struct _Py_DebugOffsets); 3.8 to 3.12 are in a table. All numbers are offsets in bytes.
 */

#include <stdbool.h>
#include <stdint.h>

#include "border/runtime_abi.h"

enum {
        PYTHON_OLDEST = 0x0308,         /* major << 8 | minor */
        PYTHON_DESCRIBED = 0x030d,      /* from here on, _PyRuntime has the offsets */
        PYTHON_N_OFFSETS = 104,         /* words of _Py_DebugOffsets that are read */
        PYTHON_MAX_REASON = 96,
};

#define PYTHON_COOKIE 0x7970677562656478ull    /* "xdebugpy", the first word of _Py_DebugOffsets */

typedef struct PythonLayout {
        uint32_t version;               /* major << 8 | minor */
        enum python_chain chain;
        bool is_free_threaded;
        uint32_t interpreters;          /* in _PyRuntime */
        uint32_t next_interpreter, threads;                     /* in an interpreter */
        uint32_t next_thread, previous_thread, thread_id, thread_frame; /* in a thread state */
        uint32_t native_frame, native_previous; /* in a CFrame; OBJECTS: see struct python_process */
        uint32_t code, previous, position, owner;               /* in a frame */
        uint32_t name, filename, line_table, first_line;        /* in a code object; name: qualified */
        uint32_t instructions;          /* in a code object; 0 = positions count from 0 */
        /* copies of instructions, see struct python_process; 0 = there are none */
        uint32_t copies, copy_index;
        uint32_t type, type_name;       /* in any object, and in a type */
        uint32_t bytes_size, bytes_data;
        uint32_t text_length, text_state, ascii_data, text_data;
        uint32_t number_tag, number_digits;     /* in an int: digits << 3 | sign, and 30 bits a digit */
        uint32_t generator_frame, generator_state;      /* in a coroutine; 0 = not told, up to 3.13 */
        uint32_t stack_pointer;         /* in a frame */
        /* the lock of an interpreter (the GIL); 0 = not known */
        uint32_t lock;                  /* 3.8 to 3.11: in _PyRuntime */
        uint32_t lock_pointer;          /* 3.12 and newer: in an interpreter */
        uint32_t lock_locked;           /* in the lock */
} PythonLayout;

enum {
        _PYTHON_LAYOUT_E_SUCCESS,
        PYTHON_LAYOUT_E_EMPTY,          /* nothing is there (yet) */
        PYTHON_LAYOUT_E_UNKNOWN,        /* the reason says what */
};

/* The layout of 3.8 … 3.12. Return: 0, PYTHON_LAYOUT_E_UNKNOWN with @reason. */
int python_layout_of(uint32_t version, PythonLayout *layout, char reason[PYTHON_MAX_REASON]);

/*
 * The layout that @words, the first ones of `_PyRuntime`, describe. A release that is not known is taken by
 * the order of the newest known one, if all offsets are plausible. Return: 0, PYTHON_LAYOUT_E_* with @reason.
 */
int python_layout_read(const uint64_t words[PYTHON_N_OFFSETS], PythonLayout *layout,
                       char reason[PYTHON_MAX_REASON]);

/* Fills what the kernel half needs of it. Return: whether all of it lies within the kernel half's bounds. */
bool python_layout_entry(const PythonLayout *layout, struct python_process *entry);
