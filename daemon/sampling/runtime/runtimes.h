/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runtimes
 *
 * Virtual machines and interpreters whose frames are walked and named by what they keep in memory. Each has a
 * RuntimeOps, which is registered when the daemon starts; nothing here knows any of them. A process has the
 * runtime whose object it has mapped, whatever the file is called.
 *
 *     mappings read      runtimes_process()   is one of the objects a runtime's?
 *     then, and later    runtimes_work()      attach: read the layout, give the kernel half its entry
 *     a stack is made    runtimes_frames()    words of a frame → functions, inlined ones first
 *     gone               runtimes_forget()
 *
 * A runtime that cannot be attached is no error: its process is walked natively, as before, and
 * runtimes_text() says why.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util/macro.h"
#include "runtime_abi.h"
#include "sampling/process/process.h"

enum {
        RUNTIMES_MAX_FRAMES = 128,      /* functions of one frame: it and those that were inlined into it */
        RUNTIMES_MAX_TEXT = 160,
};

/* A function of a frame. Texts live until the next call of runtimes_frames(). */
typedef struct RuntimeFrame {
        const char *function;           /* NULL = unnamed */
        const char *file;               /* NULL = not known */
        uint32_t line;                  /* 0 = not known */
        uint32_t first_line;            /* of the function; 0 = not known */
} RuntimeFrame;

enum {
        _RUNTIME_E_SUCCESS,
        RUNTIME_E_LATER,                /* it is not ready yet: the process has just begun */
        RUNTIME_E_UNKNOWN,              /* this release has something that is not known; the text says what */
        RUNTIME_E_UNNAMED,              /* what the frame refers to is not there (any more) */
};

/* What is known of a process when its runtime is attached. Borrowed for the call. */
typedef struct RuntimeSubject {
        pid_t pid;
        uint64_t start_time_ns;
        uint64_t generation;
        uint64_t object;                /* Object.id of the runtime's object */
        int fd;                         /* of the runtime's object; the callee may take it (-1) */
        uint64_t size;                  /* bytes of that file */
        uint64_t bias;                  /* address in the process - ELF address */
} RuntimeSubject;

typedef struct RuntimeOps {
        const char *name;               /* in options and counts */
        const char *frame_type;         /* profile.frame.type */
        size_t entry_size;              /* bytes of the kernel half's value */
        /* Whether the ELF file @fd of @size bytes is this runtime's. */
        bool (*recognises)(int fd, uint64_t size);
        /*
         * Reads what is needed. *statep: NULL at first, then what an earlier attempt has left; it is given
         * back by detach(). @text: what the process runs, and why it is not walked, in words. Return: 0 with
         * the kernel half's value in @entry, RUNTIME_E_LATER, RUNTIME_E_UNKNOWN, -ENOMEM.
         */
        int (*attach)(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]);
        void (*detach)(void *state);
        /*
         * Names the frame that begins with @words, up to @max functions, the innermost one first. Return: 0,
         * RUNTIME_E_UNNAMED, -ENOMEM.
         */
        int (*frames)(void *state, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np);
} RuntimeOps;

typedef struct Runtimes Runtimes;

/* Called with true when there is the first process for the kernel half to look up. */
typedef void (*RuntimesSwitch)(void *userdata, bool is_on);

/* Return: 0, -ENOMEM. */
int runtimes_new(Runtimes **runtimesp, RuntimesSwitch on_switch, void *userdata);
Runtimes *runtimes_free(Runtimes *runtimes);
DEFINE_CLEANUP(Runtimes, runtimes_free)

/* @map_fd: of the kernel half, tgid → ops->entry_size bytes; borrowed. Return: 0, -ENOMEM. */
int runtimes_register(Runtimes *runtimes, const RuntimeOps *ops, int map_fd);

/* The mappings of @process were read. Return: 0, -ENOMEM. */
int runtimes_process(Runtimes *runtimes, const Process *process);
void runtimes_forget(Runtimes *runtimes, uint32_t pid);

/* Tries again what was not ready. Return: 0, -ENOMEM. */
int runtimes_work(Runtimes *runtimes, uint64_t now_ns);

/*
 * The functions of the frame of @process that begins with @words, the innermost first; 1 …
 * RUNTIMES_MAX_FRAMES. *typep: profile.frame.type. Return: 0, RUNTIME_E_UNNAMED (*np is 0), -ENOMEM.
 */
int runtimes_frames(Runtimes *runtimes, const Process *process, const uint64_t *words,
                    const RuntimeFrame **framesp, size_t *np, const char **typep);

/* Whether the program has a runtime that is known: walked by it, soon to be, or not at all. */
bool runtimes_has(const Runtimes *runtimes, uint64_t generation);

/* What the process runs, in words: `java 17`, `java 27: layout unknown: …`; NULL = no runtime that is known. */
const char *runtimes_text(const Runtimes *runtimes, uint64_t generation);

/*
 * Looks once, and keeps nothing of the process: what @process, whose mappings were read, runs. @text: "" = no
 * runtime that is known. Return: 0, -ENOMEM.
 */
int runtimes_describe(Runtimes *runtimes, const Process *process, char text[RUNTIMES_MAX_TEXT]);

/* Visits all processes with a runtime. */
void runtimes_each(const Runtimes *runtimes,
                   void (*visit)(void *userdata, uint32_t pid, const char *text, bool is_walked),
                   void *userdata);

/* Processes with a runtime, those of them that are walked, and bytes held. */
typedef struct RuntimesState {
        uint32_t n_processes, n_walked;
        size_t memory;
} RuntimesState;

RuntimesState runtimes_state(const Runtimes *runtimes);
