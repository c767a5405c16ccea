/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Remote Files
 *
 * Copies of files on FUSE and network filesystems, in memory. A process of its own makes each copy
 * (core/base/sandbox/remote-reader.h); whoever reads the file has the copy. There is one table for the whole
 * program, and threads may ask it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/symbol/object/mounts.h"

typedef struct ObjectFile ObjectFile;

typedef enum RemoteState {
        REMOTE_FILE_LEFT,               /* the file is not read, or its server did not answer */
        REMOTE_FILE_AWAITED,
        REMOTE_FILE_THERE,
} RemoteState;

/*
 * Chooses which are read: files on a FUSE that is mounted for the process itself, and with @all those of
 * network filesystems and of other mount namespaces, too. Before the first is asked for.
 */
void remote_files_choose(bool all);

/* Bytes of all copies together, 128 MiB at most: a longer file is left. Before the first is asked for. */
void remote_files_limit(uint64_t bytes);

/*
 * Starts the reader now, while we hold rights that we shall give up; else the first file does. Return: 0,
 * -errno: none is read.
 */
int remote_files_start(void);

/* Ends the reader, and drops all copies. */
void remote_files_stop(void);

/* Whether the files of @server are read at all. */
bool remote_files_may_come(const MountServer *server);

/* Why files on a filesystem of that type were left, as the end of a sentence. */
const char *remote_files_why(const char *type);

/*
 * Asks for a copy. @path_fd: O_PATH of the file, borrowed. @owner: of the file. A FUSE may refuse to tell us
 * more of *@file than device and inode: then its size is 0, and the rest is filled in once it is there.
 * Return: THERE with *fdp, owned by the caller; AWAITED; LEFT.
 */
RemoteState remote_files_ask(ObjectFile *file, uid_t owner, int path_fd, const MountServer *server, int *fdp);

/* A copy that is there: of a file, or of the one with that object_file_number(). Return: 0 and *fdp, or 1. */
int remote_files_open(const ObjectFile *file, int *fdp);
int remote_files_open_number(uint64_t number, int *fdp);

/* Tells of which file the inode @copy of the kernel's tmpfs is a copy. Return: whether it is one. */
bool remote_files_number_of(dev_t device, ino_t copy, uint64_t *numberp, uid_t *ownerp);

/* Readable when remote_files_tend() has something to do; -1 = it never is. It stays open. */
int remote_files_fd(void);

/*
 * Takes copies, and gives up those without progress. Return: whether a file is not awaited any more, of which
 * neither this nor remote_files_wait() has told before.
 */
bool remote_files_tend(void);

/*
 * Waits until no file is awaited, for as long as their servers go on: 20 s at most. No other thread may ask
 * meanwhile. Return: as remote_files_tend().
 */
bool remote_files_wait(void);
