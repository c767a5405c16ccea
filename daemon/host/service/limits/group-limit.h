/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limits of the Control Group
 *
 * How much memory and CPU time the control group of this process may use: the least of its own limits and of
 * those of the groups around it, as far as they can be seen from here (a container sees its own). Both kinds
 * of hierarchies are read: memory.max and cpu.max of the unified one, memory.limit_in_bytes and
 * cpu.cfs_quota_us of the older ones.
 *
 * The daemon holds itself to GROUP_LIMIT_PERCENT of it. What of that its caches may have is what is left
 * above GROUP_LIMIT_BASE_BYTES, which it has with nothing to do (docs/PERFORMANCE.md).
 */

#include <stdbool.h>
#include <stdint.h>

enum { GROUP_LIMIT_PERCENT = 80 };

#define GROUP_LIMIT_BASE_BYTES (UINT64_C(16) << 20)
#define GROUP_LIMIT_LEAST_BYTES (UINT64_C(2) << 20)     /* caches have so much in the smallest group */

typedef struct GroupLimit {
        uint64_t memory_bytes;          /* 0 = none */
        double cpu_percent;             /* part of one CPU; 0 = none */
        char *memory_group;             /* directory of our own group with its use of memory; NULL = none */
        bool is_unified;                /* files there have the names of the unified hierarchy */
} GroupLimit;

/* @proc: /proc/self. What cannot be read limits nothing. Return: 0, -ENOMEM. */
int group_limit_read(GroupLimit *limit, const char *proc);
void group_limit_deinit(GroupLimit *limit);

/* Bytes of memory that the daemon holds itself to; 0 = no limit. */
uint64_t group_limit_memory(const GroupLimit *limit);

/* What caches may have of it in all; UINT64_MAX = no limit. */
uint64_t group_limit_spare(const GroupLimit *limit);

/* Bytes that the kernel grants our group beyond what it uses now; UINT64_MAX = no limit, or not known. */
uint64_t group_limit_room(const GroupLimit *limit);

/* Percent of one CPU that the daemon holds itself to, 1 or more; 0 = no limit. */
uint64_t group_limit_cpu(const GroupLimit *limit);

/* Memory that our group uses now, but for files that the kernel can drop; 0 = not known. */
uint64_t group_limit_used(const GroupLimit *limit);
