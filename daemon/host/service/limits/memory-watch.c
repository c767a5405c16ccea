/* SPDX-License-Identifier: Apache-2.0 */

/*
 * No event of the kernel comes in time: memory.events speaks when the limit is met, or all the time where
 * files are read, and pressure needs processes that wait. So the working set is asked for, what the group
 * uses but for files that the kernel can drop:
 *
 *     below half the limit     each second
 *     from half of it on       each 100 ms, up to 32 groups; 33 to 64 of them each 200 ms, and so on
 *     from 80 % on             each 10 ms, up to eight groups; others as from half of it on
 *     at 90 %                  told; again only after 85 % has been left below
 *
 * What grows by 100 MB/s to 512 MiB passes 90 % half a second before its end, and a look takes a while. So it
 * is told from half of the limit on, too, where two looks half a second apart say that it will pass the limit
 * in ten more seconds:
 *
 *     limit ┤- - - - - - - - - - - - - x           grown, as from the older look to the newer, over 10 s
 *           ┤                       ·
 *           ┤           newer  · ·                 below half most of what will be there is not there yet
 *      half ┤- - - older ·─·─┘- - - - - - -
 *
 * A heap that a collector empties again and again grows so, too: a group is told of once in a minute, or
 * after the limit was met. What grows so fast is asked for each 100 ms below half of its limit, too.
 *
 * The working set is never more than all that the group uses, which is one number: what a part of it are
 * files is asked for from 80 % on, and where the whole grows so fast. The two are not of one moment. So a set
 * has bounds, and what grows is the least that they allow: reading files makes no set grow.
 *
 * The kernel's sums are late by up to half a MiB for each CPU, which is taken off what has grown. With many
 * CPUs that is more than grows in half a second: then the older look stays, for five seconds at most.
 *
 * Where the limit is met after all, that is told, too: mostly a part of the memory is still there.
 */
#include "host/service/limits/memory-watch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/service/limits/group-limit.h"

enum {
        HALF = 50,                      /* percent of the limit, as the next */
        CLOSE = 80,
        NEAR = 90,
        CALM = 85,
        MAX_CLOSE = 8,                  /* groups that are asked each 10 ms */
        MAX_HALF = 32,                  /* groups that are asked each 100 ms */
        BATCH_BYTES = 512 << 10,        /* error of the kernel's two sums, for each CPU */
};

#define CALM_PACE_NS NS_PER_SEC
#define HALF_PACE_NS (100 * NS_PER_MS)
#define CLOSE_PACE_NS (10 * NS_PER_MS)
#define GROWTH_NS (500 * NS_PER_MS)             /* between the two looks of a forecast, at least */
#define AHEAD_NS (10 * NS_PER_SEC)
#define HIDDEN_NS (5 * NS_PER_SEC)              /* growth by no more than the slack in that time is none */
#define FAST_NS (60 * NS_PER_SEC)               /* between two times that a group is told to grow fast */

/* Bytes at a time, which are within bounds. */
typedef struct Reading {
        uint64_t low, high;
        uint64_t at_ns;
} Reading;

typedef struct Growth {
        Reading since;                  /* at_ns 0 = there is none */
        bool is_known;                  /* whether … */
        bool is_fast;                   /* … it will pass the limit within AHEAD_NS */
} Growth;

typedef struct Group {
        MemoryGroup memory;
        Share *share;                   /* place among those that are watched */
        uint64_t *programs;
        uint32_t n, room;
        uint64_t due_ns;
        uint64_t n_outs;                /* times that the limit was met, as the last look has it */
        Growth whole;                   /* growth of all that it uses … */
        Growth set;                     /* … and of its working set, while that is asked for */
        uint64_t fast_ns;               /* when it was told to grow fast; 0 = never */
        bool is_near;
        bool is_close, is_half;         /* asked each 10 ms; each 100 ms */
} Group;

struct MemoryWatch {
        MemoryWatchTell tell;
        void *userdata;
        uint64_t slack_bytes;           /* growth that may be none */
        Group *groups;
        uint32_t n, room;
        Shares shares;
};

/* ---- groups ---- */

static Group *find(MemoryWatch *watch, const char *directory) {
        for (uint32_t i = 0; i < watch->n; i++)
                if (!strcmp(watch->groups[i].memory.directory, directory))
                        return &watch->groups[i];
        return NULL;
}

static void free_group(MemoryWatch *watch, Group *group) {
        share_release(&watch->shares, group->share, 1);
        free(group->memory.directory);
        free(group->programs);
}

