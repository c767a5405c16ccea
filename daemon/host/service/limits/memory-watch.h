/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Watch of Memory
 *
 * Sees that a control group comes near its limit of memory, before the kernel ends one of its processes: of
 * the groups of programs that it is told of, and of those around them.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/data/shares.h"
#include "core/base/util/macro.h"

typedef struct MemoryWatch MemoryWatch;

enum { MEMORY_WATCH_MAX_GROUPS = 256 };

/* Sights in the order of how soon their programs may end. */
enum memory_sight {
        MEMORY_SIGHT_FAST,              /* the working set is above half of the limit, and at it in 10 s */
        MEMORY_SIGHT_NEAR,              /* … has passed nine tenths of it */
        MEMORY_SIGHT_OUT,               /* the limit was met, and nothing could be freed */
};

/* Told for each program of the group, or in a group below it. @program: as it was added. */
typedef void (*MemoryWatchTell)(void *userdata, uint64_t program, enum memory_sight sight);

/* @n_cpus: that are online; each may hide some growth from the kernel's sums. Return: 0, -ENOMEM. */
int memory_watch_new(MemoryWatch **watchp, size_t n_cpus, MemoryWatchTell tell, void *userdata);
MemoryWatch *memory_watch_free(MemoryWatch *watch);
DEFINE_CLEANUP(MemoryWatch, memory_watch_free)

/*
 * Programs are told of anew: begin, each program, end. What is known of a group stays. @proc: /proc/PID of
 * the program; @mounts: text of /proc/self/mountinfo. @owner: has the places of groups that were not known
 * before. Return: 0, -ENOMEM.
 */
void memory_watch_begin(MemoryWatch *watch);
int memory_watch_add(MemoryWatch *watch, uint64_t program, const ShareOwner *owner, const char *proc,
                     const char *mounts);
void memory_watch_end(MemoryWatch *watch);

/* Looks at the groups that are due. Return: MONOTONIC time of the next look; UINT64_MAX = there is none. */
uint64_t memory_watch_look(MemoryWatch *watch, uint64_t now_ns);
