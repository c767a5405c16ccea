/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From a sample to its coroutine:
 *
 *      sample      process 812, thread 4 (in its namespace), time 8569.301 s
 *      process     its region: looked for (region-find.c) a second after the first sample, then after
 *                  two more, four … 30 s
 *      region      scanned up to the time of the sample, if it was not yet (region-scan.c)
 *      history     the innermost coroutine resumed on thread 4 at that time (event-history.c)
 *      life        a coroutine that ended is resumed for ever by its last event, so its station is looked at.
 *                  It counts until the last look that saw it alive. Between that look and the first that
 *                  saw it dead the answer is ambiguous; later it is out
 *      answer      station, probe id, birth; or none, or unknown: each is counted (coroutine_samples_total)
 *
 * Stations alone make a process a target where publishers are chosen: the search for rings looks at the first
 * bytes of shared files, too. Such a process is followed from then on, whether it ever runs or not.
 *
 * The regions belong to the targets, and are never written to. A region that several processes have mapped is
 * read once, and its coroutines are taken for those of one of them; when it ends, for those of the next. An
 * engine (`spanprof coro`) has regions mapped as well, and is none of them
 * (host/sampling/discover/coroutine-engine.c). Scans cost at most a 20th of a CPU, of idle regions mostly
 * less than a 300th. When as many regions are followed as there is room for, one of the greatest holder's
 * (core/base/data/shares.h) gives way to one of a process whose user or control group has fewer.
 *
 * The same events say how long coroutines were suspended (suspended.c): told when a window or a process ends.
 */

#include "host/coro/join.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/list.h"
#include "core/base/data/shares.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/coro/event-history.h"
#include "host/coro/scan-interval.h"
#include "host/coro/region-find.h"
#include "host/coro/region-scan.h"
#include "host/coro/region.h"
#include "host/coro/suspended.h"
#include "host/sampling/discover/coroutine-engine.h"
#include "host/sampling/process/identity.h"

enum {
        MAX_PROCESSES = 8192,           /* processes that are asked for; over it one without a region goes */
        MAX_REGIONS = 64,
        /* looks of several turns that go on at once; others begin again at their next look */
        MAX_FINDING = 8,
        IDLE_SHARE = 300,               /* time between looks at an idle region ÷ time of a look */
        /* the same while samples ask: 5 % of a CPU at most, however large a region is */
        BUSY_SHARE = 20,
};

#define NEXT_TURN_NS (20 * NS_PER_MS)           /* time until the next turn of a look at very many mappings */
/*
 * The search of targets (coro_join_watch()) finds regions that are there already, and those that come with a
 * notice of new mappings. These looks are for regions that it misses. Many processes end sooner.
 */
#define FIRST_LOOK_NS NS_PER_SEC
#define LAST_LOOK_NS (30 * NS_PER_SEC)
#define KEEP_GONE_NS (3 * NS_PER_SEC)
#define MIN_WAIT_NS NS_PER_MS
/* longest wait, for regions whose scans cost next to nothing */
#define MAX_WAIT_NS (100 * NS_PER_MS)

/* ---- a region that is followed ---- */

typedef struct Life {
        uint64_t alive_ns;              /* time of the last look that saw it alive */
        uint64_t dead_ns;               /* time of the first look that saw it dead; 0 = none yet */
        bool listed;                    /* in `active` */
} Life;

typedef struct Followed {
        Region *region;
        RegionScan scan;
        EventHistory history;
        Suspended suspended;
        Life *lives;                    /* by station */
        /* stations that are resumed by their newest event: each scan looks whether they live */
        uint32_t *active;
        uint32_t n_active;
        uint64_t scanned_ns;            /* events until then are in the history */
        uint64_t cost_ns;               /* time that the last scan took */
        uint32_t n_users;
        /* process that the coroutines are taken for; 0 = none is left */
        uint32_t pid;
        uint64_t generation;
        Share *share;                   /* of this one, or of the last one */
} Followed;

static Followed *followed_free(Followed *followed) {
        if (!followed)
                return NULL;
        region_scan_deinit(&followed->scan);
        event_history_deinit(&followed->history);
        suspended_deinit(&followed->suspended);
        region_free(followed->region);
        free(followed->lives);
        free(followed->active);
        free(followed);
        return NULL;
}

