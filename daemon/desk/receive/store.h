/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Store
 *
 * A directory of received requests: NNNNNN.pb and NNNNNN.json, counted up from the highest number that is
 * there. Each file appears whole or not at all, readable by its owner alone. When
 * the limits are reached nothing is removed: the newest request is refused, since what a person has collected
 * is worth more than what a sender may send again.
 *
 * No sender can fill it: each may have at most STORE_SHARE times what is then left for others, so that the
 * first may have 7/8, who comes next 7/8 of the rest, and so on: of bytes, of files, and of directories. What
 * an earlier process has stored belongs to nobody.
 *
 * Or a tree of partitions (partition.h), each with files NNNNNN.pb: what one request says of a service, a
 * host and a day. Numbers are of the whole store.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "desk/receive/partition.h"

typedef struct Store Store;

typedef struct StoreLimits {
        uint64_t max_bytes;             /* bytes of all numbered files together */
        uint64_t max_files;             /* two a request */
} StoreLimits;

enum {
        _STORE_E_SUCCESS,
        STORE_E_DIRECTORY,              /* cannot be made or opened, or belongs to others: store_problem() */
        STORE_E_LIMIT,                  /* as many bytes or files as it may have; nothing was stored */
        STORE_E_SHARE,                  /* as many as this sender may have; nothing was stored */
        STORE_E_JSON,                   /* JSON of the request exceeds max_json_bytes; nothing was stored */
        STORE_E_WRITE,                  /* disk full and the like; errno says why; nothing was stored */
};

/*
 * Makes the last part of @path if it is missing. @heir: the user that a root which opens it will be, or
 * OUTFILE_NO_HEIR (core/base/file/outfile.h). Return: 0, STORE_E_DIRECTORY, -ENOMEM.
 */
int store_new(Store **storep, const char *path, uid_t heir, const StoreLimits *limits);

/* Why the last store_new() failed, for people. */
const char *store_problem(void);
Store *store_free(Store *store);
DEFINE_CLEANUP(Store, store_free)

/*
 * For root, before it becomes another user: gives the store at @path, made if it is missing, to that one, as
 * directory_give().
 * Return: 0, DIRECTORY_E_FOREIGN, -errno.
 */
int store_give(const char *path, uint32_t uid, uint32_t gid);

typedef struct StoreFile StoreFile;

/* Writes the JSON with store_append(), whose failures it passes up. */
typedef int StorePrint(StoreFile *file, void *userdata);

typedef struct StoreRequest {
        const char *sender;
        const void *protobuf;
        size_t protobuf_size;
        StorePrint *print;
        void *userdata;
        uint64_t max_json_bytes;
} StoreRequest;

/*
 * Stores both forms of one request under the next number. The JSON is written as it is made, and no further
 * than there is room. Return: 0, STORE_E_LIMIT, STORE_E_SHARE, STORE_E_JSON, STORE_E_WRITE, or what @print
 * returned.
 */
int store_put(Store *store, const StoreRequest *request, uint64_t *numberp);

/* Return: 0, STORE_E_LIMIT, STORE_E_SHARE, STORE_E_JSON, STORE_E_WRITE. */
int store_append(StoreFile *file, const void *data, size_t size);

/* The part of a request for one partition, as protobuf. */
typedef struct StorePart {
        Partition partition;
        const void *data;
        size_t size;
} StorePart;

/*
 * Stores all parts of a request, or none of them, each under a number of its own. *firstp, *lastp: their
 * numbers, 0 = there were no parts. Return: 0, STORE_E_LIMIT, STORE_E_SHARE, STORE_E_WRITE, -ENOMEM.
 */
int store_put_parts(Store *store, const char *sender, const StorePart *parts, size_t n, uint64_t *firstp,
                    uint64_t *lastp);

/* Parts that went to `+other` since there are too many directories, or since their sender has its share. */
uint64_t store_n_crowded(const Store *store);
uint64_t store_n_over_share(const Store *store);
