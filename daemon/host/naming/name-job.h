/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Name Job
 *
 * The thread's part of object-names: opens the file of one object, has it read, and finds up to 1,024 of its
 * addresses in it. A file whose table the thread still has is not opened. Else it is asked of one process
 * after the other that had it mapped, and last looked for at its path here; what is opened is always the very
 * file. A job owns all that it uses, as its thread may be given up and go on alone.
 *
 * What a thread has read stays for one to two calls of a job of another kind, NameAging.
 *
 * A job may also ask for the lines at its addresses, in place of their names. Nothing is kept of that.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/data/arena.h"
#include "core/base/data/shares.h"
#include "core/base/sandbox/worker-session.h"
#include "core/base/thread/worker.h"
#include "core/symbol/function/symbol-wire.h"
#include "core/symbol/function/symbolizer.h"
#include "core/symbol/object/object-file.h"

enum {
        NAME_JOB_MAX = SYMBOL_WIRE_MAX_NAMES,   /* addresses */
        NAME_MAX_PLACES = 4,
        /* bytes of a thread's symbol tables; one table that is larger is kept alone */
        NAME_MAX_TABLE_BYTES = 64 << 20,
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

/*
 * Source of debug files of other machines, which may get one a while after it was asked for. A job holds a
 * reference, as its thread may be given up.
 */
typedef struct NameRemote {
        SymbolRemote remote;            /* fetch() never waits for others; NULL = there is none */
        void (*ref)(void *userdata);
        void (*unref)(void *userdata);
        /* the loop's: a build id whose file came since it was asked for. Return: whether there is one */
        bool (*next)(void *userdata, char *build_id_gnu, size_t size);
} NameRemote;

/* An object whose addresses are to be named. */
typedef struct NameSubject {
        const char *gnu, *go, *path;
        ObjectFile file;                /* not for the vdso, like the places */
        bool is_vdso;
} NameSubject;

/* A function that runs at an address. */
typedef struct NameLine {
        const char *name, *linkage_name;        /* "" = not known; NULL = the same as name */
        const char *file;
        uint32_t line, start_line;
} NameLine;

/* Innermost first; those before the last are inlined. */
typedef struct NameLines {
        uint32_t n;
        NameLine items[];
} NameLines;

typedef struct NameFound {
        const char *name, *linkage_name;        /* NULL = none; the same as name */
        SymbolState state;
        const NameLines *lines;         /* for_lines: NULL = none */
} NameFound;

typedef struct NameJob {
        WorkerJob job;                  /* first; the caller sets `done` and `stuck` */
        NameSubject subject;            /* subject whose texts are in `texts` */
        NamePlaces places;
        Zygotes *zygotes;               /* a reference; NULL = the file is read here */
        NameRemote remote;              /* a reference */
        bool is_renewed;                /* symbols that were read of the object count no more */
        bool for_lines;                 /* with zygotes alone */
        uint32_t n;
        uint64_t addresses[NAME_JOB_MAX];

        NameFound found[NAME_JOB_MAX];
        bool is_unopened;               /* nothing was found out */
        bool is_failed;                 /* no addresses are named: no worker could read the file */
        /* no addresses are named: no process of `places` has the file any more */
        bool is_gone;
        NamePlaces gone;                /* processes without the file, as far as they were asked */
        LinesState lines;               /* for_lines: what came of it */
        uint64_t took_ns;               /* the same: how long it took */
        SymbolizerStats read;           /* work that was done for it */
        size_t table_bytes;             /* size of the thread's tables after it */
        WorkerSessionCounts workers;

        void *object, *names[NAME_JOB_MAX];     /* the caller's, as the next two; not used here */
        Share *share;                   /* holder of its place in the queue */
        uint32_t serial;
        Arena texts;
        int fd;
} NameJob;

/*
 * @zygotes: of workers that read the file; NULL = it is read here, as the vdso always is, and @remote, which
 * may be NULL, is not asked. @owner: process for which that is asked. Return: 0, -ENOMEM.
 */
int name_job_new(NameJob **jobp, const NameSubject *subject, const NamePlaces *places, Zygotes *zygotes,
                 const NameRemote *remote, const ShareOwner *owner);
void name_job_discard(WorkerJob *job);

/* Forgets tables that were not needed since the one before, and gives their memory back to the system. */
typedef struct NameAging {
        WorkerJob job;                  /* first; the caller sets `done` and `stuck` */
        uint64_t n_aged;
        size_t table_bytes;             /* size of the tables that stay */
} NameAging;

/* Return: 0, -ENOMEM. */
int name_aging_new(NameAging **agingp);

/* For WorkerConfig: makes the Symbolizer that the jobs of one thread share. */
void *name_job_begin(void);
void name_job_end(void *state);