/* Takes @region over, also on failure. Return: 0, -ENOMEM. */
static int followed_new(Followed **followedp, Region *region) {
        Followed *followed = calloc(1, sizeof(*followed));
        int r;

        if (!followed) {
                region_free(region);
                return error_origin(-ENOMEM);
        }
        followed->region = region;
        followed->lives = calloc(region->n_stations, sizeof(*followed->lives));
        followed->active = calloc(region->n_stations, sizeof(*followed->active));
        r = followed->lives && followed->active
                ? region_scan_init(&followed->scan, region, STATION_DIALECT_UNKNOWN, true)
                : error_origin(-ENOMEM);
        if (!r)
                r = event_history_init(&followed->history, region->n_stations);
        if (!r)
                r = suspended_init(&followed->suspended, region->n_stations, clock_monotonic_ns());
        if (r)
                followed_free(followed);
        else
                *followedp = followed;
        return r;
}

static int on_event(void *userdata, const CoroEvent *event) {
        Followed *followed = userdata;
        int r;

        if (event->n_lost)
                stat_add(COUNTER_CORO_EVENTS_LOST, event->n_lost);
        stat_add(COUNTER_CORO_EVENTS, 1);
        if (event->active && !followed->lives[event->station].listed) {
                followed->lives[event->station].listed = true;
                followed->active[followed->n_active++] = event->station;
        }
        r = suspended_event(&followed->suspended, event);
        return r ? r : event_history_add(&followed->history, event);
}

/* Looks whether the coroutine lives, now. */
static void followed_look_at_life(Followed *followed, uint32_t station, uint64_t now_ns) {
        StationState *state = &followed->scan.states[station];
        Life *life = &followed->lives[station];

        if (!state->dead)
                station_look(&followed->region->stations[station], state);
        if (!state->dead)
                life->alive_ns = now_ns;
        else if (!life->dead_ns)
                life->dead_ns = now_ns;
}

/* Looks at the coroutines that may be running, which are few: as many as threads, and their callers. */
static void look_at_lives(Followed *followed, uint64_t now_ns) {
        for (uint32_t i = 0; i < followed->n_active;) {
                uint32_t station = followed->active[i];

                followed_look_at_life(followed, station, now_ns);
                if (followed->scan.states[station].active && !followed->lives[station].dead_ns) {
                        i++;
                        continue;
                }
                followed->lives[station].listed = false;
                followed->active[i] = followed->active[--followed->n_active];
        }
}

/* Reads new events. Return: 0, -ENOMEM. */
static int followed_scan(Followed *followed, RegionScanFound *found) {
        uint64_t now_ns = clock_monotonic_ns();
        int r = region_scan_run(&followed->scan, now_ns, on_event, followed, found);

        look_at_lives(followed, now_ns);
        followed->scanned_ns = now_ns;
        followed->cost_ns = clock_monotonic_ns() - now_ns;
        return r;
}

/*
 * Counts a suspended station until now. If an event waits to be read, it was resumed at an unknown time. If
 * it is dead, it died at an unknown time.
 */
static int count_open(Followed *followed, uint32_t station, uint64_t now_ns) {
        const RegionScan *scan = &followed->scan;

        followed_look_at_life(followed, station, now_ns);
        if (station_is_ready(&followed->region->stations[station], scan->dialect, scan->states[station].next))
                return 0;
        if (scan->states[station].dead)
                suspended_died(&followed->suspended, station);
        return suspended_count_open(&followed->suspended, station, now_ns);
}

/*
 * Counts what is suspended at the last scan until then, or until @end_ns if that was earlier. Return: 0,
 * -ENOMEM.
 */
static int followed_count_suspended(Followed *followed, uint64_t end_ns) {
        uint64_t now_ns = MIN(followed->scanned_ns, end_ns);

        for (uint32_t i = 0; i < followed->scan.n_seen; i++) {
                int r = suspended_is_open(&followed->suspended, i) ? count_open(followed, i, now_ns) : 0;

                if (r)
                        return r;
                /* stations of a region that was cut are zeros now */
                if (region_is_cut(followed->region))
                        return 0;
        }
        return 0;
}

/* ---- processes ---- */

typedef struct Member {
        /* among those that are gone, in the order of their ends, or those that live and have no region */
        struct Member *previous, *next;
        uint64_t generation;
        uint32_t pid;
        Followed *followed;                 /* NULL = no region (yet) */
        uint64_t look_ns, wait_ns;      /* time of the next look for one, and the wait after it */
        Find *find;                     /* a look that goes on; NULL = none */
        uint64_t gone_ns;               /* 0 = lives */
} Member;

