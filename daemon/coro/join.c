/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/join.h"

#include <errno.h>
#include <stdlib.h>

#include "coro/find.h"
#include "coro/harvest.h"
#include "coro/journal.h"
#include "coro/pace.h"
#include "util/error.h"
#include "util/hashmap.h"
#include "util/log.h"
#include "util/stat.h"

enum {
        MAX_PROCESSES = 8192,           /* that are asked for; further ones have no coroutines */
        MAX_REGIONS = 64,
        IDLE_SHARE = 300,               /* time between looks at an idle region ÷ time of a look */
        BUSY_SHARE = 20,                /* the same while samples ask: 5 % of a CPU at most, however large a region is */
};

#define FIRST_LOOK_NS (100 * NS_PER_MS)
#define LAST_LOOK_NS (30 * NS_PER_SEC)
#define KEEP_GONE_NS (3 * NS_PER_SEC)
#define MIN_WAIT_NS NS_PER_MS
#define MAX_WAIT_NS (100 * NS_PER_MS)           /* of regions whose look costs next to nothing */

typedef struct Life {
        uint64_t alive_ns;              /* when it was last seen not to be dead */
        uint64_t dead_ns;               /* when it was first seen dead, 0 = not yet */
        bool listed;                    /* in `active` */
} Life;

typedef struct Joined {
        Region *region;
        Harvest harvest;
        Journal journal;
        Life *lives;                    /* by station */
        uint32_t *active;               /* stations that are resumed by their newest event: whether they live is looked at */
        uint32_t n_active;
        uint64_t scanned_ns;            /* every event until then is in the journal */
        uint64_t cost_ns;               /* of the last look */
        uint32_t n_users;
} Joined;

typedef struct Member {
        uint64_t generation;
        Joined *joined;                 /* NULL = no region (yet) */
        uint64_t look_ns, wait_ns;      /* when to look for one, and how long after that */
        uint64_t gone_ns;               /* 0 = lives */
} Member;

struct CoroJoin {
        Hashmap members;                /* pid → Member */
        Joined *regions[MAX_REGIONS];
        size_t n_regions, n_gone;
        Pace pace;
        uint64_t due_ns;                /* no look at all regions earlier */
};

int coro_join_new(CoroJoin **joinp) {
        *joinp = calloc(1, sizeof(**joinp));
        return *joinp ? 0 : error_origin(-ENOMEM);
}

static Joined *joined_free(Joined *joined) {
        if (!joined)
                return NULL;
        harvest_deinit(&joined->harvest);
        journal_deinit(&joined->journal);
        region_free(joined->region);
        free(joined->lives);
        free(joined->active);
        free(joined);
        return NULL;
}

static void leave(CoroJoin *join, Joined *joined) {
        if (!joined || --joined->n_users)
                return;
        for (size_t i = 0; i < join->n_regions; i++)
                if (join->regions[i] == joined)
                        join->regions[i] = join->regions[--join->n_regions];
        joined_free(joined);
}

CoroJoin *coro_join_free(CoroJoin *join) {
        HashmapEntry *entry;
        uint32_t at = 0;

        if (!join)
                return NULL;
        while ((entry = hashmap_next(&join->members, &at)))
                free(entry->value);
        hashmap_deinit(&join->members);
        for (size_t i = 0; i < join->n_regions; i++)
                joined_free(join->regions[i]);
        free(join);
        return NULL;
}

static void drop(CoroJoin *join, uint32_t pid) {
        Member *member = hashmap_remove(&join->members, pid);

        if (!member)
                return;
        join->n_gone -= member->gone_ns != 0;
        leave(join, member->joined);
        free(member);
}

void coro_join_forget(CoroJoin *join, uint32_t pid) {
        Member *member = hashmap_get(&join->members, pid);

        if (!member || member->gone_ns)
                return;
        member->gone_ns = clock_monotonic_ns();
        join->n_gone++;
}

/* One at a time: the map must not change while it is walked. */
static void drop_gone(CoroJoin *join, uint64_t now_ns) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while (join->n_gone && (entry = hashmap_next(&join->members, &at))) {
                const Member *member = entry->value;

                if (!member->gone_ns || now_ns - member->gone_ns < KEEP_GONE_NS)
                        continue;
                drop(join, (uint32_t)entry->key);
                return;
        }
}

/* ---- finding ---- */

typedef struct Found {
        CoroJoin *join;
        Joined *joined;
        uint32_t pid;
} Found;

