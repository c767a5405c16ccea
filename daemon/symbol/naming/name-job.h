/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Name Job
 *
 * The thread's part of object-names: opens the file of one object, has it read, and looks up to 64 of its
 * addresses up in it. A file whose table the thread still has is not opened. Else it is asked of one process
 * after the other that had it mapped, and last looked for at its path here; what is opened is always the very
 * file. A job owns all that it uses, as its thread may be given up and go on alone.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/sandbox/worker-session.h"
#include "base/util/arena.h"
#include "base/util/worker.h"
#include "sampling/process/object-file.h"
#include "symbol/function/symbolizer.h"

enum {
        NAME_JOB_MAX = 64,
        NAME_MAX_PLACES = 4,
};

/* A process that had the object mapped, and where. */
typedef struct NamePlace {
        pid_t pid;
        uint64_t start_time_ns, start, end;
} NamePlace;

/* Processes that had it, the one that began first before the others: it may well be the last to end. */
typedef struct NamePlaces {
        NamePlace items[NAME_MAX_PLACES];
        uint32_t n;
} NamePlaces;

/* Pure. Remembers @place, in place of what is known of its process, or of the process that began last. */
void name_places_add(NamePlaces *places, const NamePlace *place);

/* Pure. Forgets those of @gone, unless they are others by now. */
void name_places_remove(NamePlaces *places, const NamePlaces *gone);

/* What is to be named. */
typedef struct NameSubject {
        const char *gnu, *go, *path;
        ObjectFile file;                /* not of the vdso, as the places */
        bool is_vdso;
} NameSubject;

typedef struct NameFound {
        const char *name, *linkage_name;        /* NULL = none; the same as name */
        SymbolState state;
} NameFound;

typedef struct NameJob {
        WorkerJob job;                  /* first; the caller sets `done` and `stuck` */
        NameSubject subject;            /* its texts are in `texts` */
        NamePlaces places;
        Zygotes *zygotes;               /* a reference; NULL = the file is read here */
        uint32_t n;
        uint64_t addresses[NAME_JOB_MAX];

        NameFound found[NAME_JOB_MAX];
        bool is_unopened;               /* nothing was found out */
        bool is_failed;                 /* the same: no worker could read it */
        bool is_gone;                   /* the same: nobody of `places` has it any more */
        NamePlaces gone;                /* those that have not, as far as they were asked */
        SymbolizerStats read;           /* what was read for it */
        WorkerSessionCounts workers;

        void *object, *names[NAME_JOB_MAX];     /* the caller's; nobody looks at them here */
        Arena texts;
        int fd;
} NameJob;

/*
 * @zygotes: of workers that read the file; NULL = it is read here, as the vdso always is. Return: 0, -ENOMEM.
 */
int name_job_new(NameJob **jobp, const NameSubject *subject, const NamePlaces *places, Zygotes *zygotes);
void name_job_discard(WorkerJob *job);

/* For WorkerConfig: what the jobs of one thread share is a Symbolizer. */
void *name_job_begin(void);
void name_job_end(void *state);
