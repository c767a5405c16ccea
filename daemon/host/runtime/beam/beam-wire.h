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
 *     answer    BeamSaid: OPEN, BeamOpened
 *     question  BeamQuestion: FIND                   NAME, the words of a frame, where modules and atoms lie
 *     answer    BeamSaid: FIND, BeamFound           NAME, texts
 *     question  BeamQuestion: TASK, what tells a process of Erlang
 *     answer    BeamSaid: TASK, texts
 */

#include "host/runtime/beam/beam-find.h"
#include "host/runtime/reader/file-link.h"
#include "host/runtime/reader/reader-handle.h"

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

/* Begins as a ReaderSaid. */
typedef struct BeamSaid {
        uint32_t magic, kind;
        int32_t result;                 /* 0, BEAM_OPEN_E_*, BEAM_CODE_E_* */
        uint32_t line;                  /* NAME */
        uint16_t n_name, n_file;        /* bytes of each text that follows, with its NUL; NAME */
        uint32_t zero;
} BeamSaid;

_Static_assert(sizeof(BeamSaid) == 24 && sizeof(BeamQuestion) == 56, "no hidden bytes");

/* What a file says: a BeamOpened. */
extern const FileLinkOps beam_link_ops;

extern const WorkerQuestion beam_open_question;

/* Pure. Whether an answer to a question of @kind is one that may come. */
bool beam_wire_check(const BeamSaid *said, BeamWireKind kind);

/* Pure. Makes *function of @said and its @texts. Return: whether they are sound. */
bool beam_wire_take(BeamFunction *function, const BeamSaid *said, const char *texts);

/* Return: 0 with what beam_find() *said, and maybe *found; FILE_LINK_E_LATER. */
int beam_link_find(FileLink *link, BeamFound *found, int *said);

/* The same of beam_code_name() and *function. @words: of a frame of the process of @found. */
int beam_link_name(FileLink *link, const BeamFound *found, const uint64_t *words, BeamFunction *function,
                   int *said);

/* The same of beam_code_task(). */
int beam_link_task(FileLink *link, const BeamFound *found, uint64_t task, BeamFunction *function, int *said);

/* The worker's side: answers until the daemon closes the socket. @fd: the file. */
void beam_serve(int socket, int fd, const ReaderRequest *first);
