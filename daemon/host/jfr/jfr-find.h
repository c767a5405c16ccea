/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Find a Chunk
 *
 * The chunk that a JVM writes at the moment, among the files that it has open. So it is found wherever the
 * repository lies, in a container or removed, and by none of its options.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/util/macro.h"

typedef struct JfrFile {
        int fd;                         /* -1 = none; owned by the caller */
        dev_t device;
        ino_t inode;
} JfrFile;

enum {
        _JFR_FIND_E_SUCCESS,
        JFR_FIND_E_NONE,                /* no chunk is open, but for the known one */
        JFR_FIND_E_DENIED,              /* we may not look into the process, or not read the file */
        JFR_FIND_E_GONE,
};

/* Pure. Whether @path is a chunk's in a repository: /tmp/2026_11_30_14_33_33_812/2026_11_30_14_33_33.jfr. */
bool jfr_find_is_chunk(const char *path);

enum { JFR_FIND_MAX_LEFT = 8 };

/* A chunk that was left for another one, and how far it was read. */
typedef struct JfrLeft {
        dev_t device;
        ino_t inode;
        uint64_t from;                  /* place in it */
        uint64_t start_ns;              /* when it began, as it says: a removed file's inode is used again */
} JfrLeft;

/* Chunks that were left, the oldest first; the oldest goes when there are more. */
typedef struct JfrLefts {
        JfrLeft items[JFR_FIND_MAX_LEFT];
        unsigned n;
} JfrLefts;

void jfr_lefts_add(JfrLefts *lefts, const JfrLeft *left);

/* Removes a file. Return: whether it was there, and *left. */
bool jfr_lefts_take(JfrLefts *lefts, const JfrFile *file, JfrLeft *left);

/*
 * Opens a chunk of the process that is not @known: one that is not among @lefts, else the one of these that
 * was left first. @start_time_ns: as for process_open(). Return: 0 with *file, JFR_FIND_E_*, -ENOMEM.
 */
int jfr_find(pid_t pid, uint64_t start_time_ns, const JfrFile *known, const JfrLefts *lefts,
             JfrFile *file);

/* Whether it has one that we may read. Not bounded: for a child that may hang. */
bool jfr_find_is_recording(pid_t pid);
