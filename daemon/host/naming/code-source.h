/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code Source
 *
 * Names that one process gives to the code that it makes while it runs: what it registers for debuggers
 * (listed-code.h), its perf-map (/tmp/perf-PID.map in its own root, by its own number of itself) and its
 * jitdump (jit-PID.dump, which it maps executable). The first is read again each time, the files from where
 * the last look ended. One thread reads them, which may take any time; another one asks for names and is
 * never kept waiting.
 *
 * A file is believed if it is regular, belongs to the process' own user or to root, is not writable by
 * others, and was written since the process began. It gives a name to a frame, and nothing else. A worker
 * without rights reads it where there are workers (core/symbol/jit/code-wire.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/sandbox/worker-session.h"
#include "core/base/util/macro.h"
#include "core/symbol/jit/code-index.h"
#include "host/naming/listed-code.h"

typedef struct CodeSource CodeSource;

/* A process, and the mapping of its jitdump. */
typedef struct CodePlace {
        pid_t pid;
        uint64_t start_time_ns;
        uint64_t dump_start, dump_end;  /* range of the mapping; 0 = none */
        char *dump_path;                /* path as the process sees it; owned by the holder of the place */
        /*
         * The target's root is held open from look to look, so that what it wrote as it ended can be read.
         * That keeps the root's mount busy.
         */
        bool keep_root;
        /* files that may have lists of code; the next look takes them; none = those of the last look */
        ListedFiles files;
} CodePlace;

/* Result of one look. */
typedef struct CodeLook {
        uint64_t n_taken, n_malformed, n_over_cap;      /* records, and lines */
        /* files that were not there, or not so, at the last look */
        unsigned n_opened, n_refused, n_unreadable;
        unsigned n_failed;              /* files that no worker could read on */
        WorkerSessionCounts workers;
        bool has_file;                  /* there is one to come back to */
        bool is_changed;                /* the look found something new */
        bool has_more;                  /* than one look takes */
        bool failed;                    /* no memory: this source yields nothing any more */
        size_t memory;
        MadeSet *made;                  /* frames that are registered; the caller's; NULL = as before */
        bool is_torn;                   /* the lists were just being changed */
        bool has_frames;                /* a library may keep some */
        bool refuses_frames;            /* a library does, in a way that is not known */
        uint64_t first_id;              /* as ListedResult.first_id */
        ListedSays first;
} CodeLook;

enum {
        _CODE_SOURCE_E_SUCCESS,
        CODE_SOURCE_E_NONE,             /* no name is known for it */
        CODE_SOURCE_E_BUSY,             /* just being changed: ask again */
};

/*
 * @limits may be NULL. @zygotes: of workers that read what the files say; NULL = it is read here. Return: 0
 * with one reference, -ENOMEM.
 */
int code_source_new(CodeSource **sourcep, const CodeIndexLimits *limits, Zygotes *zygotes);

/* May be called from any thread. */
CodeSource *code_source_ref(CodeSource *source);
CodeSource *code_source_unref(CodeSource *source);
DEFINE_CLEANUP(CodeSource, code_source_unref)

/* The reader's: takes what is new, up to 4 MiB of each file. */
void code_source_look(CodeSource *source, CodePlace *place, CodeLook *look);

/*
 * The asker's: the function at @address at @time_ns into @name, CODE_MAX_NAME bytes; *sizep of them are it.
 * *startp: where it begins; *is_pastp: something else is there by now.
 * Return: 0, CODE_SOURCE_E_*.
 */
int code_source_find(CodeSource *source, uint64_t address, uint64_t time_ns, char *name, size_t *sizep,
                     uint64_t *startp, bool *is_pastp);

/* Whether the last part of a path is jit-N.dump, and which N; for files that a process has mapped. */
bool code_is_dump_path(const char *path, uint64_t *numberp);

/*
 * Pure. The number that the process has in its own namespace, from the text of /proc/PID/status. Return: 0,
 * 1.
 */
int code_parse_own_pid(const char *text, uint64_t *pidp);
