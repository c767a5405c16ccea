/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Mapping
 *
 * A piece of a process' address space that holds code, and the kernel's notice
 * that there is a new one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/sampling/process/object.h"

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
        bool may_change;                /* memory without a file: its code may change without a notice */
        Object *object;                 /* owns a reference; may be NULL */
        char *path;                     /* as the target sees it, ` (deleted)` removed; owned; "" = none */
} Mapping;

/* A notice that the kernel gives at once of an executable mapping, from mmap() or mprotect(). */
typedef struct MappingNotice {
        uint64_t time_ns;               /* MONOTONIC: the mapping is there, its caller has not returned yet */
        uint32_t pid, tid;              /* in our PID namespace */
        uint64_t start, size;
        uint64_t offset;                /* in the file */
        uint64_t inode;                 /* with major, minor as in maps */
        uint32_t major, minor;
        uint32_t prot, flags;           /* arguments of mmap() */
        const char *path;               /* as the kernel prints it; `//anon` = no file; not terminated */
        size_t path_size;
} MappingNotice;

/* Gives back what it holds. */
void mapping_deinit(Mapping *mapping);

/* The same mapping once more, reduced to [@start, @end), which lies in it. Return: 0, -ENOMEM. */
int mapping_copy(Mapping *to, const Mapping *from, uint64_t start, uint64_t end);

/* Whether an address that lies in both is the same place of the same file for both. */
bool mapping_is_same_file(const Mapping *a, const Mapping *b);

/*
 * Makes a mapping from a notice, without asking the process, which may be gone. With @by_path the object is
 * the file of that path in our own root, if it has the notice's device and inode, which the mapping keeps
 * from being used again. A file that is not found so is UNREADABLE. Return: 0, -ENOMEM.
 */
int mapping_from_notice(Mapping *mapping, const MappingNotice *notice, ObjectCache *objects, bool by_path);
