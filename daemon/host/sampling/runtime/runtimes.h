/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runtimes
 *
 * Virtual machines and interpreters whose frames are walked and named by what they keep in memory. Each has a
 * RuntimeOps, which is registered when the daemon starts; nothing here knows any of them. A process has the
 * runtime whose object it has mapped, whatever the file is called.
 *
 *     it has a name      runtimes_expect()    does that sound like a runtime? its walk is loaded
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

#include "border/runtime_abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/process.h"
#include "host/sampling/runtime/runtime-lock.h"

enum {
        RUNTIMES_MAX_FRAMES = 128,      /* functions of one frame: it and those that were inlined into it */
        RUNTIMES_MAX_TEXT = 160,
        RUNTIMES_MAX_KINDS = 3,         /* kinds of other files that tell more */
};

/* A function of a frame. Texts live until the next call of runtimes_frames(). */
typedef struct RuntimeFrame {
        const char *function;           /* NULL = unnamed */
        const char *file;               /* NULL = not known */
        uint32_t line;                  /* 0 = not known */
        uint32_t first_line;            /* begin of the function; 0 = not known */
        const char *signature;          /* `(int, long)`, behind names that have overloads; NULL = none */
        const char *compilation;        /* jvm.frame.compilation, a text that stays; NULL = none */
} RuntimeFrame;

enum {
        _RUNTIME_E_SUCCESS,
        RUNTIME_E_LATER,                /* not ready yet: the process has just begun */
        RUNTIME_E_UNKNOWN,              /* the release has something that is not known; the text says what */
        RUNTIME_E_NATIVE,               /* frames are walked as native ones; the text says what it is */
        RUNTIME_E_UNLOADED,             /* the code may have gone since; a frame that says so stands for it */
        RUNTIME_E_SHORT,                /* the frames are right, and inner ones may be missing */
        RUNTIME_E_UNNAMED,              /* the frame refers to what is not there (any more) */
};

/* Facts about a process when its runtime is attached. Borrowed for the call. */
typedef struct RuntimeSubject {
        pid_t pid;
        uint64_t start_time_ns;
        uint64_t generation;
        uint64_t object;                /* Object.id of the runtime's object */
        const char *says;               /* answer of recognises() */
        /*
         * descriptor of the runtime's object; the callee may take it (-1), else it is closed once all is
         * known
         */
        int fd;
        uint64_t size;                  /* bytes of that file */
        uint64_t bias;                  /* address in the process - ELF address */
        void *userdata;                 /* from runtimes_register() */
} RuntimeSubject;

/* Takes what a runtime says about frame @i of many, as frames() of RuntimeOps does. Return: 0, -ENOMEM. */
typedef int (*RuntimeAnswer)(void *userdata, size_t i, int said, RuntimeFrame *frames, size_t n);