static int make_joined(Joined **joinedp, Region *region) {
        Joined *joined = calloc(1, sizeof(*joined));
        int r;

        if (!joined) {
                region_free(region);
                return error_origin(-ENOMEM);
        }
        joined->region = region;
        joined->lives = calloc(region->n_stations, sizeof(*joined->lives));
        joined->active = calloc(region->n_stations, sizeof(*joined->active));
        r = joined->lives && joined->active ? harvest_init(&joined->harvest, region, STATION_DIALECT_UNKNOWN, true) : error_origin(-ENOMEM);
        if (!r)
                r = journal_init(&joined->journal, region->n_stations);
        if (r)
                joined_free(joined);
        else
                *joinedp = joined;
        return r;
}

/* The first one counts; a program has one. */
static int on_region(void *userdata, int fd, const char *path) {
        _cleanup_(closep) int owned = fd;
        _cleanup_(region_freep) Region *region = NULL;
        Found *found = userdata;
        RegionHeader header;
        int r;

        if (found->joined)
                return 0;
        r = region_open(&region, owned, &header);
        if (r) {
                stat_add(COUNTER_CORO_REGIONS_REFUSED, r > 0);
                return r < 0 ? r : 0;
        }
        for (size_t i = 0; i < found->join->n_regions; i++)
                if (region_is_same(found->join->regions[i]->region, region))
                        found->joined = found->join->regions[i];
        if (found->joined)
                return 0;
        if (found->join->n_regions == MAX_REGIONS) {
                stat_add(COUNTER_CORO_REGIONS_REFUSED, 1);
                return 0;
        }
        r = make_joined(&found->joined, take(region));
        if (r)
                return r;
        found->join->regions[found->join->n_regions++] = found->joined;
        stat_add(COUNTER_CORO_REGIONS, 1);
        log_write_target(LOG_LEVEL_INFO, found->pid, "publishes coroutines: %s", path);
        return 0;
}

static int look_for_region(CoroJoin *join, uint32_t pid, Member *member, uint64_t now_ns) {
        Found found = { .join = join, .pid = pid };
        int r;

        if (now_ns < member->look_ns)
                return 0;
        member->wait_ns = MIN(MAX(2 * member->wait_ns, FIRST_LOOK_NS), LAST_LOOK_NS);
        member->look_ns = now_ns + member->wait_ns;
        r = find_regions((pid_t)pid, on_region, &found);
        if (found.joined)
                found.joined->n_users++;
        member->joined = found.joined;
        return r < 0 ? r : 0;
}

static int find_member(CoroJoin *join, uint32_t pid, uint64_t generation, Member **memberp) {
        Member *member = hashmap_get(&join->members, pid);
        int r;

        if (member && member->generation != generation) {
                drop(join, pid);
                member = NULL;
        }
        *memberp = member;
        if (member || join->members.n_entries >= MAX_PROCESSES)
                return 0;
        member = calloc(1, sizeof(*member));
        if (!member)
                return error_origin(-ENOMEM);
        member->generation = generation;
        r = hashmap_put(&join->members, pid, member);
        if (r)
                free(member);
        else
                *memberp = member;
        return r;
}

/* ---- reading ---- */

static int on_event(void *userdata, const CoroEvent *event) {
        Joined *joined = userdata;

        if (event->n_lost)
                stat_add(COUNTER_CORO_EVENTS_LOST, event->n_lost);
        stat_add(COUNTER_CORO_EVENTS, 1);
        if (event->active && !joined->lives[event->station].listed) {
                joined->lives[event->station].listed = true;
                joined->active[joined->n_active++] = event->station;
        }
        return journal_add(&joined->journal, event);
}

static void look_at_life(Joined *joined, uint32_t station, uint64_t now_ns) {
        StationState *state = &joined->harvest.states[station];
        Life *life = &joined->lives[station];

        if (!state->dead)
                station_look(&joined->region->stations[station], state);
        if (!state->dead)
                life->alive_ns = now_ns;
        else if (!life->dead_ns)
                life->dead_ns = now_ns;
}

/* Those that may be running, which are few: as many as threads, and their callers. */
static void look_at_lives(Joined *joined, uint64_t now_ns) {
        for (uint32_t i = 0; i < joined->n_active;) {
                uint32_t station = joined->active[i];

                look_at_life(joined, station, now_ns);
                if (joined->harvest.states[station].active && !joined->lives[station].dead_ns) {
                        i++;
                        continue;
                }
                joined->lives[station].listed = false;
                joined->active[i] = joined->active[--joined->n_active];
        }
}

