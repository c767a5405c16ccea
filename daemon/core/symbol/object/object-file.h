/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files of Targets
 *
 * Opens files that targets have mapped, without ever waiting: the user who chose them may also have
 * chosen who answers.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/data/shares.h"
#include "core/symbol/object/maps.h"
#include "core/symbol/object/mounts.h"

/*
 * Key by which a file is known. Its owner sets size and mtime as he likes, and inode numbers are used again;
 * ctime and btime are the kernel's word alone.
 */
typedef struct ObjectFile {
        uint64_t device, inode, size;
        int64_t mtime_ns, ctime_ns;
        int64_t btime_ns;               /* 0 = the filesystem does not tell */
        uint64_t is_remote;             /* 1 = only a copy is ever read (remote-files.h) */
} ObjectFile;

enum {
        _OBJECT_E_SUCCESS,
        OBJECT_E_UNREADABLE,            /* no regular file, no access, or no ELF64; counted */
        OBJECT_E_REMOTE,                /* the filesystem may leave a read unanswered; counted */
        OBJECT_E_FULL,                  /* the cache is full of objects in use; counted */
        /* from object_file_open(): the file is gone, or another one is there */
        OBJECT_E_MOVED,
        OBJECT_E_AWAITED,               /* a copy of it is being made: look again later */
};

/* Where a file is to be found: a mapping of a process. */
typedef struct ObjectSource {
        int proc_fd;                    /* directory /proc/PID */
        const MapsEntry *entry;
        const char *path;               /* maps_path() of it */
        Mounts *mounts;                 /* mounts of the process; its owner keeps them for the next source */
        /* whose share a new file is of; read once it is needed, while `group` is 0; NULL = nothing knows */
        ShareOwner *owner;
        bool may_be_data;               /* no code of it is mapped: that it is no program is no loss */
} ObjectSource;

/*
 * Finds the file without opening it for reading. @memory_device: of the kernel's own tmpfs, which holds
 * memfds and which mountinfo does not list; 0 = unknown. Return: 0 with *path_fdp (O_PATH, or of a copy,
 * owned by the caller) and *filep, OBJECT_E_*.
 */
int object_file_look(ObjectSource *source, dev_t memory_device, int *path_fdp, ObjectFile *filep);

/* The same of @path in our own root, if the kernel finds every part of it in its cache. Return: as before. */
int object_file_look_here(const char *path, int *path_fdp, ObjectFile *filep);

/* By name, if the kernel finds every part of it in its cache: an O_PATH descriptor, or -1. */
int object_file_open_by_path(const ObjectSource *source);

/*
 * The same file again, for reading: opened where a process has it mapped, and only if it still is the same.
 * @proc_fd: directory /proc/PID. Return: 0 and *fdp (owned by the caller), OBJECT_E_MOVED,
 * OBJECT_E_UNREADABLE.
 */
int object_file_open(const ObjectFile *file, int proc_fd, uint64_t start, uint64_t end, const char *path,
                     int *fdp);

/* The same at @path in our own root, as far as the kernel has its name in its cache. Return: as before. */
int object_file_open_here(const ObjectFile *file, const char *path, int *fdp);

/*
 * Pure. Whether @now is the file that was known as @then. A new name or mode, or the loss of its last name,
 * changes ctime and nothing else; without btime that cannot be told from another file.
 */
bool object_file_is_same(const ObjectFile *then, const ObjectFile *now);

/* A number of the file, which no target can choose, alike for equal ones in this process; never 0. */
uint64_t object_file_number(const ObjectFile *file);

/* Whether only a copy of that file is ever read: nothing is opened by its path, or beside it. */
static inline bool object_number_is_remote(uint64_t number) {
        return number & 1;
}

/* The number and the owner of what @fd is a descriptor of. Return: 0, OBJECT_E_UNREADABLE. */
int object_file_number_of(int fd, uint64_t *numberp, uid_t *ownerp);
