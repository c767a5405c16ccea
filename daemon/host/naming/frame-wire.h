/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Registered Frames on the Wire
 *
 * More questions to the worker that reads a process' lists of code (gdb-wire.h): where a library keeps the
 * frames that were registered with it, and which these are. What it says is not trusted.
 *
 *     request   GdbRequest: FIND_FRAMES, size of a file; its descriptor comes along
 *     answer    FrameAnswer: variables
 *     request   GdbRequest: READ_FRAMES, number of functions that are known by name; then FrameVariables in
 *               the process, these functions (MadeRun), and a ReaderHandle
 *     answer    FrameAnswer, and a set of them (frame-registry.h)
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/sandbox/worker-session.h"
#include "host/naming/gdb-wire.h"
#include "host/sampling/unwind/made/frame-registry.h"

typedef struct FrameAnswer {
        uint32_t magic;
        int32_t result;                 /* 0, FRAME_VARIABLES_E_*, or FRAME_REGISTRY_E_* */
        FrameVariables variables;       /* FIND_FRAMES */
        uint32_t n_clusters, size;      /* READ_FRAMES, as what follows */
        uint32_t n_functions, n_malformed, n_over_cap;
        uint32_t zero;
} FrameAnswer;

_Static_assert(sizeof(FrameAnswer) == 72, "no hidden bytes");

extern const WorkerQuestion frame_wire_question;

/* Pure. Whether the head of an answer is sound, for a question of this kind. */
bool frame_wire_check(const FrameAnswer *answer, GdbWireKind kind);

/* The worker's side: answers one request. Return: 0, or anything else: the conversation is over. */
int frame_wire_serve(int socket, int fd, const GdbRequest *request);
