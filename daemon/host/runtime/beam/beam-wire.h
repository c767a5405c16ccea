/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Erlang Wire
 *
 * The conversation with a worker without rights that reads one process with Erlang in it
 * (core/base/sandbox/worker-session.h). The worker has the file of Erlang's machine and the memory of this
 * process, both to read. What it says is not trusted.
 *
 *     request   ReaderRequest, descriptor of the file; then a ReaderHandle
 *     answer    FunctionSaid: OPEN, BeamOpened
 *     question  BeamQuestion: FIND                   NAME, the words of a frame, where modules and atoms lie
 *     answer    FunctionSaid: FIND, BeamFound           NAME, texts
 *     question  BeamQuestion: TASK, what tells a process of Erlang
 *     answer    FunctionSaid: TASK, texts
 */

#include "host/runtime/beam/beam-find.h"
#include "host/runtime/reader/function-wire.h"

enum { BEAM_WIRE_MAGIC = 0x4245414d };

typedef enum BeamWireKind {
        BEAM_WIRE_OPEN = 1,
        BEAM_WIRE_FIND,
        BEAM_WIRE_NAME,
        BEAM_WIRE_TASK,
} BeamWireKind;

typedef struct BeamQuestion {
        uint32_t magic, kind;
        uint64_t words[2];              /* NAME, as the next ones; TASK: the first one */
        uint64_t ranges, active, modules, atoms;
} BeamQuestion;

_Static_assert(sizeof(BeamQuestion) == 56, "no hidden bytes");

/* What a file says: a BeamOpened. */
extern const FileLinkOps beam_link_ops;

extern const WorkerQuestion beam_open_question;

/* Pure. Whether an answer to a question of @kind is one that may come. */
bool beam_wire_check(const FunctionSaid *said, BeamWireKind kind);

/* Return: 0 with what beam_find() *said, and maybe *found; FILE_LINK_E_LATER. */
int beam_link_find(FileLink *link, BeamFound *found, int *said);

/* As function_link_names(). @words: of frames of the process of @found. */
int beam_link_names(FileLink *link, const BeamFound *found, const uint64_t *const *words, size_t n,
                    ReaderFunction *room, FunctionAnswer answer, void *userdata);

/* Return: 0 with what beam_code_task() *said, FILE_LINK_E_LATER. */
int beam_link_task(FileLink *link, const BeamFound *found, uint64_t task, ReaderFunction *function,
                   int *said);

/* The worker's side: answers until the daemon closes the socket. @fd: the file. */
void beam_serve(int socket, int fd, const ReaderRequest *first);