typedef struct RuntimeOps {
        const char *name;               /* in options and counts */
        const char *frame_type;         /* profile.frame.type */
        size_t entry_size;              /* bytes of the kernel half's value; 0 = it has none */
        uint32_t bit;                   /* RUNTIME_HAS_* */
        /* glob patterns of names of programs that mostly have it, up to a NULL; NULL = there are none */
        const char *const *programs;
        /*
         * Whether the ELF file @fd of @size bytes is this runtime's. @says: "", or what it says of itself,
         * printable. Asked in a worker, if there are some.
         */
        bool (*recognises)(int fd, uint64_t size, char says[OBJECT_MAX_SAYS]);
        /*
         * Whether a file that was recognised, and said @says, is left for another one of the process with a
         * runtime in it; NULL = never.
         */
        bool (*yields)(const char *says);
        /*
         * Reads what is needed. *statep: NULL at first, then what an earlier attempt has left; it is given
         * back by detach(). @text: "" at first; what the process runs, and why it is not walked (yet), in
         * words. Return: 0 with
         * the kernel half's value in @entry, RUNTIME_E_LATER, RUNTIME_E_UNKNOWN, RUNTIME_E_NATIVE, -ENOMEM.
         */
        int (*attach)(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]);
        void (*detach)(void *state);    /* NULL = it keeps no state */
        /*
         * Other files of the process that tell more; NULL = there are none. Once @state is attached,
         * wants() is asked for each file by the last part of its path. Return: a bit for each kind of file,
         * of the lowest RUNTIMES_MAX_KINDS; 0 = not wanted. extend() is called until it has read one of each
         * kind, a file of @size bytes, or eight in vain. @bias: as in RuntimeSubject. Return: 0 with a whole
         * @entry, RUNTIME_E_UNKNOWN: the file tells nothing, RUNTIME_E_LATER.
         */
        uint32_t (*wants)(const char *name);
        int (*extend)(void *state, uint32_t kind, int fd, uint64_t size, uint64_t bias, void *entry);
        /*
         * Learns where the process has the spans of its threads; NULL = it has none. Return: 0 with a whole
         * @entry, RUNTIME_E_LATER: soon, RUNTIME_E_UNKNOWN: it has none, and may have some later.
         */
        int (*spans)(void *state, void *entry);
        /*
         * The name of a task that a sample has with it (struct abi_sample), in *textp until the next call.
         * @may_ask: the process may be read for it. Return: 0, RUNTIME_E_UNNAMED, RUNTIME_E_LATER: it has to
         * be read, or could not be now. NULL = its tasks have no names.
         */
        int (*task_name)(void *state, const uint8_t *task, size_t size, bool may_ask, const char **textp);
        /* What tells that task from all others of its process, until the next call; NULL = nothing does. */
        const char *(*task_id)(void *state, const uint8_t *task, size_t size);
        /* The text that a span has as its name, of which @size bytes were read. The same holds. */
        const char *(*span_name)(void *state, const uint8_t *object, size_t size);
        /*
         * Names the frame that begins with @words, up to @max functions, the innermost one first. Return: 0,
         * RUNTIME_E_UNNAMED, RUNTIME_E_LATER: it cannot be said now, -ENOMEM. NULL = its frames are native:
         * the entry is for something else.
         */
        int (*frames)(void *state, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np);
        /*
         * Names @n frames, so that one wait for another process does for all of them. Those behind one that
         * cannot be said now have no answer. Return: 0, -ENOMEM. NULL = they are asked one by one.
         */
        int (*many)(void *state, const uint64_t *const *words, size_t n, RuntimeAnswer answer,
                    void *userdata);
        /*
         * What its threads wait for. Return: 0, RUNTIME_E_LATER, -ENOMEM. NULL = it does not know.
         */
        int (*locks)(void *state, RuntimeLocks *locks);
        /*
         * Whether a thread whose whole stack is @words waits because there is nothing to do. @polls: for
         * events, else for a futex. NULL = it cannot tell.
         */
        bool (*is_idle)(const void *state, bool polls, const uint64_t *words, size_t n);
        /* For how long the first answer about @words is believed, ms; 0, or no function = for ever. */
        uint32_t (*trust_ms)(const uint64_t *words);
        /* CPU time that other processes have spent on it so far, ns. NULL = none does. */
        uint64_t (*cpu_ns)(const void *state);
        /* Called some times a second. @userdata: of runtimes_register(). NULL = there is nothing to do. */
        void (*tend)(void *userdata, uint64_t now_ns);
} RuntimeOps;

typedef struct Runtimes Runtimes;

/* How it is with the kernel half's walk over frames of runtimes. */
enum runtimes_walk {
        RUNTIMES_WALK_UNASKED,
        RUNTIMES_WALK_LOADING,
        RUNTIMES_WALK_ON,
        RUNTIMES_WALK_REFUSED,          /* no process is walked by its runtime, as it is now */
};

/*
 * Called when the first process of @ops is met: the kernel half is to look it up from now on. And again as
 * long as the answer is LOADING, and for each further process after REFUSED. Return: any but UNASKED.
 */
typedef enum runtimes_walk (*RuntimesSwitch)(void *userdata, const RuntimeOps *ops);

/* @on_switch: NULL = nothing is walked. Return: 0, -ENOMEM. */
int runtimes_new(Runtimes **runtimesp, RuntimesSwitch on_switch, void *userdata);
Runtimes *runtimes_free(Runtimes *runtimes);
DEFINE_CLEANUP(Runtimes, runtimes_free)

/* Names of functions show their parameters from now on, so that overloads are told apart. */
void runtimes_show_signatures(Runtimes *runtimes);

/*
 * @map_fd: of the kernel half, tgid → ops->entry_size bytes; borrowed. @userdata: for the runtime's attach
 * and tend. Return: 0, -ENOMEM.
 */
int runtimes_register(Runtimes *runtimes, const RuntimeOps *ops, int map_fd, void *userdata);

/* Asks @ops whether the ELF file @fd is its own, and adds that to @found. */
void runtimes_look(const RuntimeOps *ops, int fd, uint64_t size, ObjectRuntimes *found);

/*
 * A program of this name is there, or will be executed. By the time that its mappings say which runtime it
 * has, it may have run for long: so the kernel half's walk is asked for where a name tells.
 */
void runtimes_expect(Runtimes *runtimes, const char *name);

