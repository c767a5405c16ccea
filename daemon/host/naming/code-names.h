/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of Code That Is Made at Run Time
 *
 * An address in memory without a file means nothing once its process is gone, so it is named at once, by what
 * the process says of it (code-source.h). Files are looked for when a process is first met in such code, and
 * looked at again while it is met there: soon while they grow, ever less often, once a second at last, while
 * they do not. So the name of code that takes the place of other code may be up to a second late, and until
 * then it is the other's. The looking is done by a thread of its own, which starts with the first such
 * process.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/process.h"
#include "host/sampling/unwind/made/made-set.h"

typedef struct CodeNames CodeNames;

enum {
        _CODE_NAMES_E_SUCCESS,
        CODE_NAMES_E_NONE,              /* no file of the target names it */
        CODE_NAMES_E_LATER,             /* the address is being looked up: ask again with the next sample */
};

typedef struct CodeNamesLimits {
        /* 0 = 256; of the user with most the one that was asked for least recently goes */
        uint32_t max_processes;
        /* bytes of all ranges and names; 0 = 64 MiB; the same; one process may exceed it alone */
        size_t max_bytes;
        uint64_t time_limit_ns;           /* time for one look; 0 = 10 s */
        bool keep_roots;                /* as CodePlace.keep_root */
} CodeNamesLimits;

/*
 * @limits may be NULL. @zygotes: of workers that read the files; NULL = they are read here. Return: 0,
 * -ENOMEM.
 */
int code_names_new(CodeNames **namesp, const CodeNamesLimits *limits, Zygotes *zygotes);
CodeNames *code_names_free(CodeNames *names);
DEFINE_CLEANUP(CodeNames, code_names_free)

/*
 * Sets who is told of frames that a process has registered, once all notices are known that came before the
 * end of the read (code_names_work()); those of one process in their order. It may take what @set has.
 * Return: 0, -ENOMEM.
 */
typedef int (*CodeNamesMade)(void *userdata, uint32_t pid, uint64_t generation, MadeSet *set);
void code_names_set_made(CodeNames *names, CodeNamesMade made, void *userdata);

/*
 * The function at @address of @process at @time_ns. The name is not terminated and lives until the next call;
 * *startp: where the function begins; *is_pastp: something else is there by now.
 * Return: 0, CODE_NAMES_E_*, -ENOMEM.
 */
int code_names_find(CodeNames *names, const Process *process, uint64_t address, uint64_t time_ns,
                    const char **namep, size_t *sizep, uint64_t *startp, bool *is_pastp);

/*
 * A number that is another one whenever something else may be known of the process' code; 0 = nothing is.
 * Return: 0, -ENOMEM.
 */
int code_names_serial(CodeNames *names, const Process *process, uint64_t *serialp);

/*
 * Takes in what was found, and looks again where that is due. @told_ns: notices from before then are known.
 * Return: 0, -ENOMEM.
 */
int code_names_work(CodeNames *names, uint64_t told_ns);

/* Waits until every look that is under way is done and taken in, or @end_ns. */
void code_names_wait(CodeNames *names, uint64_t end_ns);

/* Notes where @process has its jitdump by now, for the next look at it. Return: 0, -ENOMEM. */
int code_names_note(CodeNames *names, const Process *process);

/* Looks at every process again, due or not, also at what has ended. Return: 0, -ENOMEM. */
int code_names_look_again(CodeNames *names);

/*
 * The one name that @address of @pid had from @first_ns to @last_ns, by all that is known now. Lives until
 * the next call. Return: 0, CODE_NAMES_E_NONE: there is none, or there are several, or several processes had
 * this number.
 */
int code_names_find_late(CodeNames *names, pid_t pid, uint64_t address, uint64_t first_ns, uint64_t last_ns,
                         const char **namep, size_t *sizep);

/* Processes known, and bytes held for them. */
uint32_t code_names_n_processes(const CodeNames *names);
size_t code_names_memory(const CodeNames *names);
