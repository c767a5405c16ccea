/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Naming
 *
 * The stage between aggregation and encoding that gives frames the names of their functions. Two options say
 * how much:
 *
 *     symbols      local: functions in files, by the symbols of this machine (object-names.h); remote and
 *                  upload: none
 *     jit-symbols  on: code that a target makes while it runs, by the target's own files (code-names.h)
 *
 * Nothing here is waited for: a name that is not known in time is left out. With remote and off nothing is
 * done at all. With remote and on nothing is done before a target runs in memory without a file.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "core/profile/window.h"
#include "host/naming/code-names.h"
#include "host/naming/name-job.h"
#include "host/sampling/frames/frames.h"

typedef struct Naming Naming;

typedef struct NamingConfig {
        bool objects;                   /* symbols = local */
        bool lines;                     /* lines = on: with `objects` */
        bool code;                      /* jit-symbols = on */
        bool late;                      /* naming_late() will be called */
        uint64_t time_limit_ns;         /* time for one job; 0 = 10 s */
        /* start workers that read files of targets, borrowed; NULL = files are read here */
        Zygotes *zygotes;
        /* told of each frame in a file, of a new stack; NULL = not wanted. Return: 0, -ENOMEM */
        int (*see)(void *userdata, const Process *process, const Mapping *mapping);
        void *userdata;                 /* for it */
        CodeNamesMade made;             /* as for code_names_set_made(), with `code`; NULL = not wanted */
        void *made_userdata;
        NameRemote remote;              /* all zeros = none; its user lives longer */
} NamingConfig;

/* Return: 0, -ENOMEM. */
int naming_new(Naming **namingp, const NamingConfig *config);
Naming *naming_free(Naming *naming);
DEFINE_CLEANUP(Naming, naming_free)

/* Hooks that frames call while stacks are made. */
FramesNaming naming_hooks(Naming *naming);

/*
 * Between samples: sends questions, takes answers in. @sends_all: no question waits for others. @left_ns: as
 * for object_names_work(), @told_ns: as for code_names_work(). Return: 0, -ENOMEM.
 */
int naming_work(Naming *naming, bool sends_all, uint64_t left_ns, uint64_t told_ns);

/* The stage: a window that was closed and is to be encoded. @told_ns: the same. Return: 0, -ENOMEM. */
int naming_window(Naming *naming, Window *window, uint64_t told_ns);

/* Before the last window: waits for answers that are under way until @end_ns. Return: 0, -ENOMEM. */
int naming_wait(Naming *naming, uint64_t end_ns);

/* Before naming_late(), for each that lives: its mappings lead to its jitdump. Return: 0, -ENOMEM. */
int naming_note(Naming *naming, const Process *process);

/*
 * After the last window: looks once more at what processes, also ended ones, say of their code, until
 * @end_ns. Then names what of @window, which is closed, lies in no file and had no name in time. Such a frame
 * may be equal to one that had: a copy of the window makes them one. *n_namedp: frames. Return: 0, -ENOMEM.
 */
int naming_late(Naming *naming, Window *window, uint64_t end_ns, uint32_t *n_namedp);

typedef struct NamingState {
        bool objects, code;
        uint32_t n_waiting;             /* addresses whose names are being looked up */
        uint32_t n_processes;           /* processes that make code */
        size_t memory;
        size_t table_bytes, max_table_bytes;    /* symbol tables of files; not in `memory` */
} NamingState;

NamingState naming_state(const Naming *naming);
