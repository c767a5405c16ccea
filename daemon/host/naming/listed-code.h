/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Listed Code
 *
 * Functions that a process has registered for debuggers as it made them (gdb-list.h): which of its files
 * have such a list, and what the lists held at the last looks. A function that has left its list has no
 * name any more.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/data/hashmap.h"
#include "core/base/sandbox/worker-session.h"
#include "core/symbol/jit/code-index.h"
#include "core/symbol/object/object-file.h"
#include "host/sampling/process/process.h"
#include "host/sampling/unwind/made/made-set.h"

enum {
        LISTED_MAX_FILES = 1024,        /* files of a process; those behind are not asked for a list */
        LISTED_MAX_KNOWN = 1024,        /* files whose answers are kept; the oldest one has to go */
};

/* Answers of one file. */
typedef struct ListedSays {
        bool is_asked, has_list;
        uint64_t symbol;                /* ELF address of the list's descriptor */
        bool has_frames, refuses_frames;        /* frames are registered, in a known way or another */
        FrameVariables frames;          /* in ELF addresses */
} ListedSays;

/* A file that a process has mapped for its code. */
typedef struct ListedFile {
        uint64_t id;                    /* Object.id */
        ObjectFile file;
        uint64_t start, end;            /* the mapping, by which it is opened */
        uint64_t bias;                  /* address in the process - ELF address */
        char *path;                     /* owned */
        ListedSays says;
} ListedFile;

typedef struct ListedFiles {
        ListedFile *items;
        uint32_t n, room;
        bool is_cut;                    /* the process has mapped more */
} ListedFiles;

/* In the loop. Return: 0, -ENOMEM. */
int listed_files_read(ListedFiles *files, const Process *process);
void listed_files_deinit(ListedFiles *files);

/* Answers of files, for all processes that have them mapped. In the loop. All 0 is an empty one. */
typedef struct ListedKnown {
        Hashmap files;                  /* Object.id → its entry in `items` */
        struct {
                uint64_t id;            /* 0 = free */
                ListedSays says;
        } items[LISTED_MAX_KNOWN];
        uint32_t next;                  /* place of the next one */
} ListedKnown;

void listed_known_deinit(ListedKnown *known);

/* Without memory it is not kept. */
void listed_known_put(ListedKnown *known, uint64_t id, const ListedSays *says);

/* Notes in @files what is known: those are not asked. */
void listed_known_apply(const ListedKnown *known, ListedFiles *files);

/* The content of the lists of a process at one look, or at several in a row that found the same. */
typedef struct ListedLook {
        uint64_t begun_ns;              /* MONOTONIC, of the first of them; 0 = there was none */
        uint64_t hash;                  /* hash of all functions */
        CodeIndex *index;               /* owned; NULL = nothing was registered */
} ListedLook;

typedef struct ListedCode {
        ListedFiles files;              /* the reader's */
        ListedLook now, before;         /* two different looks, for a lock of the owner's */
} ListedCode;

void listed_code_deinit(ListedCode *code);

/* The files of the process are @files by now, which are taken; what is known of a file stays known. */
void listed_code_set_files(ListedCode *code, ListedFiles *files);

typedef struct ListedResult {
        ListedLook look;
        MadeSet *made;                  /* registered frames; NULL = the look could not read them all */
        bool has_frames, refuses_frames;        /* a library may keep some, or does in an unknown way */
        uint32_t n_lists;               /* lists that have something in them */
        uint64_t n_functions, n_malformed, n_over_cap;
        unsigned n_failed;              /* files and lists that no worker could read */
        uint64_t first_id;              /* the file that was read by nobody who had read another; 0 = none */
        ListedSays first;               /* answers of that file */
} ListedResult;

/*
 * The reader's: looks at the lists of the living process. @worker: the caller's, of gdb_wire_question; NULL =
 * they are read here. Return: whether all of them were read; then result->look is the caller's; -ENOMEM.
 * result->made is the caller's in any case.
 */
int listed_code_look(ListedCode *code, int proc_fd, pid_t pid, uint64_t start_time_ns,
                     WorkerSession *worker, ListedResult *result);

/* Takes what a look has found. Return: whether it is something new. */
bool listed_code_take(ListedCode *code, ListedLook *look);

/*
 * As code_index_find(). Where the look before @time_ns and the one behind it name an address by two names,
 * there is none.
 */
const char *listed_code_find(const ListedCode *code, uint64_t address, uint64_t time_ns, size_t *sizep,
                             uint64_t *startp, bool *is_pastp);

/* Bytes of the indexes. */
size_t listed_code_memory(const ListedCode *code);
