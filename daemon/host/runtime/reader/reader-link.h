/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reader Links
 *
 * What the daemon has of a process with a runtime instead of its memory: a worker without rights that reads
 * it, or the right to have one made. The loop waits for answers, so all time here is bounded (reader-link.c).
 * What is asked, and in which words, is the runtime's.
 */

#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "host/runtime/reader/reader-handle.h"
#include "host/sampling/process/identity.h"

enum { READER_MAX_LINKED = 64 };        /* workers at the same time */

/* The workers of all runtimes. Not for several threads at once. */
typedef struct ReaderLinks ReaderLinks;

/* @zygotes: borrowed. Return: 0, -ENOMEM. */
int reader_links_new(ReaderLinks **linksp, Zygotes *zygotes);
ReaderLinks *reader_links_free(ReaderLinks *links);     /* when none of its links is left */
DEFINE_CLEANUP(ReaderLinks, reader_links_free)

/* Called some times a second: ends workers that have no more questions, and takes note of ended ones. */
void reader_links_tend(ReaderLinks *links, uint64_t now_ns);

/*
 * Hears an answer of @worker; for questions after the first, asks before. Return: 0, or what is wrong with
 * the process, in the runtime's own numbers. When the worker has gone in between, the session is over, and
 * what is returned does not matter.
 */
typedef int (*ReaderQuestion)(void *userdata, WorkerSession *worker);

typedef struct ReaderOps {
        const char *name;               /* name of the runtime, for the log */
        const WorkerQuestion *question; /* a ReaderRequest, sent to a worker that has just begun */
        ReaderQuestion hear_opened;     /* hears the answer to `question` */
} ReaderOps;

/* A process, and the file of the runtime that it has mapped. */
typedef struct ReaderSubject {
        pid_t pid;
        uint64_t start_time_ns;
        uint64_t size, bias;            /* size and bias of the file, as ReaderRequest has them */
        int fd;
        ShareOwner owner;               /* process that has it; group 0 = read once it is needed */
} ReaderSubject;

enum {
        _READER_LINK_E_SUCCESS,
        READER_LINK_E_LATER,            /* nothing could be asked now */
        READER_LINK_E_GONE,             /* the worker ended without an answer, or was too slow */
};

/* Link to a process. */
typedef struct ReaderLink ReaderLink;

/* @ops, @userdata: borrowed. @subject: its descriptor is the link's on success. Return: 0, -ENOMEM. */
int reader_link_new(ReaderLink **linkp, ReaderLinks *links, const ReaderOps *ops, void *userdata,
                    const ReaderSubject *subject);
ReaderLink *reader_link_free(ReaderLink *link);

/* Has the process read anew, by a new worker. Return: 0 with what hear_opened() said, READER_LINK_E_*. */
int reader_link_open(ReaderLink *link, int *resultp);

/*
 * Asks @question with @userdata. A worker that is not there (any more) is made and opened before. Return: 0
 * with what the question said, READER_LINK_E_*.
 */
int reader_link_ask(ReaderLink *link, ReaderQuestion question, void *userdata, int *resultp);

/* CPU time of all its workers so far, ns. */
uint64_t reader_link_cpu_ns(const ReaderLink *link);
