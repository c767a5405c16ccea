/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files of Targets
 *
 * Opens files that targets have mapped, without ever waiting for anybody: whoever chose them may also have
 * chosen who answers.
 */

#include <stdint.h>
#include <sys/types.h>

#include "sampling/process/maps.h"
#include "sampling/process/mounts.h"

/* What a file is known by. */
typedef struct ObjectFile {
        uint64_t device, inode, size;
        int64_t mtime_ns;
} ObjectFile;

enum {
        _OBJECT_E_SUCCESS,
        OBJECT_E_UNREADABLE,            /* no regular file, no access, or no ELF64; counted */
        OBJECT_E_REMOTE,                /* its filesystem may leave a read unanswered; counted */
        OBJECT_E_FULL,                  /* the cache is full of objects in use; counted */
};

/* Where a file is to be found: a mapping of a process. */
typedef struct ObjectSource {
        int proc_fd;                    /* directory /proc/PID */
        const MapsEntry *entry;
        const char *path;               /* maps_path() of it */
        Mounts *mounts;                 /* of the process; its owner keeps them for the next source */
} ObjectSource;

/*
 * Finds the file without opening it for reading. @memory_device: of the kernel's own tmpfs, which holds
 * memfds and which mountinfo does not list; 0 = unknown. Return: 0 with *path_fdp (O_PATH, owned by the
 * caller) and *filep, OBJECT_E_*.
 */
int object_file_look(ObjectSource *source, dev_t memory_device, int *path_fdp, ObjectFile *filep);

/* By name, if the kernel finds every part of it in its cache: an O_PATH descriptor, or -1. */
int object_file_open_by_path(const ObjectSource *source);

/*
 * The same file again, for reading: opened where a process has it mapped, and only if it still is the same.
 * @proc_fd: directory /proc/PID. Return: 0 and *fdp (owned by the caller), OBJECT_E_UNREADABLE.
 */
int object_file_open(const ObjectFile *file, int proc_fd, uint64_t start, uint64_t end, const char *path,
                     int *fdp);