struct CoroJoin {
        Hashmap members;                /* pid → Member */
        struct { Member *first, *last; } gone, idle;    /* idle: who was asked for least lately first */
        Followed *regions[MAX_REGIONS];
        size_t n_regions;
        Shares shares;                  /* holders of these */
        unsigned n_finding;             /* looks that go on, each with its descriptors */
        ScanInterval interval;
        uint64_t due_ns;                /* earliest time of the next scan */
        CoroSuspendedFunc suspended;    /* NULL = there is no receiver */
        void *userdata;
};

int coro_join_new(CoroJoin **joinp) {
        *joinp = calloc(1, sizeof(**joinp));
        return *joinp ? 0 : error_origin(-ENOMEM);
}

void coro_join_set_suspended(CoroJoin *join, CoroSuspendedFunc func, void *userdata) {
        join->suspended = func;
        join->userdata = userdata;
}

static void leave(CoroJoin *join, Followed *followed) {
        if (!followed || --followed->n_users)
                return;
        for (size_t i = 0; i < join->n_regions; i++)
                if (join->regions[i] == followed)
                        join->regions[i] = join->regions[--join->n_regions];
        share_release(&join->shares, followed->share, 1);
        followed_free(followed);
}

CoroJoin *coro_join_free(CoroJoin *join) {
        HashmapEntry *entry;
        uint32_t at = 0;

        if (!join)
                return NULL;
        while ((entry = hashmap_next(&join->members, &at))) {
                find_free(((Member *)entry->value)->find);
                free(entry->value);
        }
        hashmap_deinit(&join->members);
        for (size_t i = 0; i < join->n_regions; i++)
                followed_free(join->regions[i]);
        shares_deinit(&join->shares);
        free(join);
        return NULL;
}

static void stop_finding(CoroJoin *join, Member *member) {
        join->n_finding -= member->find != NULL;
        member->find = find_free(member->find);
}

static void drop(CoroJoin *join, uint32_t pid) {
        Member *member = hashmap_remove(&join->members, pid);

        if (!member)
                return;
        if (member->gone_ns)
                list_remove(&join->gone, member);
        else if (!member->followed)
                list_remove(&join->idle, member);
        stop_finding(join, member);
        leave(join, member->followed);
        free(member);
}

static void drop_gone(CoroJoin *join, uint64_t now_ns) {
        while (join->gone.first && now_ns - join->gone.first->gone_ns >= KEEP_GONE_NS)
                drop(join, join->gone.first->pid);
}

size_t coro_join_count(const CoroJoin *join) {
        return join->members.n_entries;
}

bool coro_join_knows(const CoroJoin *join, uint32_t pid) {
        return hashmap_get(&join->members, pid);
}

/* ---- suspended time ---- */

typedef struct Telling {
        const CoroJoin *join;
        const Followed *followed;
} Telling;

static int tell(void *userdata, const SuspendedSum *sum) {
        const Telling *telling = userdata;
        const Followed *followed = telling->followed;
        CoroSuspended suspended = { .pid = followed->pid,
                                    .generation = followed->generation,
                                    .address = sum->address,
                                    .value_ns = sum->value_ns,
                                    .time_ns = sum->time_ns };

        if (sum->station != SUSPENDED_ANY_STATION) {
                const StationState *state = &followed->scan.states[sum->station];

                suspended.known = true;
                suspended.coroutine = (CoroMatch){ state->probe_id, state->birth_ns, sum->station };
        }
        return telling->join->suspended(telling->join->userdata, &suspended);
}

static void count_stretches(Suspended *suspended) {
        stat_add(COUNTER_CORO_SUSPENSIONS, suspended->n_whole);
        stat_add(COUNTER_CORO_SUSPENSIONS_UNKNOWN, suspended->n_unknown);
        stat_add(COUNTER_CORO_SUSPENSIONS_FOLDED, suspended->n_folded);
        suspended->n_whole = suspended->n_unknown = suspended->n_folded = 0;
}

/* @end_ns: when its process ended, or later. */
static int take_suspended(CoroJoin *join, Followed *followed, uint64_t end_ns) {
        Telling telling = { join, followed };
        int r = followed->pid && join->suspended ? followed_count_suspended(followed, end_ns) : 0;

        count_stretches(&followed->suspended);
        if (!r)
                r = suspended_take(&followed->suspended, followed->pid && join->suspended ? tell : NULL,
                                   &telling);
        return r;
}