/* Return: 0 with *groupp, NULL = there is no room; -ENOMEM. */
static int find_or_add(MemoryWatch *watch, const ShareOwner *owner, const MemoryGroup *memory,
                       Group **groupp) {
        Group *group = find(watch, memory->directory);
        int r;

        *groupp = group;
        if (group) {
                group->memory.limit_bytes = memory->limit_bytes;
                return 0;
        }
        if (!shares_leave_room(&watch->shares, owner, 1, MEMORY_WATCH_MAX_GROUPS)) {
                stat_add(COUNTER_MEMORY_GROUPS_OVER_CAP, 1);
                shares_tell(&watch->shares, "limits of memory", owner, clock_monotonic_ns());
                return 0;
        }
        r = array_reserve(&watch->groups, &watch->room, watch->n + 1u, 16);
        if (r)
                return error_fold(r);
        group = &watch->groups[watch->n];
        *group = (Group){ .memory = *memory };
        group->memory.directory = strdup(memory->directory);
        if (!group->memory.directory)
                return error_origin(-ENOMEM);
        r = shares_hold(&watch->shares, owner, 1, &group->share);
        if (r) {
                free(group->memory.directory);
                return error_fold(r);
        }
        group->n_outs = memory_group_outs(memory);
        watch->n++;
        *groupp = group;
        return 0;
}

void memory_watch_begin(MemoryWatch *watch) {
        for (uint32_t i = 0; i < watch->n; i++)
                watch->groups[i].n = 0;
}

void memory_watch_end(MemoryWatch *watch) {
        for (uint32_t i = 0; i < watch->n;) {
                if (watch->groups[i].n) {
                        i++;
                        continue;
                }
                free_group(watch, &watch->groups[i]);
                watch->groups[i] = watch->groups[--watch->n];
        }
}

typedef struct Adding {
        MemoryWatch *watch;
        uint64_t program;
        const ShareOwner *owner;
} Adding;

static int add_to(void *userdata, const MemoryGroup *memory) {
        const Adding *adding = userdata;
        Group *group;
        int r = find_or_add(adding->watch, adding->owner, memory, &group);

        if (r || !group)
                return error_fold(r);
        r = array_reserve(&group->programs, &group->room, group->n + 1u, 4);
        if (!r)
                group->programs[group->n++] = adding->program;
        return error_fold(r);
}

int memory_watch_add(MemoryWatch *watch, uint64_t program, const ShareOwner *owner, const char *proc,
                     const char *mounts) {
        Adding adding = { watch, program, owner };

        return error_fold(memory_groups_each(proc, mounts, add_to, &adding));
}

/* ---- looks ---- */

static bool is_from(const Group *group, uint64_t bytes, unsigned percent) {
        return bytes >= group->memory.limit_bytes / 100 * percent;
}

static void tell(const MemoryWatch *watch, const Group *group, enum memory_sight sight) {
        for (uint32_t i = 0; i < group->n; i++)
                watch->tell(watch->userdata, group->programs[i], sight);
}

static void look_for_outs(const MemoryWatch *watch, Group *group) {
        uint64_t n = memory_group_outs(&group->memory);

        if (n > group->n_outs)
                tell(watch, group, MEMORY_SIGHT_OUT);
        /* who grows now has begun after that; fewer are those of another group of this name */
        if (n != group->n_outs) {
                group->fast_ns = 0;
                group->whole = group->set = (Growth){ 0 };
        }
        group->n_outs = n;
}

/* Whether it has the limit within AHEAD_NS, if it has grown by so much in @past_ns. */
static bool will_pass(const MemoryGroup *memory, uint64_t bytes, uint64_t grown, uint64_t past_ns) {
        return grown &&
                (double)bytes + (double)grown * AHEAD_NS / (double)past_ns >= (double)memory->limit_bytes;
}

/*
 * A forecast from an older reading and this one, once they are far enough from each other. The older one
 * stays, and so does the last forecast, while bounds and slack alone decide.
 */
static void growth_take(Growth *growth, const MemoryWatch *watch, const MemoryGroup *memory,
                        const Reading *reading) {
        const Reading *since = &growth->since;
        uint64_t past_ns = reading->at_ns - since->at_ns, least, most;
        bool is_fast;

        if (!since->at_ns) {
                growth->since = *reading;
                return;
        }
        if (past_ns < GROWTH_NS)
                return;
        least = reading->low - MIN(reading->low, since->high + watch->slack_bytes);
        most = reading->high + watch->slack_bytes - MIN(reading->high, since->low);
        is_fast = will_pass(memory, reading->low, least, past_ns);
        if (!is_fast && reading->high > since->high && past_ns < HIDDEN_NS &&
            will_pass(memory, reading->high, most, past_ns))
                return;
        *growth = (Growth){ .since = *reading, .is_known = true, .is_fast = is_fast };
}

