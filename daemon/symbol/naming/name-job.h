/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Name Job
 *
 * The thread's part of object-names: opens the file of one object, has it read, and looks up to 64 of its
 * addresses up in it. A job owns all that it uses, as its thread may be given up and go on alone.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/sandbox/worker-session.h"
#include "base/util/arena.h"
#include "base/util/worker.h"
#include "sampling/process/object.h"
#include "symbol/function/symbolizer.h"

enum { NAME_JOB_MAX = 64 };

/* A living process that has the object mapped, and where. */
typedef struct NamePlace {
        ObjectFile file;                /* not of the vdso */
        pid_t pid;
        uint64_t start_time_ns, start, end;
} NamePlace;

typedef struct NameFound {
        const char *name, *linkage_name;        /* NULL = none; the same as name */
        SymbolState state;
} NameFound;

typedef struct NameJob {
        WorkerJob job;                  /* first; the caller sets `done` and `stuck` */
        const char *gnu, *go, *path;
        bool is_vdso;
        NamePlace place;
        Zygotes *zygotes;               /* a reference; NULL = the file is read here */
        uint32_t n;
        uint64_t addresses[NAME_JOB_MAX];

        NameFound found[NAME_JOB_MAX];
        bool is_unopened;               /* nothing was found out */
        bool is_failed;                 /* the same: no worker could read it */
        SymbolizerStats read;           /* what was read for it */
        WorkerSessionCounts workers;

        void *object, *names[NAME_JOB_MAX];     /* the caller's; nobody looks at them here */
        Arena texts;
        int fd;
} NameJob;

/*
 * @zygotes: of workers that read the file; NULL = it is read here, as the vdso always is. Return: 0, -ENOMEM.
 */
int name_job_new(NameJob **jobp, const char *gnu, const char *go, const char *path, bool is_vdso,
                 const NamePlace *place, Zygotes *zygotes);
void name_job_discard(WorkerJob *job);

/* For WorkerConfig: what the jobs of one thread share is a Symbolizer. */
void *name_job_begin(void);
void name_job_end(void *state);