static int scan(Joined *joined, HarvestFound *found) {
        uint64_t now_ns = clock_monotonic_ns();
        int r = harvest_scan(&joined->harvest, now_ns, on_event, joined, found);

        look_at_lives(joined, now_ns);
        joined->scanned_ns = now_ns;
        joined->cost_ns = clock_monotonic_ns() - now_ns;
        return r;
}

int coro_join_scan(CoroJoin *join, uint64_t *wait_nsp) {
        uint64_t begin_ns = clock_monotonic_ns(), scan_ns;
        HarvestFound all = { 0 };

        *wait_nsp = UINT64_MAX;
        drop_gone(join, begin_ns);
        if (!join->n_regions)
                return 0;
        if (begin_ns < join->due_ns) {
                *wait_nsp = join->due_ns - begin_ns;
                return 0;
        }
        for (size_t i = 0; i < join->n_regions; i++) {
                HarvestFound found;
                int r = scan(join->regions[i], &found);

                if (r)
                        return r;
                all.n_events += found.n_events;
                all.n_lost += found.n_lost;
                all.n_most = MAX(all.n_most, found.n_most);
        }
        scan_ns = clock_monotonic_ns() - begin_ns;
        pace_update(&join->pace, &all, scan_ns, begin_ns + scan_ns);
        *wait_nsp = join->pace.idle ? MIN(10 * NS_PER_MS + IDLE_SHARE * scan_ns, MAX_WAIT_NS)
                                    : MIN(MAX(join->pace.wait_ns, MIN_WAIT_NS), MAX_WAIT_NS);
        *wait_nsp = MAX(*wait_nsp, BUSY_SHARE * scan_ns);
        join->due_ns = begin_ns + scan_ns + *wait_nsp;
        return 0;
}

/* ---- answering ---- */

typedef struct Question {
        Joined *joined;
        uint64_t time_ns;
        bool ambiguous;                 /* a candidate died between the last look that saw it alive and the one that did not */
} Question;

/*
 * A coroutine that ends is resumed by its last event, for ever. It counts until the last look that saw it alive; what came
 * between that and the look that saw it dead is not known; afterwards it is out.
 */
static bool is_dead(void *userdata, uint32_t station) {
        Question *question = userdata;
        Joined *joined = question->joined;
        Life *life = &joined->lives[station];

        look_at_life(joined, station, clock_monotonic_ns());
        if (!life->dead_ns || question->time_ns <= MAX(life->alive_ns, joined->harvest.states[station].last_ns))
                return false;
        question->ambiguous |= question->time_ns < life->dead_ns;
        return true;
}

int coro_join_find(CoroJoin *join, uint32_t pid, uint64_t generation, uint32_t ns_tid, uint64_t time_ns, CoroMatch *match) {
        Question question = { .time_ns = time_ns };
        HarvestFound found;
        Member *member;
        uint32_t station;
        int r = find_member(join, pid, generation, &member);

        if (!r && member && !member->joined)
                r = look_for_region(join, pid, member, clock_monotonic_ns());
        if (r || !member || !member->joined)
                return r ? r : CORO_JOIN_E_NONE;
        question.joined = member->joined;
        if (member->joined->scanned_ns < time_ns) {
                if (clock_monotonic_ns() - member->joined->scanned_ns < BUSY_SHARE * member->joined->cost_ns) {
                        stat_add(COUNTER_CORO_SAMPLES_LAPPED, 1);
                        return CORO_JOIN_E_UNKNOWN;
                }
                r = scan(member->joined, &found);
        }
        if (r)
                return r;
        r = journal_find(&member->joined->journal, ns_tid, time_ns, is_dead, &question, &station);
        if (r || question.ambiguous) {
                stat_add(question.ambiguous ? COUNTER_CORO_SAMPLES_AMBIGUOUS :
                         r == JOURNAL_E_LAPPED ? COUNTER_CORO_SAMPLES_LAPPED : COUNTER_CORO_SAMPLES_NONE, 1);
                return r == JOURNAL_E_NONE && !question.ambiguous ? CORO_JOIN_E_NONE : CORO_JOIN_E_UNKNOWN;
        }
        *match = (CoroMatch){ .station = station, .probe_id = member->joined->harvest.states[station].probe_id,
                              .birth_ns = member->joined->harvest.states[station].birth_ns };
        stat_add(COUNTER_CORO_SAMPLES, 1);
        return 0;
}