/* The mappings of @process were read, or workers have looked into its files. Return: 0, -ENOMEM. */
int runtimes_process(Runtimes *runtimes, const Process *process);
void runtimes_forget(Runtimes *runtimes, uint32_t pid);

/* Tries again what was not ready. Return: 0, -ENOMEM. */
int runtimes_work(Runtimes *runtimes, uint64_t now_ns);

/* MONOTONIC time at which something is to be tried again; UINT64_MAX = nothing is. */
uint64_t runtimes_due_ns(const Runtimes *runtimes);

/*
 * The functions of the frame of @process that begins with @words, the innermost first; 1 …
 * RUNTIMES_MAX_FRAMES. @n_words: up to the end of its stack, whose other frames will be asked for, too.
 * *typep: profile.frame.type. Return: 0, RUNTIME_E_UNNAMED, RUNTIME_E_LATER (*np is 0), -ENOMEM.
 */
int runtimes_frames(Runtimes *runtimes, const Process *process, const uint64_t *words, size_t n_words,
                    const RuntimeFrame **framesp, size_t *np, const char **typep);

/* The name of the task that a sample of @process has with it; NULL = none. Lives until the next call. */
const char *runtimes_task_name(Runtimes *runtimes, const Process *process, const uint8_t *task, size_t size);

/* The same of what tells that task from all others of @process. */
const char *runtimes_task_id(Runtimes *runtimes, const Process *process, const uint8_t *task, size_t size);

/* The same of a span whose name is an object, of which a sample has @size bytes. */
const char *runtimes_span_name(Runtimes *runtimes, const Process *process, const uint8_t *object,
                               size_t size);

/*
 * What threads of the process wait for, as one look at its memory says. Return: 0, RUNTIME_E_LATER, -ENOMEM,
 * RUNTIME_E_UNKNOWN: it has no runtime that tells.
 */
int runtimes_locks(Runtimes *runtimes, const Process *process, RuntimeLocks *locks);

/* A sample of the program, of @time_ns, says that there may be spans, and that it is not known where. */
void runtimes_want_spans(Runtimes *runtimes, uint64_t generation, uint64_t time_ns);

/* Why code of a process has no names of its runtime. */
typedef enum RuntimesLack {
        RUNTIMES_LACK_NONE,             /* no runtime is known of it */
        RUNTIMES_LACK_NOTHING,          /* the runtime is read */
        RUNTIMES_LACK_TIME,             /* the runtime was not read yet, or nobody knows if there is one */
        RUNTIMES_LACK_SUPPORT,          /* the release is not read */
        RUNTIMES_LACK_ROOM,             /* too many processes have such a runtime */
} RuntimesLack;

RuntimesLack runtimes_lack(const Runtimes *runtimes, const Process *process);

/* Whether the program has a runtime with frames of its own: walked by it, soon to be, or not at all. */
bool runtimes_has(const Runtimes *runtimes, uint64_t generation);

/*
 * Whether a thread of the program whose whole stack of @n words was walked waits because there is nothing to
 * do: for events (@polls), or for a futex.
 */
bool runtimes_is_idle(const Runtimes *runtimes, uint64_t generation, bool polls, const uint64_t *words,
                      size_t n);

/* The runtime of the process in words: `java 17`, `java 27: layout unknown: …`; NULL = none that is known. */
const char *runtimes_text(const Runtimes *runtimes, uint64_t generation);

/* Answer to a look at a process. */
typedef struct RuntimeDescription {
        const RuntimeOps *ops;          /* NULL = no runtime that is known */
        char text[RUNTIMES_MAX_TEXT];   /* what it runs; "" = there is nothing to say */
        bool has_spans;                 /* RuntimeOps.spans() has found them */
} RuntimeDescription;

/*
 * Looks once, and keeps nothing of the process: what @process, whose mappings were read, runs. Return: 0,
 * -ENOMEM.
 */
int runtimes_describe(Runtimes *runtimes, const Process *process, RuntimeDescription *description);

/* State that attach() of @ops has kept of a living program; NULL = none, or it has another runtime. */
const void *runtimes_state_of(const Runtimes *runtimes, uint64_t generation, const RuntimeOps *ops);

/* Visits all processes with a runtime. */
void runtimes_each(const Runtimes *runtimes,
                   void (*visit)(void *userdata, uint32_t pid, const char *text, bool is_walked),
                   void *userdata);

/*
 * Processes with a runtime that has frames of its own, those of them that are walked; those of runtimes with
 * native frames that the kernel half has an entry of; bytes held.
 */
typedef struct RuntimesState {
        uint32_t n_processes, n_walked, n_read;
        size_t memory;
} RuntimesState;

RuntimesState runtimes_state(const Runtimes *runtimes);
