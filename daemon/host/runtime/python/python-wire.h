/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Python Wire
 *
 * The conversation with a worker without rights that reads one interpreter
 * (core/base/sandbox/worker-session.h). The worker has the interpreter's file and the memory of this process,
 * both to read. What it says is not trusted.
 *
 *     request   ReaderRequest, descriptor of the interpreter's file; then a ReaderHandle
 *     answer    PythonSaid: OPEN, PythonOpened
 *     question  PythonQuestion: NAME, the words of a frame       MORE, descriptor of another file
 *     answer    PythonSaid: NAME, texts                          MORE, PythonMore
 *     question  PythonQuestion: SPANS
 *     answer    PythonSaid: SPANS, struct python_spans
 *     question  PythonQuestion: LOCKS
 *     answer    PythonSaid: LOCKS, the begin of RuntimeLocks, as long as its locks are
 */

#include "host/runtime/python/python-code.h"
#include "host/runtime/python/python-locks.h"
#include "host/runtime/python/python-program.h"
#include "host/runtime/python/python-span.h"
#include "host/runtime/reader/reader-handle.h"

enum { PYTHON_WIRE_MAGIC = 0x43505931 };

typedef enum PythonWireKind {
        PYTHON_WIRE_OPEN = 1,
        PYTHON_WIRE_NAME,
        PYTHON_WIRE_MORE,
        PYTHON_WIRE_SPANS,
        PYTHON_WIRE_LOCKS,
} PythonWireKind;

typedef struct PythonQuestion {
        uint32_t magic, kind;
        uint64_t words[2];              /* NAME */
        uint64_t size;                  /* MORE: bytes of the file */
        uint32_t more_kind, zero;
} PythonQuestion;

/* Begins as a ReaderSaid. */
typedef struct PythonSaid {
        uint32_t magic, kind;
        /* 0, PYTHON_OPEN_E_*, PYTHON_CODE_E_*, PYTHON_SPAN_E_*; MORE: 1 = it tells nothing */
        int32_t result;
        uint32_t line, first_line;      /* NAME; LOCKS: @line is how many there are */
        uint16_t n_name, n_file;        /* bytes of each text that follows, with its NUL; NAME */
} PythonSaid;

_Static_assert(sizeof(PythonSaid) == 24 && sizeof(PythonQuestion) == 40, "no hidden bytes");

extern const WorkerQuestion python_open_question, python_question;

/* Pure. Whether an answer to a question of @kind is one that may come. */
bool python_wire_check(const PythonSaid *said, PythonWireKind kind);

/*
 * Pure. Whether a layout may be so: no sum of its offsets overflows. @result: of the answer. Makes the reason
 * a text: printable ASCII, with an end.
 */
bool python_wire_check_opened(PythonOpened *opened, int result);

/* Pure. Whether this may be an answer to a question of @kind. */
bool python_wire_check_more(const PythonMore *more, PythonMoreKind kind);

/* Pure. Makes *function of @said and its @texts. Return: whether they are sound. */
bool python_wire_take(PythonFunction *function, const PythonSaid *said, const char *texts);

/* The worker's side: answers until the daemon closes the socket. @fd: the interpreter's file. */
void python_serve(int socket, int fd, const ReaderRequest *first);