/* ---- shares of regions ---- */

/* The region's place is @pid's from now on. Return: 0, -ENOMEM. */
static int charge(CoroJoin *join, Followed *followed, uint32_t pid) {
        const ShareOwner owner = identity_owner_of((pid_t)pid, 0);
        Share *share;
        int r = shares_hold(&join->shares, &owner, 1, &share);

        if (r)
                return error_fold(r);
        share_release(&join->shares, followed->share, 1);
        followed->share = share;
        return 0;
}

/* Its processes have no region any more, and are looked at again, last of all. */
static int give_way(CoroJoin *join, Followed *followed) {
        uint64_t now_ns = clock_monotonic_ns();
        RegionScanFound found;
        HashmapEntry *entry;
        uint32_t at = 0;
        int r = followed_scan(followed, &found);

        if (!r)
                r = take_suspended(join, followed, UINT64_MAX);
        while (!r && (entry = hashmap_next(&join->members, &at))) {
                Member *member = entry->value;

                if (member->followed != followed)
                        continue;
                member->wait_ns = LAST_LOOK_NS;
                member->look_ns = now_ns + LAST_LOOK_NS;
                if (!member->gone_ns)
                        list_append(&join->idle, member);
                member->followed = NULL;
                leave(join, followed);
        }
        return r;
}

static Followed *held_by(const CoroJoin *join, const Share *share) {
        size_t i = 0;

        while (join->regions[i]->share != share)
                i++;
        return join->regions[i];
}

/* The greatest holder's region goes for one of @pid, if that has fewer. Return: 0, 1 = none goes, < 0. */
static int make_room(CoroJoin *join, uint32_t pid) {
        const ShareOwner owner = identity_owner_of((pid_t)pid, 0);
        ShareOwner told = owner;
        Share *asking, *victim;
        int r = shares_hold(&join->shares, &owner, 0, &asking);

        if (r)
                return error_fold(r);
        victim = shares_victim(&join->shares, asking, 1);
        r = victim == asking;
        if (!r) {
                told = *share_owner(victim);
                r = give_way(join, held_by(join, victim));
        }
        share_release(&join->shares, asking, 0);
        stat_add(COUNTER_CORO_REGIONS_REFUSED, 1);
        shares_tell(&join->shares, "regions of coroutines", &told, clock_monotonic_ns());
        return r;
}

/* ---- finding ---- */

typedef struct Found {
        CoroJoin *join;
        Followed *followed;
        uint32_t pid;
        uint64_t generation;
} Found;

/* Takes the first region; a program has one. */
static int on_region(void *userdata, int fd, const char *path) {
        _cleanup_(closep) int owned = fd;
        _cleanup_(region_freep) Region *region = NULL;
        Found *found = userdata;
        RegionHeader header;
        int r;

        if (found->followed)
                return 0;
        r = region_open(&region, owned, &header);
        if (r) {
                stat_add(COUNTER_CORO_REGIONS_REFUSED, r > 0);
                return r < 0 ? r : 0;
        }
        for (size_t i = 0; i < found->join->n_regions; i++)
                if (region_is_same(found->join->regions[i]->region, region))
                        found->followed = found->join->regions[i];
        if (found->followed)
                return 0;
        r = found->join->n_regions == MAX_REGIONS ? make_room(found->join, found->pid) : 0;
        if (r)
                return r < 0 ? r : 0;
        r = followed_new(&found->followed, take(region));
        if (!r)
                r = charge(found->join, found->followed, found->pid);
        if (r) {
                found->followed = followed_free(found->followed);
                return r;
        }
        found->followed->pid = found->pid;
        found->followed->generation = found->generation;
        found->join->regions[found->join->n_regions++] = found->followed;
        stat_add(COUNTER_CORO_REGIONS, 1);
        log_write_target(LOG_LEVEL_INFO, found->pid, "publishes coroutines: %s", path);
        return 0;
}

