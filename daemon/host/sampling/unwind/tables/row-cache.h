/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Row Cache
 *
 * Tables of unwind rows in a directory, for the next daemon: a file that is the same still is not parsed
 * again. What workers made is kept, and is checked like the answer of a worker when it is read.
 *
 * Its calls do not wait: a thread reads and writes. row-cache.c says when a file is the same.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/sampling/unwind/tables/table.h"

typedef struct RowCache RowCache;

/* Key of a file, for as long as the machine runs. All bytes count. */
typedef struct RowKey {
        uint64_t device, inode, size;   /* inode 0 = a file that is not kept */
        int64_t mtime_ns, ctime_ns;
        int64_t btime_ns;               /* 0 = the filesystem does not tell */
        uint64_t disk, mount;           /* number of its disk, or else of its mount; the other is 0 */
} RowKey;

/* A file that was asked for. */
typedef struct RowCacheResult {
        void *what;                     /* as it was asked for */
        bool is_there;
        int result;                     /* 0 = `table` is filled; TABLE_E_* that its worker said */
        Table table;                    /* the caller's, for table_deinit() */
} RowCacheResult;

enum {
        _ROW_CACHE_E_SUCCESS,
        ROW_CACHE_E_UNUSABLE,           /* no directory that can be used; errno says why */
        ROW_CACHE_E_LOCKED,             /* another daemon uses it */
};

enum {
        ROW_CACHE_MAX_BYTES = 64 << 20, /* bytes of all files */
        ROW_CACHE_MAX_FILES = 4096,
};

/*
 * @directory: where the cache's own directory is, or is made. Return: 0, ROW_CACHE_E_UNUSABLE,
 * ROW_CACHE_E_LOCKED, -errno.
 */
int row_cache_new(RowCache **cachep, const char *directory);
RowCache *row_cache_free(RowCache *cache);
DEFINE_CLEANUP(RowCache, row_cache_free)

/* Key of the file of @fd at @now_ns (REALTIME). */
RowKey row_key_read(int fd, uint64_t now_ns);

static inline bool row_key_is_kept(const RowKey *key) {
        return key->inode;
}

/* Readable when row_cache_take() has something. A disk that hangs is noticed by row_cache_take() alone. */
int row_cache_fd(const RowCache *cache);

/* Whether it may have rows of such a file; else the file is for a worker, and is counted as new. */
bool row_cache_may_have(RowCache *cache, const RowKey *key);

/* Whether row_cache_ask() is to be called now. */
bool row_cache_has_room(const RowCache *cache);

/* Asks for a table. Return: whether row_cache_take() will yield @what, which stands for the file. */
bool row_cache_ask(RowCache *cache, void *what, const RowKey *key, const TableLimits *limits);

/* Takes an answer. Return: whether there is one. */
bool row_cache_take(RowCache *cache, RowCacheResult *resultp);

/* Nothing that was asked for until now is wanted any more. */
void row_cache_forget(RowCache *cache);

/* Keeps what a worker made of a file. @table: taken over, with @result 0. */
void row_cache_keep(RowCache *cache, const RowKey *key, const TableLimits *limits, int result, Table *table);
