/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Process
 *
 * What the daemon knows of one target: identity, names, executable mappings,
 * context ring. Filled by reading /proc; every read is bounded and may find the
 * process gone, which is a condition (PROCESS_E_GONE), not an error.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "abi.h"
#include "target/object.h"
#include "util/macro.h"

typedef enum MappingKind {
        MAPPING_FILE,                   /* object is set */
        MAPPING_VDSO,                   /* object is set: the kernel's image, read from our own memory */
        MAPPING_ANONYMOUS,              /* executable memory without a file: JIT code */
        MAPPING_UNREADABLE,             /* a file that could not be opened or is no ELF64; path is set */
} MappingKind;

/* An executable mapping. */
typedef struct Mapping {
        uint64_t start, end;            /* addresses in the target, end exclusive */
        uint64_t offset;                /* in the file */
        MappingKind kind;
        Object *object;                 /* one reference, or NULL */
        char *path;                     /* as the target sees it, ` (deleted)` removed; owned */
} Mapping;

typedef struct Process {
        uint32_t pid;
        uint64_t start_time_ns;         /* of the leader, MONOTONIC-like as in abi_process; from /proc: rounded to ticks */
        uint64_t generation;            /* of its row in the kernel's table */
        char comm[ABI_COMM_SIZE];       /* of the leader */
        char *exe;                      /* path of the executable, owned; NULL = unreadable */
        Mapping *mappings;              /* sorted by start, disjoint, owned */
        size_t n_mappings;
        uint64_t maps_read_ns;          /* MONOTONIC: before maps were read */
        uint64_t ring_address;          /* 0 = none */
        uint32_t ring_capacity;
        clockid_t cpu_clock;            /* reads the CPU time of the whole process */
        bool has_cpu_clock;
} Process;

enum {
        _PROCESS_E_SUCCESS,
        PROCESS_E_GONE,                 /* exited, or is about to */
        PROCESS_E_DENIED,               /* we may not look into it */
};

/* Reads identity and names. Return: 0, PROCESS_E_*, -ENOMEM. */
int process_new(Process **processp, pid_t pid);
Process *process_free(Process *process);
DEFINE_CLEANUP(Process, process_free)

/* (Re)reads the executable mappings. On anything but 0 the old ones stay. Return: 0, PROCESS_E_*, -ENOMEM. */
int process_read_mappings(Process *process, ObjectCache *objects);

/* The mapping that holds @address, or NULL. */
const Mapping *process_find_mapping(const Process *process, uint64_t address);

/* CPU time used by all its threads, dead ones included, ns. Return: 0, PROCESS_E_GONE. */
int process_cpu_time(const Process *process, uint64_t *cpu_nsp);
