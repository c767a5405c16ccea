/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * V8 Wire
 *
 * The conversation with a worker without rights that reads one process with V8 in it
 * (core/base/sandbox/worker-session.h). The worker has V8's file and the memory of this process, both to
 * read. What it says is not trusted.
 *
 *     request   ReaderRequest, descriptor of V8's file; then a ReaderHandle
 *     answer    V8Said: OPEN, V8Opened
 *     question  V8Question: the words of a frame
 *     answer    V8Said: NAME, n times V8WireFunction, texts
 */

#include "host/runtime/reader/reader-handle.h"
#include "host/runtime/v8/v8-code.h"

enum {
        V8_WIRE_MAGIC = 0x56384a31,
        V8_WIRE_MAX_TEXTS = V8_MAX_FUNCTIONS * 2 * V8_MAX_TEXT,
};

typedef enum V8WireKind {
        V8_WIRE_OPEN = 1,
        V8_WIRE_NAME,
} V8WireKind;

typedef struct V8Question {
        uint32_t magic, zero;
        uint64_t words[RUNTIME_V8_WORDS];
} V8Question;

/* Begins as a ReaderSaid. */
typedef struct V8Said {
        uint32_t magic, kind;
        int32_t result;                 /* 0, V8_OPEN_E_*, V8_CODE_E_* */
        uint32_t n, n_bytes;            /* NAME: functions, and bytes of all their texts */
} V8Said;

typedef struct V8WireFunction {
        uint32_t line, first_line;
        uint16_t n_name, n_file;        /* bytes of each text, with its NUL */
} V8WireFunction;

_Static_assert(sizeof(V8Said) == 20 && sizeof(V8Question) == 32 && sizeof(V8WireFunction) == 12,
               "no hidden bytes");

extern const WorkerQuestion v8_open_question, v8_question;

/* Whether functions follow the answer to a question for a name. */
bool v8_wire_has_names(const V8Said *said);

/* Pure. Whether an answer to a question of @kind is one that may come. */
bool v8_wire_check(const V8Said *said, V8WireKind kind);

/* Pure. Whether a layout may be so. @result: of the answer. Makes the reason a text. */
bool v8_wire_check_opened(V8Opened *opened, int result);

/* Pure. Makes *answer of functions and texts that came with @said. Return: whether they are sound. */
bool v8_wire_take(V8Answer *answer, const V8Said *said, const V8WireFunction *functions, const char *texts);

/* The worker's side: answers until the daemon closes the socket. @fd: V8's file. */
void v8_serve(int socket, int fd, const ReaderRequest *first);
