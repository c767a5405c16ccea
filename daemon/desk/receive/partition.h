/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Partitions
 *
 * Directories of a store, DAY/SERVICE/HOST, that keep requests apart: 2026-01-31/checkout/web-7. Names come
 * from senders, so they are escaped: what is no letter, digit, `-`, `_` or inner `.` becomes %XX, and a long
 * name ends early, with a hash. Three names begin with a `+`, which no escaped name has: `+none` = there is no
 * such attribute, `+other` = it has no day, or there are too many directories, `+cut…` = a long name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        PARTITION_NAME_ROOM = 160,
        PARTITION_MAX_ENTRIES = 4096,           /* in one directory */
        PARTITION_MAX_DIRECTORIES = 65536,      /* in a store */
        PARTITION_LEVELS = 3,
};

#define PARTITION_NONE "+none"
#define PARTITION_OTHER "+other"
#define PARTITION_NO_DAY UINT32_MAX

typedef struct Partition {
        uint32_t day;                   /* since 1970; PARTITION_NO_DAY = none */
        const char *service, *host;     /* names of any length and content; NULL = none */
        bool mixed;                     /* a part of several: `+other`, whatever else is here */
} Partition;

/* Where a sender may have at most so many times what is then left for others: 7/8, then 7/8 of the rest. */
enum { STORE_SHARE = 7 };

typedef struct PartitionOwner {
        uint64_t inode;
        uint32_t sender;                /* its number + 1; 0 = a free place */
} PartitionOwner;

/* Directories of one store, who has made them, and what there was no room for. */
typedef struct PartitionCounts {
        uint64_t n_directories;
        uint64_t n_crowded;             /* parts that went to `+other`, as there were too many */
        uint64_t n_over_share;          /* the same, as their sender has made its share of them */
        PartitionOwner *owners;         /* by inode; what another process has made is nobody's */
        unsigned n_owned;
} PartitionCounts;

/* Whoever has sent a part. */
typedef struct PartitionSender {
        unsigned number;
        uint64_t n_directories;         /* directories of the store that this sender has made */
} PartitionSender;

#define PARTITION_NOBODY UINT32_MAX

/* Return: the number of the sender who has made the directory; PARTITION_NOBODY = it is not known. */
unsigned partition_owner(const PartitionCounts *counts, uint64_t inode);

/* Notes who has made a directory. Without memory for it, nobody has. */
void partition_note_owner(PartitionCounts *counts, uint64_t inode, unsigned sender);

/* The names of the directories of a partition. */
void partition_day_name(char name[PARTITION_NAME_ROOM], uint32_t day);
void partition_name(char name[PARTITION_NAME_ROOM], const char *text);

/*
 * Opens the directory of a partition below @store, and makes what is missing of it (0700). Links are not
 * followed. A sender makes directories within its share of the store and of each directory; further parts of
 * it go to `+other`. *fdp is the caller's. Return: 0, -errno.
 */
int partition_open(int store, const Partition *partition, PartitionSender *sender, PartitionCounts *counts,
                   int *fdp);

/* Whether a directory in a store may be one of @level (0 = day). */
bool partition_is_name(const char *name, unsigned level);

/* Return: 0 and *dayp, 1 = `+other`. @name: one that partition_is_name(…, 0) lets pass. */
int partition_parse_day(const char *name, uint32_t *dayp);

/* Undoes the escapes. Return: 0, 1 = it cannot be told: a name with `+`, or bytes that are no UTF-8. */
int partition_parse_name(const char *name, char text[PARTITION_NAME_ROOM]);