static bool is_fast(const Group *group) {
        return group->set.is_known ? group->set.is_fast : group->whole.is_fast;
}

static void take_set(const MemoryWatch *watch, Group *group, uint64_t bytes, uint64_t now_ns) {
        bool was_near = group->is_near;

        if (is_from(group, bytes, NEAR))
                group->is_near = true;
        else if (!is_from(group, bytes, CALM))
                group->is_near = false;
        if (group->is_near && !was_near)
                tell(watch, group, MEMORY_SIGHT_NEAR);
        if (group->is_near || !group->set.is_fast || !is_from(group, bytes, HALF) ||
            (group->fast_ns && now_ns - group->fast_ns < FAST_NS))
                return;
        group->fast_ns = now_ns;
        tell(watch, group, MEMORY_SIGHT_FAST);
}

/* Bounds of the working set, from what the group uses before and after its files are asked for. */
static uint64_t look_at_set(const MemoryWatch *watch, Group *group, uint64_t used, uint64_t now_ns) {
        uint64_t set = memory_group_set(&group->memory, used), after = memory_group_used(&group->memory);
        const Reading reading = {
                .low = set - MIN(set, used - MIN(used, after)),
                .high = set + after - MIN(after, used),
                .at_ns = now_ns,
        };

        if (set)
                growth_take(&group->set, watch, &group->memory, &reading);
        else
                group->set = (Growth){ 0 };
        take_set(watch, group, set, now_ns);
        return set;
}

/* Groups of each pace. */
typedef struct Paces {
        unsigned n_close, n_half;
} Paces;

/* Return: bytes that are held against the limit. */
static uint64_t look(const MemoryWatch *watch, Group *group, uint64_t now_ns) {
        uint64_t used = memory_group_used(&group->memory);
        const Reading reading = { used, used, now_ns };

        look_for_outs(watch, group);
        growth_take(&group->whole, watch, &group->memory, &reading);
        if (is_from(group, used, CLOSE) || (is_from(group, used, HALF) && group->whole.is_fast))
                return look_at_set(watch, group, used, now_ns);
        group->is_near = false;
        group->set = (Growth){ 0 };
        return used;
}

/* @paces: of the other groups. Return: time until the next look. */
static uint64_t choose_pace(Group *group, uint64_t used, const Paces *paces) {
        group->is_close = is_from(group, used, CLOSE) && paces->n_close < MAX_CLOSE;
        group->is_half = !group->is_close && (is_from(group, used, HALF) || is_fast(group));
        if (group->is_close)
                return CLOSE_PACE_NS;
        if (!group->is_half)
                return CALM_PACE_NS;
        return HALF_PACE_NS * (1 + paces->n_half / MAX_HALF);
}

uint64_t memory_watch_look(MemoryWatch *watch, uint64_t now_ns) {
        uint64_t next_ns = UINT64_MAX;
        Paces paces = { 0 };

        for (uint32_t i = 0; i < watch->n; i++) {
                paces.n_close += watch->groups[i].is_close;
                paces.n_half += watch->groups[i].is_half;
        }
        for (uint32_t i = 0; i < watch->n; i++) {
                Group *group = &watch->groups[i];

                if (group->due_ns <= now_ns) {
                        paces.n_close -= group->is_close;
                        paces.n_half -= group->is_half;
                        group->due_ns = now_ns + choose_pace(group, look(watch, group, now_ns), &paces);
                        paces.n_close += group->is_close;
                        paces.n_half += group->is_half;
                }
                next_ns = MIN(next_ns, group->due_ns);
        }
        return next_ns;
}

/* ---- the whole ---- */

int memory_watch_new(MemoryWatch **watchp, size_t n_cpus, MemoryWatchTell tell_program, void *userdata) {
        MemoryWatch *watch = calloc(1, sizeof(*watch));

        if (!watch)
                return error_origin(-ENOMEM);
        watch->tell = tell_program;
        watch->userdata = userdata;
        watch->slack_bytes = (uint64_t)n_cpus * BATCH_BYTES;
        *watchp = watch;
        return 0;
}

MemoryWatch *memory_watch_free(MemoryWatch *watch) {
        if (!watch)
                return NULL;
        for (uint32_t i = 0; i < watch->n; i++)
                free_group(watch, &watch->groups[i]);
        shares_deinit(&watch->shares);
        free(watch->groups);
        free(watch);
        return NULL;
}
