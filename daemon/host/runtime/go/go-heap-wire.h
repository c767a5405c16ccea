/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Wire of Go's Heap
 *
 * The conversation with a worker without rights (core/base/sandbox/worker-session.h) that reads the heap
 * profile of one process. The worker has the program's file and the memory of this process, both to read.
 * What it says is not trusted.
 *
 *     request   ReaderRequest, descriptor of the program's file; then a ReaderHandle
 *     answer    GoHeapSaid; if its result is 0, the arrays of a GoHeapProfile
 */

#include "host/runtime/go/go-heap-profile.h"
#include "host/runtime/go/go-program.h"
#include "host/runtime/reader/reader-handle.h"
#include "host/sampling/process/process.h"

enum { GO_HEAP_WIRE_MAGIC = 0x474f4850 };

/* Why there is no profile. Up to GO_HEAP_E_OFF as in go-heap.h. */
enum {
        GO_HEAP_SAID_FILE = GO_HEAP_E_OFF + 1,  /* the file is no (whole) program of Go, or too large a one */
        GO_HEAP_SAID_VERSION,           /* a release whose layout is not known, or none is told */
        GO_HEAP_SAID_PLACES,            /* the variables were not found in its code */
        GO_HEAP_SAID_UNUSED,            /* the profile is off, since nothing in the program reads it */
        GO_HEAP_SAID_N,
};

/* Begins as a ReaderSaid. */
typedef struct GoHeapSaid {
        uint32_t magic, kind;           /* kind: 1 */
        int32_t result;                 /* 0, GO_HEAP_E_*, GO_HEAP_SAID_* */
        uint32_t cycle;                 /* number of the collection whose end it is of */
        int64_t rate;
        uint32_t is_early;              /* nothing was published: GoHeapLook */
        char version[GO_MAX_VERSION];   /* "" = not told */
        GoHeapSizes sizes;
} GoHeapSaid;

_Static_assert(sizeof(GoHeapSaid) == 80, "no hidden bytes");

extern const WorkerQuestion go_heap_question;

/* Pure. Whether a worker may say so. */
bool go_heap_said_check(const GoHeapSaid *said);

/* Words for a result that is not 0. A constant. */
const char *go_heap_text(int result);

/* The heap of a process, or why it is not known. */
typedef struct GoHeapAnswer {
        GoHeapSaid said;
        GoHeapProfile profile;          /* if its result is 0 */
} GoHeapAnswer;

void go_heap_answer_deinit(GoHeapAnswer *answer);

enum {
        _GO_HEAP_ASK_E_SUCCESS,
        GO_HEAP_ASK_E_NONE,             /* the process has no Go in it */
        GO_HEAP_ASK_E_DENIED,           /* the process is gone, or its memory is not readable for us */
        GO_HEAP_ASK_E_WORKER,           /* the worker died, was too slow, or said nonsense */
};

/* Parts of a process with Go in it that a worker is given. */
typedef struct GoHeapSubject {
        int fd;                         /* the file with Go in it; -1 = none */
        uint64_t size, bias;            /* as ReaderRequest has them */
        uint64_t object;                /* Object.id of the file */
        ReaderHandle handle;
} GoHeapSubject;

/*
 * @process: its mappings were read. Return: 0 with *subject, the caller's; GO_HEAP_ASK_E_NONE,
 * GO_HEAP_ASK_E_DENIED, -ENOMEM.
 */
int go_heap_subject_open(GoHeapSubject *subject, const Process *process);
void go_heap_subject_close(GoHeapSubject *subject);

/* A mapping of its file; NULL = the process has none. */
const Mapping *go_heap_subject_mapping(const GoHeapSubject *subject, const Process *process);

/*
 * Asks a worker, for up to 30 s. For any thread: *counts are for the loop to count. *cpu_nsp: CPU time of the
 * worker; where nobody knows it, how long it took. Return: 0 with *answer, GO_HEAP_ASK_E_WORKER, -ENOMEM.
 */
int go_heap_subject_ask(const GoHeapSubject *subject, Zygotes *zygotes, GoHeapAnswer *answer,
                        WorkerSessionCounts *counts, uint64_t *cpu_nsp);

/* All of it. *mappingp: one of the file with Go in it. Return: 0 with *answer, GO_HEAP_ASK_E_*, -ENOMEM. */
int go_heap_ask(Zygotes *zygotes, const Process *process, GoHeapAnswer *answer, const Mapping **mappingp);

/* The worker's side. @fd: the program's file. */
void go_heap_serve(int socket, int fd, const ReaderRequest *request);
