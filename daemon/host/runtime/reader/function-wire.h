/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Function Wire
 *
 * The conversation with a worker without rights (core/base/sandbox/worker-session.h) that names the functions
 * of one process by the words of a frame. The worker has the runtime's file and the memory of this process,
 * both to read. What it says is not trusted. Each runtime has a magic of its own.
 *
 *     request   ReaderRequest, descriptor of the runtime's file; then a ReaderHandle
 *     answer    FunctionSaid: OPEN, what the file says
 *     question  FunctionQuestion: the words of a frame
 *     answer    FunctionSaid: NAME, texts
 */

#include "border/runtime_abi.h"
#include "host/runtime/reader/file-link.h"
#include "host/runtime/reader/reader-function.h"
#include "host/runtime/reader/reader-handle.h"

typedef enum FunctionWireKind {
        FUNCTION_WIRE_OPEN = 1,
        FUNCTION_WIRE_NAME,
} FunctionWireKind;

typedef struct FunctionQuestion {
        uint32_t magic, zero;
        uint64_t words[RUNTIME_MAX_WORDS];      /* a frame's, then zeros */
} FunctionQuestion;

/* Begins as a ReaderSaid. */
typedef struct FunctionSaid {
        uint32_t magic, kind;
        int32_t result;                 /* 0, or 1: the file is not known, or the function is gone */
        uint32_t line, first_line;      /* NAME */
        uint16_t n_name, n_file;        /* bytes of each text that follows, with its NUL; NAME */
} FunctionSaid;

_Static_assert(sizeof(FunctionSaid) == 24 && sizeof(FunctionQuestion) == 32, "no hidden bytes");

/* Pure. Whether an answer to a question of @magic and @kind is one that may come. */
bool function_wire_check(const FunctionSaid *said, uint32_t magic, FunctionWireKind kind);

/* Pure. Makes *function of @said and its @texts. Return: whether they are sound. */
bool function_wire_take(ReaderFunction *function, const FunctionSaid *said, const char *texts);

/* @words: of a frame. Return: 0 with *said, and maybe *function; FILE_LINK_E_LATER. */
int function_link_name(FileLink *link, uint32_t magic, const uint64_t *words, ReaderFunction *function,
                       int *said);

/* ---- the worker's side ---- */

/* Answers the first request. @opened: @size bytes that the file says. Return: 0; else nobody listens. */
int function_wire_say_opened(int socket, uint32_t magic, int result, const void *opened, size_t size);

/* Names the frame of @words. Return: 0 with *function, 1 = it is gone. */
typedef int (*FunctionNamer)(const void *reader, const uint64_t *words, ReaderFunction *function);

/* Answers questions until the daemon closes the socket. */
void function_wire_serve(int socket, uint32_t magic, FunctionNamer name, const void *reader);
