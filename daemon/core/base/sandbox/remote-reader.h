/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Remote Reader
 *
 * Copies files whose server may never answer (FUSE, network filesystems) into memory, each by a process of
 * its own. The process may hang and be given up; who asked never waits, nor opens or closes such a file.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/util/macro.h"

#define REMOTE_READER_COMM "spanprof-remote"    /* name of the reader and of its copiers in /proc */

enum {
        REMOTE_READER_MAX_COPIES = 16,  /* copies that are made at the same time */
        REMOTE_READER_MAX_COPIERS = 32, /* with those that hang; more are refused: -EBUSY */
        REMOTE_READER_SHARE = 8,        /* of one mount or one user among these; more are refused, too */
};

typedef struct RemoteRequest {
        uint32_t serial;                /* never 0 */
        /* the user who has mounted a FUSE, whom alone its server may let in */
        bool has_user;
        uint32_t user, group;
        uint64_t device;                /* of the mount */
        uint64_t max_bytes;             /* a longer file is refused: -EFBIG */
} RemoteRequest;

/* Whether both are of one mount or of one user, who have one share of the places. */
static inline bool remote_request_shares(const RemoteRequest *a, const RemoteRequest *b) {
        return a->device == b->device || (a->has_user && b->has_user && a->user == b->user);
}

typedef struct RemoteReply {
        uint32_t serial;
        int32_t result;                 /* 0 = copied, REMOTE_READER_GOES_ON, -errno */
        uint64_t size;                  /* bytes copied so far */
        int64_t mtime_ns, ctime_ns;     /* the file's, once it is copied */
        uint32_t owner;
} RemoteReply;

enum { REMOTE_READER_GOES_ON = 1 };

enum {
        _REMOTE_READER_E_SUCCESS,
        REMOTE_READER_E_NOTHING,        /* no reply has come */
        REMOTE_READER_E_GONE,           /* the reader has died: there will be none */
};

typedef struct RemoteReader RemoteReader;

/* Forks the reader, with the rights to read files that we hold. Return: 0, -errno. */
int remote_reader_new(RemoteReader **readerp);

/* Ends it and all copiers that the kernel lets end, without a wait for those. */
RemoteReader *remote_reader_free(RemoteReader *reader);
DEFINE_CLEANUP(RemoteReader, remote_reader_free)

/* Readable when remote_reader_hear() has something to do. */
int remote_reader_fd(const RemoteReader *reader);

/* @path_fd: of a regular file, by O_PATH; borrowed. Return: 0, -errno. */
int remote_reader_ask(RemoteReader *reader, const RemoteRequest *request, int path_fd);

/* Kills the copier of that request, and frees what it has copied, also if it goes on to hang. */
void remote_reader_give_up(RemoteReader *reader, uint32_t serial);

/*
 * The next reply, without a wait. *fdp: of the copy, sealed, owned by the caller; -1 = there is none. Return:
 * 0, REMOTE_READER_E_NOTHING, REMOTE_READER_E_GONE.
 */
int remote_reader_hear(RemoteReader *reader, RemoteReply *reply, int *fdp);

/* Waits for a reply until then (MONOTONIC). */
void remote_reader_wait(RemoteReader *reader, uint64_t until_ns);
