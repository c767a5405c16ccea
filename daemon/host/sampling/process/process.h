/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Process
 *
 * What a process is: identity, names, executable mappings, now and at earlier times. Filled by reading /proc;
 * every read is bounded and may find the process gone, which is a condition (PROCESS_E_GONE), not an error.
 * What it publishes of its traces is in host/sampling/context/publication.h.
 *
 * A Process is one program: exec makes a new one with the same pid and start time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "border/abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/identity.h"
#include "host/sampling/process/made-areas.h"
#include "host/sampling/process/mapping-history.h"
#include "host/sampling/process/mapping.h"
#include "host/sampling/process/object.h"
#include "host/sampling/process/process-directory.h"

enum {
        PROCESS_MAX_MAPPINGS = 8192,    /* executable ones; more are left out (MAPPINGS_OVER_CAP) */
        PROCESS_MAX_AREAS = 6144,       /* memory without a file alone: libraries lie above it */
};

typedef struct Process {
        uint32_t pid;
        bool is_kernel;                 /* a kernel thread: no mappings, no executable */
        uint64_t start_time_ns;         /* start of the leader, as in abi.h */
        uint64_t stack_start;           /* address of its first stack: exec makes a new one; 0 = unknown */
        uint64_t read_ns;               /* MONOTONIC: before its identity was read; 0 = never */
        uint64_t generation;            /* generation of the row in the kernel's table */
        char comm[ABI_COMM_SIZE];       /* name of the leader */
        char *exe;                      /* path of the executable, owned; NULL = unreadable */
        Identity *identity;             /* container, environment; owned; NULL = not read (yet) */
        Mapping *mappings;              /* sorted by start, disjoint, owned */
        size_t n_mappings;
        uint64_t maps_read_ns;          /* MONOTONIC: before maps were read; 0 = never */
        MappingHistory history;         /* former mappings */
        MadeAreas *made;                 /* code made at run time that has rows; owned; NULL = none has run */
        uint64_t unheard_ns;            /* notices up to here may be missing, for `made` once it is there */
        /* never reused in this daemon; a new one when a read found other mappings */
        uint64_t maps_serial;
        clockid_t cpu_clock;            /* reads the CPU time of the whole process */
        bool has_cpu_clock;
        char remote[MOUNTS_TYPE_SIZE];  /* filesystem of code that is not read for it; "" = there is none */
        bool awaits_files;              /* copies of such code come: its mappings are to be read again then */
        ProcessLook *look;              /* from the identity until mappings are read; NULL = none */
        bool is_open;                   /* by process_new_open() */
        int proc_fd;                    /* directory in /proc, owned, while is_open */
} Process;

/* Whether files on network filesystems are read, too (remote-files.h). */
void process_choose_remote(bool reads_all);

/* Ends the process that reads such files, if there is one. */
void process_end_remote(void);

/* Why the files of process->remote were left out, as the end of a sentence. */
const char *process_why_unread(const Process *process);

/* Reads identity and names. Return: 0, PROCESS_E_*, -ENOMEM. */
int process_new(Process **processp, pid_t pid);

/*
 * The same, and its directory in /proc stays open: identity, then mappings, which are read now, need not look
 * for it again. One without a living thread is gone.
 */
int process_new_open(Process **processp, pid_t pid);
void process_close(Process *process);

/* Forgets maps that were read together with the identity: mappings are read anew. */
void process_forget_look(Process *process);

/* A process that is gone, made of what a sample told. @comm: ABI_COMM_SIZE bytes. Return: 0, -ENOMEM. */
int process_new_gone(Process **processp, pid_t pid, uint64_t start_time_ns, const char *comm);

Process *process_free(Process *process);
DEFINE_CLEANUP(Process, process_free)

/* (Re)reads the executable mappings. On anything but 0 the old ones stay. Return: 0, PROCESS_E_*, -ENOMEM. */
int process_read_mappings(Process *process, ObjectCache *objects);

/*
 * The same in turns: after so much of the maps as *@leftp says (maps.h) it stops with PROCESS_E_MORE, and
 * goes on when it is called again. *@readingp: NULL = begin; the caller's while there is more, else NULL.
 * What is known to have changed meanwhile must be told by process_reading_note(): it may be newer than what
 * was read. Return: also PROCESS_E_MORE.
 */
typedef struct ProcessReading ProcessReading;

int process_read_some(Process *process, ObjectCache *objects, size_t *leftp, ProcessReading **readingp);
ProcessReading *process_reading_free(ProcessReading *reading);
DEFINE_CLEANUP(ProcessReading, process_reading_free)

/*
 * A mapping that was made while the reading waits. Return: 0, PROCESS_E_MORE = too many, read again
 * afterwards; -ENOMEM.
 */
int process_reading_note(ProcessReading *reading, const Mapping *mapping, uint64_t time_ns);

/*
 * Reads what @what (IDENTITY_*) names, in place of what was read before. @with_maps: its mappings are read
 * next, and come by the same bounded call where there is one. Return: 0, PROCESS_E_*, -ENOMEM.
 */
int process_read_identity(Process *process, unsigned what, bool with_maps);

/*
 * A new mapping at @time_ns, taken over also on an error: what it covers is past. A time before the last read
 * of all mappings tells more of the past only. Return: 0, -ENOMEM.
 */
int process_change(Process *process, Mapping *mapping, uint64_t time_ns);

/* Notices were not heard until @time_ns: no area of made code is sure. */
void process_void_made(Process *process, uint64_t time_ns);

/*
 * Areas of made code as they were read from @read_ns on, sorted and disjoint; their runs move. Those
 * that may have changed since are void. *is_otherp: others hold than before. Return: 0, -ENOMEM.
 */
int process_take_made(Process *process, MadePiece *pieces, uint32_t n, uint64_t read_ns, bool *is_otherp);

/*
 * Moves the mappings of @from, which is another view of the same program, and adds their past. Return: 0,
 * -ENOMEM.
 */
int process_take_mappings(Process *process, Process *from);

/*
 * Gives @process what a fork of @parent at @time_ns gave to it: executable, identity and mappings. Nothing is
 * known of it yet. Return: 0, -ENOMEM.
 */
int process_inherit(Process *process, const Process *parent, uint64_t time_ns);

/* The answer on one address at one time. */
typedef struct ProcessAnswer {
        const Mapping *mapping;         /* mapping that held the address; NULL = none did */
        /* the kernel half may have walked a stack over it by the rows of what lay there before */
        bool is_stale;
        bool is_current;                /* the answer is the same now, and may be kept */
} ProcessAnswer;

/* Finds what @address was at @time_ns. The mapping lives until the process changes. */
void process_resolve(const Process *process, uint64_t address, uint64_t time_ns, ProcessAnswer *answerp);

/*
 * Whether all that process_resolve() says of @time_ns holds now, too. What was made of such answers stays
 * right while `maps_serial` does.
 */
static inline bool process_is_current(const Process *process, uint64_t time_ns) {
        return !mapping_history_reaches(&process->history, time_ns);
}

/* Index of the first mapping that ends behind @address; n_mappings = none does. */
size_t process_first_mapping(const Process *process, uint64_t address);

/* The mapping that holds @address now, or NULL. */
const Mapping *process_find_mapping(const Process *process, uint64_t address);

/* The mapping of its program, where that file is known; else NULL. */
const Mapping *process_executable(const Process *process);

/* CPU time used by all its threads, dead ones included, ns. Return: 0, PROCESS_E_GONE. */
int process_cpu_time(const Process *process, uint64_t *cpu_nsp);

