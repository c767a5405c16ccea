/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of Functions in Files
 *
 * Native frames of a window get their functions from the files that targets map. A thread that is never
 * waited for looks up each address when it is first met. When the window is closed, the frame takes its name;
 * without one it goes out unnamed, and has the name in the next window.
 *
 * Answers are kept by file (ObjectFile) and path, so each address is looked up once for all processes. A
 * build id is no key, since the author of a file chooses it, and neither is a path alone, since a process may
 * mount anything there. Files are opened as core/symbol/object/object-file.h describes: where a process has
 * them mapped, and only files that were read before. So containers' and deleted files are found, and no open
 * may hang. Any process that maps the file will do: a few are remembered, and one that has ended costs
 * nothing. Debug files are looked for on this machine (core/symbol/function/debug-file.h), and where a
 * NameRemote is set, asked of it: when one came, what had no name is looked up again. Lines and inlined
 * functions come later than names, as far as a budget of time goes.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "core/profile/window.h"
#include "host/naming/name-job.h"
#include "host/sampling/frames/frames.h"
#include "host/sampling/process/process.h"

typedef struct ObjectNames ObjectNames;

typedef struct ObjectNamesLimits {
        /* addresses known; 0 = 131,072. Over it, all are forgotten at the next window */
        uint32_t max_names;
        size_t max_text_bytes;          /* bytes of their names; 0 = 32 MiB. The same */
        /* jobs in the queue, of up to 1,024 addresses of one object; 0 = 256. Beyond a share they wait */
        uint32_t max_jobs;
        uint64_t time_limit_ns;           /* time for one job; 0 = 10 s */
        uint64_t retry_ns;              /* after a file that is there could not be opened or read; 0 = 10 s */
        /* a symbol table that is not needed goes after one to two times that; 0 = 60 s */
        uint64_t aging_ns;
        uint64_t lines_budget_ns;       /* time that reading lines may take at once; 0 = 10 s */
} ObjectNamesLimits;

/*
 * @limits may be NULL. @zygotes: of workers that read the files, borrowed; NULL = they are read here. Return:
 * 0, -ENOMEM.
 */
int object_names_new(ObjectNames **namesp, const ObjectNamesLimits *limits, Zygotes *zygotes);

/* Copied; before the first address is wanted. Not without zygotes. */
void object_names_set_remote(ObjectNames *names, const NameRemote *remote);

/*
 * Lines and inlined functions, too, within a budget: before the first address is wanted. Without zygotes none
 * are read. Return: 0, -ENOMEM.
 */
int object_names_want_lines(ObjectNames *names);
ObjectNames *object_names_free(ObjectNames *names);
DEFINE_CLEANUP(ObjectNames, object_names_free)

/* Frames of @window in files that @process has mapped. Return: 0, -ENOMEM. */
int object_names_want(ObjectNames *names, const Window *window, const Process *process,
                      const FileFrame *frames, size_t n);

/*
 * Takes in what has come, and sends what was asked for on its way: all of it, or what will not wait for the
 * end of the window. @left_ns: until that end, for lines of files that were read before; UINT64_MAX = these
 * wait. Return: 0, -ENOMEM.
 */
int object_names_work(ObjectNames *names, bool sends_all, uint64_t left_ns);

/* Gives the frames of @window, closed or not, the names that are there. Return: 0, -ENOMEM. */
int object_names_apply(ObjectNames *names, Window *window);

/*
 * After that, of a closed window: counts its samples whose innermost user frame is in a file and has no name,
 * by reason (NAMELESS_*).
 */
void object_names_count(const ObjectNames *names, const Window *window);

/* Waits until every question has its answer, or @end_ns. Return: 0, -ENOMEM. */
int object_names_wait(ObjectNames *names, uint64_t end_ns);

uint32_t object_names_n_waiting(const ObjectNames *names);      /* addresses */
size_t object_names_memory(const ObjectNames *names);           /* the loop's part */
size_t object_names_table_bytes(const ObjectNames *names);      /* the threads' part, at the last answer */