static int look_for_region(CoroJoin *join, uint32_t pid, Member *member, uint64_t now_ns) {
        Found found = { .join = join, .pid = pid, .generation = member->generation };
        int r;

        if (now_ns < member->look_ns)
                return 0;
        if (!member->find)
                member->wait_ns = MIN(MAX(2 * member->wait_ns, FIRST_LOOK_NS), LAST_LOOK_NS);
        join->n_finding -= member->find != NULL;
        r = engine_is((pid_t)pid) ? 0 : find_regions_some((pid_t)pid, &member->find, on_region, &found);
        join->n_finding += member->find != NULL;
        if (found.followed) {
                found.followed->n_users++;
                list_remove(&join->idle, member);
        }
        member->followed = found.followed;
        if (found.followed || join->n_finding > MAX_FINDING)
                stop_finding(join, member);
        member->look_ns = now_ns + (member->find ? NEXT_TURN_NS : member->wait_ns);
        return r < 0 ? r : 0;
}

static int find_member(CoroJoin *join, uint32_t pid, uint64_t generation, Member **memberp) {
        Member *member = hashmap_get(&join->members, pid);
        int r;

        if (member && member->generation != generation) {
                drop(join, pid);
                member = NULL;
        }
        if (member && !member->gone_ns && !member->followed) {
                list_remove(&join->idle, member);
                list_append(&join->idle, member);
        }
        if (!member && join->members.n_entries >= MAX_PROCESSES && join->idle.first)
                drop(join, join->idle.first->pid);
        *memberp = member;
        if (member || join->members.n_entries >= MAX_PROCESSES)
                return 0;
        member = calloc(1, sizeof(*member));
        if (!member)
                return error_origin(-ENOMEM);
        member->generation = generation;
        member->pid = pid;
        member->look_ns = clock_monotonic_ns() + FIRST_LOOK_NS;
        r = hashmap_put(&join->members, pid, member);
        if (r) {
                free(member);
                return r;
        }
        list_append(&join->idle, member);
        *memberp = member;
        return 0;
}

int coro_join_watch(CoroJoin *join, uint32_t pid, uint64_t generation) {
        Member *member;
        int r = find_member(join, pid, generation, &member);

        if (r || !member || member->followed)
                return r;
        member->look_ns = 0;
        return look_for_region(join, pid, member, clock_monotonic_ns());
}

/* ---- reading ---- */

int coro_join_scan(CoroJoin *join, uint64_t *wait_nsp) {
        uint64_t begin_ns = clock_monotonic_ns(), scan_ns;
        RegionScanFound all = { 0 };

        *wait_nsp = UINT64_MAX;
        drop_gone(join, begin_ns);
        if (!join->n_regions)
                return 0;
        if (begin_ns < join->due_ns) {
                *wait_nsp = join->due_ns - begin_ns;
                return 0;
        }
        for (size_t i = 0; i < join->n_regions; i++) {
                RegionScanFound found;
                int r = followed_scan(join->regions[i], &found);

                if (r)
                        return r;
                all.n_events += found.n_events;
                all.n_lost += found.n_lost;
                all.n_most = MAX(all.n_most, found.n_most);
        }
        scan_ns = clock_monotonic_ns() - begin_ns;
        scan_interval_update(&join->interval, &all, scan_ns, begin_ns + scan_ns);
        *wait_nsp = join->interval.idle ? MIN(10 * NS_PER_MS + IDLE_SHARE * scan_ns, MAX_WAIT_NS)
                                        : MIN(MAX(join->interval.wait_ns, MIN_WAIT_NS), MAX_WAIT_NS);
        *wait_nsp = MAX(*wait_nsp, BUSY_SHARE * scan_ns);
        join->due_ns = begin_ns + scan_ns + *wait_nsp;
        return 0;
}

/* ---- windows and ends ---- */

/* A process of another user is there, too, though we may send it nothing. */
static bool is_there(uint32_t pid) {
        return !kill((pid_t)pid, 0) || errno == EPERM;
}

int coro_join_close(CoroJoin *join, bool discard) {
        for (size_t i = 0; i < join->n_regions; i++) {
                Followed *followed = join->regions[i];
                RegionScanFound found;
                int r = followed_scan(followed, &found);
                /*
                 * A process that has just ended is told by coro_join_forget(), with the time of its end.
                 */
                bool lives = followed->pid && is_there(followed->pid);

                if (!r && discard)
                        r = followed_count_suspended(followed, UINT64_MAX);
                if (!r && discard)
                        r = suspended_take(&followed->suspended, NULL, NULL);
                else if (!r)
                        r = take_suspended(join, followed, lives ? UINT64_MAX : 0);
                if (r)
                        return r;
        }
        return 0;
}

