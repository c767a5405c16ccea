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
#include "host/sampling/runtime/runtimes.h"

enum { FUNCTION_MAX_ASKED = 64 };      /* frames at once */

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

/* Pure. Whether what an answer says of a function with a name may be. */
bool function_wire_is_named(const FunctionSaid *said);

/* Pure. Whether an answer to a question of @magic and @kind is one that may come. */
bool function_wire_check(const FunctionSaid *said, uint32_t magic, FunctionWireKind kind);

/* Pure. Makes *function of @said and its @texts. Return: whether they are sound. */
bool function_wire_take(ReaderFunction *function, const FunctionSaid *said, const char *texts);

/* Takes what was said of frame @i: 0 = its function is in the room. Return: 0, -ENOMEM. */
typedef int (*FunctionAnswer)(void *userdata, size_t i, int said);

/* Such a one that keeps it: @userdata is an int. */
int function_keep_said(void *userdata, size_t i, int said);

/*
 * Asks about @n frames at once, or about the first FUNCTION_MAX_ASKED. @question: is answered by what begins
 * as a FunctionSaid. @requests: one of its size for each that is asked about. @room: has the function while
 * @answer is called. Return: 0, FILE_LINK_E_LATER: some have no answer, -ENOMEM.
 */
int function_link_ask(FileLink *link, const WorkerQuestion *question, const void *requests, size_t n,
                      ReaderFunction *room, FunctionAnswer answer, void *userdata);

/* The same by FunctionQuestions. @words: of each frame. */
int function_link_names(FileLink *link, uint32_t magic, const uint64_t *const *words, size_t n,
                        ReaderFunction *room, FunctionAnswer answer, void *userdata);

/* Names @n frames of a process. Return: as function_link_ask(). */
typedef int (*FunctionNames)(void *state, const uint64_t *const *words, size_t n, FunctionAnswer answer,
                             void *userdata);

/* frames() and many() of RuntimeOps. @room: of @names. */
int function_frames(FunctionNames names, void *state, const ReaderFunction *room, const uint64_t *words,
                    RuntimeFrame *frames, size_t *np);
int function_many(FunctionNames names, void *state, const ReaderFunction *room, const uint64_t *const *words,
                  size_t n, RuntimeAnswer answer, void *userdata);

/* ---- the worker's side ---- */

/* Answers the first request. @opened: @size bytes that the file says. Return: 0; else nobody listens. */
int function_wire_say_opened(int socket, uint32_t magic, int result, const void *opened, size_t size);

/* Answers a question: @function if @result is 0. Return: 0; else nobody listens. */
int function_wire_say(int socket, uint32_t magic, uint32_t kind, int result, const ReaderFunction *function);

/* Names the frame of @words. Return: 0 with *function, 1 = it is gone. */
typedef int (*FunctionNamer)(const void *reader, const uint64_t *words, ReaderFunction *function);

/* Answers questions until the daemon closes the socket. */
void function_wire_serve(int socket, uint32_t magic, FunctionNamer name, const void *reader);
