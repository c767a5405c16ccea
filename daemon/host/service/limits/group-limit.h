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

/* A group with a limit of memory, and files as in a GroupLimit. */
typedef struct MemoryGroup {
        char *directory;
        bool is_unified;
        uint64_t limit_bytes;
} MemoryGroup;

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

/*
 * Visits groups with a limit of memory: that of a process, whose directory in /proc is @proc, and those
 * around it, in 16 levels at most. @mounts: text of /proc/self/mountinfo. @memory: borrowed for the call.
 * Return: 0, or what @visit did.
 */
typedef int (*MemoryGroupVisit)(void *userdata, const MemoryGroup *memory);
int memory_groups_each(const char *proc, const char *mounts, MemoryGroupVisit visit, void *userdata);

/* Bytes that the group uses; of @used its working set, without files that the kernel can drop. */
uint64_t memory_group_used(const MemoryGroup *memory);
uint64_t memory_group_set(const MemoryGroup *memory, uint64_t used);

/* How often its limit was met and nothing could be freed; in the older hierarchy, how many were killed. */
uint64_t memory_group_outs(const MemoryGroup *memory);