/* Takes the coroutines for those of another process that has the region mapped. Return: 0, -ENOMEM. */
static int pass_on(CoroJoin *join, Followed *followed) {
        HashmapEntry *entry;
        uint32_t at = 0;

        followed->pid = 0;
        while (!followed->pid && (entry = hashmap_next(&join->members, &at))) {
                const Member *member = entry->value;

                if (member->followed != followed || member->gone_ns)
                        continue;
                followed->pid = (uint32_t)entry->key;
                followed->generation = member->generation;
        }
        return followed->pid ? charge(join, followed, followed->pid) : 0;
}

int coro_join_forget(CoroJoin *join, uint32_t pid, uint64_t end_ns) {
        Member *member = hashmap_get(&join->members, pid);
        RegionScanFound found;
        int r = 0;

        if (!member || member->gone_ns)
                return 0;
        if (!member->followed)
                list_remove(&join->idle, member);
        member->gone_ns = clock_monotonic_ns();
        list_append(&join->gone, member);
        if (!member->followed || member->followed->pid != pid ||
            member->followed->generation != member->generation)
                return 0;
        r = followed_scan(member->followed, &found);
        if (!r)
                r = take_suspended(join, member->followed, end_ns);
        return r ? r : pass_on(join, member->followed);
}

/* ---- answering ---- */

typedef struct Question {
        Followed *followed;
        uint64_t time_ns;
        /* a candidate died between the last look that saw it alive and the first that saw it dead */
        bool ambiguous;
} Question;

/* Whether the candidate was dead at the time of the question (see the top). */
static bool is_dead(void *userdata, uint32_t station) {
        Question *question = userdata;
        Followed *followed = question->followed;
        Life *life = &followed->lives[station];

        followed_look_at_life(followed, station, clock_monotonic_ns());
        if (!life->dead_ns ||
            question->time_ns <= MAX(life->alive_ns, followed->scan.states[station].last_ns))
                return false;
        question->ambiguous |= question->time_ns < life->dead_ns;
        return true;
}

/* *followedp: NULL = the process has no region. Return: 0, -ENOMEM. */
static int find_followed(CoroJoin *join, const CoroRun *run, Followed **followedp) {
        Member *member;
        int r;

        if (run->has_ended) {           /* there is nothing left to look for */
                member = hashmap_get(&join->members, run->pid);
                *followedp = member && member->generation == run->generation ? member->followed : NULL;
                return 0;
        }
        r = find_member(join, run->pid, run->generation, &member);
        if (!r && member && !member->followed)
                r = look_for_region(join, run->pid, member, clock_monotonic_ns());
        *followedp = !r && member ? member->followed : NULL;
        return r;
}

int coro_join_find(CoroJoin *join, const CoroRun *run, CoroMatch *match) {
        Question question = { .time_ns = run->time_ns };
        RegionScanFound found;
        Followed *followed;
        uint32_t station;
        int r = find_followed(join, run, &followed);

        if (r || !followed)
                return r ? r : CORO_JOIN_E_NONE;
        question.followed = followed;
        if (followed->scanned_ns < run->time_ns) {
                if (clock_monotonic_ns() - followed->scanned_ns < BUSY_SHARE * followed->cost_ns) {
                        stat_add(COUNTER_CORO_SAMPLES_LAPPED, !run->is_uncounted);
                        return CORO_JOIN_E_UNKNOWN;
                }
                r = followed_scan(followed, &found);
        }
        if (r)
                return r;
        r = event_history_find(&followed->history, run->ns_tid, run->time_ns, is_dead, &question, &station);
        if (r || question.ambiguous) {
                stat_add(question.ambiguous                    ? COUNTER_CORO_SAMPLES_AMBIGUOUS
                                 : r == EVENT_HISTORY_E_LAPPED ? COUNTER_CORO_SAMPLES_LAPPED
                                                               : COUNTER_CORO_SAMPLES_NONE,
                         !run->is_uncounted);
                return r == EVENT_HISTORY_E_NONE && !question.ambiguous ? CORO_JOIN_E_NONE
                                                                        : CORO_JOIN_E_UNKNOWN;
        }
        *match = (CoroMatch){ .station = station, .probe_id = followed->scan.states[station].probe_id,
                              .birth_ns = followed->scan.states[station].birth_ns };
        stat_add(COUNTER_CORO_SAMPLES, !run->is_uncounted);
        return 0;
}
