/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The life of one item: search_add() → quick look at the starts of its regions, which the full search begins
 * with if that is due as well → full search, in pieces →
 * (if a notice asked for it) a second full search one second later, since the notice may have come between
 * the writer's mmap() and its first store → idle. An idle item remembers what the last full search cost, so
 * that the next one waits 4,000 times as long: at most a fortieth of a percent of a CPU goes to any process,
 * however often its memory changes. The quick look is delayed of a process that has just begun: most of
 * these end before, and it takes as much as all else that is done for them.
 *
 * That cost is without the pages that were read, since these are new ones (seen-pages.h). They have a budget
 * that all processes share, but for those that were there at the start: compilers beside us fill new memory
 * all the time. A page that is in no cache takes up to 2.5 µs, so the budget is one of time, 2 ms a second;
 * what pages have taken so far says how many that is. The list is in the order of births, so a service is
 * served before all of these. A process whose full search would come in its first moments is searched a
 * little later, and most that end soon never are.
 *
 * Of compilers, three runs have shown how long they live and that they publish nothing: the next one is
 * searched in full when it has lived twice as long as they did (program-lives.h). Such a full search would
 * begin again and again with all that is new, and end in the middle. Its first look, which finds a ring at
 * the start of a region, or one that has a name, comes at the age of 300 ms if it has not ended by then;
 * others, two seconds apart. One in eight is looked at as early as a program of no kind. What ran as the same
 * file in another control group decides nothing, and a kind of which some live for more than ten seconds, or
 * publish, is searched as the first of its kind.
 */
#include "host/sampling/context/ring-search.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/list.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/sampling/context/program-lives.h"
#include "host/sampling/context/ring.h"

enum {
        /* 120 bytes each, for a minute: all processes of the machine at the start */
        MAX_ITEMS = 32768,
        MAX_ASKED = 64,                 /* items that are asked for their place, for one more */
        MAX_PAUSED = 16,                /* in the middle of maps, which are kept open; others begin again */
        MAX_UNFINISHED = 8,             /* how often a half-written header brings a process back */
        MAX_DOUBLED = 6,                /* how often the wait for a header's first own slot doubles */
        BUDGET_ENTRIES = 262144,        /* entries of pagemap in one go: 1 GiB of addresses, about 3 ms */
        BUDGET_READS = 16384,           /* pages in one go: 64 MiB present, about 3 ms */
        /* pages of all processes that were not there at the start: 256 MiB at once, */
        READS_MAX = 1 << 16,
        READS_SECOND = 4096,            /* … and this many a second, or those that take READS_SECOND_NS */
        READS_MIN = 512,                /* fewer do not pay, nor tell what a page takes */
};

#define READS_SECOND_NS (2 * NS_PER_MS)
#define PIECE_INTERVAL_NS (20 * NS_PER_MS)      /* between two goes */
#define POSTPONED_NS (250 * NS_PER_MS)
#define AGAIN_NS NS_PER_SEC
#define SAME_LOOK_NS (5 * NS_PER_MS)            /* a full search goes on from a quick look this old */
#define COST_FACTOR 4000
#define MAX_WAIT_NS (60 * NS_PER_SEC)
/* times the time that it took to read all: then all is read again, */
#define SEEN_FACTOR 5000
#define SEEN_MIN_NS (60 * NS_PER_SEC)           /* … not earlier */
#define LOOKS_APART_NS (2 * NS_PER_SEC)         /* at one that is likely to end soon */
#define LOOK_AGE_NS (30 * NS_PER_MS)            /* age of a process that is looked at, */
#define SHORT_LOOK_AGE_NS (300 * NS_PER_MS)     /* … of one that is likely to end before, */
#define FIRST_AGE_NS (200 * NS_PER_MS)          /* … and of one that is searched in full */

typedef struct Item {
        struct Item *previous, *next;
        RingSearch ring;
        uint64_t start_time_ns;
        uint64_t due_ns;                /* UINT64_MAX = idle */
        uint64_t look_after_ns;         /* no quick look earlier, */
        uint64_t full_after_ns;         /* … and no full search */
        uint64_t knows_starts_ns;       /* when a quick look has found nothing, just before; 0 = other */
        uint64_t cost_ns;               /* CPU time of the full search so far, without the reads of pages */
        uint32_t tgid;
        uint16_t n_full;                /* full searches still to do */
        uint16_t n_unfinished;
        bool looked;                    /* the quick look is done */
        bool swept;                     /* by the sweep, and no notice since */
        bool in_look;                   /* a quick look goes on */
        bool is_long;                   /* reading the maps took more than a turn */
        bool reads_all;                 /* the full search that goes on knows no page */
        bool is_early;                  /* the process was there at the start, and was not searched yet */
        uint64_t told_context, told_stations;   /* finds that were handed on */
        uint64_t kind, begin_ns;        /* as program-lives.h has them; 0 = not known */
        uint64_t short_until_ns;        /* the program is likely to end before; 0 = not known */
        SeenPages seen;
        uint64_t seen_since_ns;         /* 0 = nothing was seen yet */
        uint64_t read_ns;               /* time that reads of pages took since then */
} Item;

struct Search {
        Hashmap map;                    /* tgid → Item */
        Item *first, *last;
        Item *hand;                     /* item that is asked for its place next; NULL = the first */
        bool started;                   /* the first quick pass is over */
        size_t *text_leftp;
        uint64_t asked_ns;              /* the first of those due that were added since search_work() */
        unsigned n_paused;
        uint64_t n_reads, refilled_ns;  /* pages that may be read; 0 = never refilled */
        uint64_t reads_second;          /* by how many a second that grows */
        uint64_t n_priced, priced_ns;   /* pages that were read since that was learnt, and what they took */
        ProgramLives lives;
};

int search_new(Search **searchp) {
        *searchp = calloc(1, sizeof(**searchp));
        if (!*searchp)
                return error_origin(-ENOMEM);
        (*searchp)->n_reads = READS_MAX;
        (*searchp)->reads_second = READS_SECOND;
        (*searchp)->asked_ns = UINT64_MAX;
        return 0;
}

Search *search_free(Search *search) {
        if (!search)
                return NULL;
        for (Item *item = search->first, *next; item; item = next) {
                next = item->next;
                ring_search_stop(&item->ring);
                seen_pages_deinit(&item->seen);
                free(item);
        }
        hashmap_deinit(&search->map);
        free(search);
        return NULL;
}

size_t search_count(const Search *search) {
        return search->map.n_entries;
}

void search_set_text(Search *search, size_t *leftp) {
        search->text_leftp = leftp;
}

static void stop_maps(Search *search, Item *item) {
        search->n_paused -= item->ring.paused != NULL;
        ring_search_stop(&item->ring);
        item->in_look = false;
}

static void drop(Search *search, Item *item) {
        stop_maps(search, item);
        hashmap_remove(&search->map, item->tgid);
        if (search->hand == item)
                search->hand = item->next;
        list_remove(search, item);
        seen_pages_deinit(&item->seen);
        free(item);
}

/* Drops an item whose program has ended, or was lost sight of. */
static void drop_lived(Search *search, Item *item, uint64_t now_ns) {
        if (item->kind)
                program_lives_note_end(&search->lives, item->kind, now_ns - item->begin_ns, item->looked);
        drop(search, item);
}

void search_remove(Search *search, uint32_t tgid, uint64_t now_ns) {
        Item *item = hashmap_get(&search->map, tgid);

        if (item)
                drop_lived(search, item, now_ns);
}

/* When a process is old enough. Its start is a time of BOOTTIME. */
static void wait_for_age(Item *item, uint64_t now_ns) {
        uint64_t age_ns = clock_read_ns(CLOCK_BOOTTIME) - item->start_time_ns;

        item->look_after_ns = age_ns < LOOK_AGE_NS ? now_ns + LOOK_AGE_NS - age_ns : 0;
        item->full_after_ns = age_ns < FIRST_AGE_NS ? now_ns + FIRST_AGE_NS - age_ns : 0;
}

static int add_item(Search *search, uint32_t tgid, Item **itemp) {
        Item *item;
        int r;

        item = calloc(1, sizeof(*item));
        if (!item)
                return error_origin(-ENOMEM);
        r = hashmap_put(&search->map, tgid, item);
        if (r) {
                free(item);
                return error_fold(r);
        }
        item->tgid = tgid;
        list_append(search, item);
        *itemp = item;
        return 0;
}

/*
 * An idle item was searched, and gives its place to a process that was not: what it cost is forgotten. So
 * processes that only sleep keep no place from others. Return: whether there is room for one more.
 */
static bool make_room(Search *search) {
        for (int i = 0; i < MAX_ASKED && search->map.n_entries >= MAX_ITEMS; i++) {
                Item *item = search->hand ?: search->first;

                search->hand = item->next;
                if (item->due_ns == UINT64_MAX)
                        drop(search, item);
        }
        return search->map.n_entries < MAX_ITEMS;
}

int search_add(Search *search, uint32_t tgid, uint64_t start_time_ns, uint64_t now_ns) {
        Item *item = hashmap_get(&search->map, tgid);
        int r;

        if (item && item->start_time_ns != start_time_ns) {
                drop(search, item);
                item = NULL;
        }
        if (!item) {
                if (!make_room(search)) {
                        stat_add(COUNTER_RING_SCANS_SKIPPED, 1);
                        return 0;
                }
                r = add_item(search, tgid, &item);
                if (r)
                        return r;
                item->start_time_ns = start_time_ns;
                item->ring.seen = &item->seen;
                item->is_early = !search->started;
                item->begin_ns = now_ns;
                if (search->started)
                        wait_for_age(item, now_ns);
        }
        stop_maps(search, item);
        item->due_ns = MAX(now_ns, item->look_after_ns);
        item->looked = false;
        item->n_unfinished = 0;
        item->told_context = item->told_stations = 0;
        item->swept = false;
        item->n_full = search->started ? 2 : 1;
        search->asked_ns = MIN(search->asked_ns, item->due_ns);
        return 0;
}

/* The first look waits until it is older than they became. */
static void put_off_look(Search *search, Item *item, uint64_t age_ns) {
        if (item->looked || item->in_look || !program_lives_look_may_wait(&search->lives, item->kind))
                return;
        item->look_after_ns = MAX(item->look_after_ns, item->begin_ns + MIN(age_ns, SHORT_LOOK_AGE_NS));
        item->due_ns = MAX(item->due_ns, item->look_after_ns);
}

void search_set_kind(Search *search, uint32_t tgid, uint64_t start_time_ns, uint64_t kind) {
        Item *item = hashmap_get(&search->map, tgid);
        uint64_t age_ns;

        if (!item || item->start_time_ns != start_time_ns || item->is_early || item->kind)
                return;
        item->kind = kind;
        age_ns = program_lives_outlived_ns(&search->lives, kind);
        if (!age_ns)
                return;
        item->short_until_ns = item->begin_ns + age_ns;
        item->full_after_ns = MAX(item->full_after_ns, item->short_until_ns);
        put_off_look(search, item, age_ns);
        if (item->looked && !item->in_look && item->due_ns != UINT64_MAX)
                item->due_ns = MAX(item->due_ns, item->full_after_ns);
        stat_add(COUNTER_RING_SCANS_PUT_OFF, 1);
}

uint64_t search_asked_ns(const Search *search) {
        return search->asked_ns;
}

static int add_look(Search *search, uint32_t tgid, uint64_t start_time_ns, bool whole, bool swept,
                    uint64_t now_ns) {
        Item *item = hashmap_get(&search->map, tgid);
        int r;

        if (item && item->start_time_ns == start_time_ns && (item->due_ns != UINT64_MAX || !whole))
                return 0;
        r = search_add(search, tgid, start_time_ns, now_ns);
        item = hashmap_get(&search->map, tgid);
        if (r || !item)
                return r;
        item->swept = swept;
        item->n_full = whole;
        return 0;
}

int search_look(Search *search, uint32_t tgid, uint64_t start_time_ns, bool whole, uint64_t now_ns) {
        return add_look(search, tgid, start_time_ns, whole, false, now_ns);
}

int search_sweep(Search *search, uint32_t tgid, uint64_t start_time_ns, bool whole, uint64_t now_ns) {
        return add_look(search, tgid, start_time_ns, whole, true, now_ns);
}

static uint64_t seen_until_ns(const Item *item) {
        return item->seen_since_ns + MAX(item->read_ns * SEEN_FACTOR, SEEN_MIN_NS);
}

/* Before a full search from the start: whether what was seen long ago still holds is looked at again. */
static void forget_seen(Item *item, uint64_t now_ns) {
        if (item->ring.next || item->ring.paused || (item->seen_since_ns && now_ns < seen_until_ns(item)))
                return;
        seen_pages_deinit(&item->seen);
        item->seen_since_ns = now_ns;
        item->read_ns = 0;
        item->reads_all = true;
}

/* When the item comes up next, after a full search that found nothing. */
static void plan(Item *item, int outcome, uint64_t now_ns) {
        /* the cost of reading all says nothing of the next search */
        uint64_t wait_ns = item->reads_all ? 0 : MIN(item->cost_ns * COST_FACTOR, MAX_WAIT_NS);

        item->full_after_ns = now_ns + MAX(wait_ns, AGAIN_NS);
        item->cost_ns = 0;
        item->is_early = item->reads_all = false;
        item->n_full -= item->n_full > 0;
        if (outcome == RING_E_UNFINISHED && item->n_unfinished < MAX_UNFINISHED) {
                item->n_unfinished++;
                item->n_full = MAX(item->n_full, 1);
        }
        /* a guest's ring stays one: the process is asked for ever, and seldom */
        if (outcome == RING_E_FOREIGN) {
                item->full_after_ns = MAX(item->full_after_ns, now_ns + (AGAIN_NS << item->n_unfinished));
                item->n_unfinished += item->n_unfinished < MAX_DOUBLED;
                item->n_full = MAX(item->n_full, 1);
        }
        item->due_ns = item->n_full ? item->full_after_ns : UINT64_MAX;
}

/* A search that was interrupted in the middle of maps goes on there; too many of them do not. */
static void keep_maps(Search *search, Item *item) {
        if (!item->ring.paused)
                return;
        item->is_long = true;
        search->n_paused++;
        if (search->n_paused > MAX_PAUSED)
                stop_maps(search, item);
}

/* Whether it would only begin, and not get on. */
static bool has_to_wait(const Search *search, const Item *item) {
        return item->is_long && !item->ring.paused && search->n_paused >= MAX_PAUSED;
}

/* Calls ring_find() once, and does what follows from it; the item may be dropped. */
static int step(Search *search, Item *item, bool quick, RingBudget *budget, SearchFound found,
                void *userdata) {
        uint64_t before_ns = clock_monotonic_ns(), start_time_ns = item->start_time_ns, now_ns;
        SearchFinding finding = { .is_swept = item->swept };
        uint64_t read_before_ns = budget->read_ns, read_ns;
        uint64_t cpu_ns = quick ? 0 : clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
        uint32_t tgid = item->tgid;
        int r;

        if (!quick)
                forget_seen(item, before_ns);
        item->ring.knows_starts = item->knows_starts_ns && before_ns - item->knows_starts_ns < SAME_LOOK_NS;
        budget->text_leftp = search->started ? search->text_leftp : NULL;
        search->n_paused -= item->ring.paused != NULL;
        r = ring_find((pid_t)tgid, start_time_ns, quick, &item->ring, budget, &finding.ring_address,
                      &finding.ring_capacity);
        keep_maps(search, item);
        now_ns = clock_monotonic_ns();
        finding.context_address = item->ring.context_address;
        finding.stations_address = item->ring.stations_address;
        if (item->kind && (!r || finding.context_address || finding.stations_address))
                program_lives_note_publication(&search->lives, item->kind);
        switch (r) {
        case 0:
                drop(search, item);
                return found(userdata, tgid, start_time_ns, &finding);
        case RING_E_GONE:
        case RING_E_DENIED:
                drop(search, item);
                return 0;
        case RING_E_NONE:
        case RING_E_UNFINISHED:
        case RING_E_FOREIGN:
        case RING_E_MORE:
                break;
        default:
                return error_fold(r);
        }
        item->looked = true;
        item->in_look = quick && r == RING_E_MORE;
        item->knows_starts_ns = quick && r == RING_E_NONE ? now_ns : 0;
        if (item->in_look) {
                item->due_ns = now_ns + PIECE_INTERVAL_NS;
        } else if (quick) {
                item->due_ns = item->n_full ? MAX(item->due_ns, item->full_after_ns) : UINT64_MAX;
                if (now_ns < item->short_until_ns)
                        item->look_after_ns = now_ns + LOOKS_APART_NS;
        } else {
                read_ns = budget->read_ns - read_before_ns;
                cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
                item->cost_ns += cpu_ns - MIN(cpu_ns, read_ns);
                item->read_ns += read_ns;
                if (r == RING_E_MORE)
                        item->due_ns = now_ns + PIECE_INTERVAL_NS;
                else
                        plan(item, r, now_ns);
        }
        if (finding.context_address == item->told_context && finding.stations_address == item->told_stations)
                return 0;
        item->told_context = finding.context_address;
        item->told_stations = finding.stations_address;
        finding.ring_address = 0;
        return found(userdata, tgid, start_time_ns, &finding);
}

int search_quick(Search *search, uint64_t now_ns, SearchFound found, void *userdata) {
        RingBudget budget = { 0 };
        int r;

        for (Item *item = search->first, *next; item; item = next) {
                next = item->next;
                if (item->looked || item->due_ns > now_ns || has_to_wait(search, item))
                        continue;
                r = step(search, item, true, &budget, found, userdata);
                if (r)
                        return r;
        }
        search->started = true;
        return 0;
}

static bool is_forgotten(const Item *item, uint64_t now_ns) {
        return item->due_ns == UINT64_MAX && item->full_after_ns + MAX_WAIT_NS <= now_ns &&
                (!item->seen_since_ns || seen_until_ns(item) <= now_ns);
}

static bool is_postponed(const Search *search, const Item *item) {
        return search->n_reads < READS_MIN && !item->in_look && !item->is_early;
}

static uint64_t due_ns(const Search *search, const Item *item, uint64_t now_ns) {
        if (item->due_ns > now_ns)
                return item->due_ns;
        stat_add(COUNTER_RING_SCANS_POSTPONED, is_postponed(search, item));
        return now_ns + (is_postponed(search, item) ? POSTPONED_NS : PIECE_INTERVAL_NS);
}

static void refill(Search *search, uint64_t now_ns) {
        uint64_t passed_ns = search->refilled_ns ? MIN(now_ns - search->refilled_ns, MAX_WAIT_NS) : 0,
                 more = passed_ns * search->reads_second / NS_PER_SEC;

        if (search->refilled_ns && !more)
                return;                 /* the time adds up */
        search->refilled_ns = now_ns;
        if (search->n_reads < READS_MAX)
                search->n_reads = MIN(search->n_reads + more, (uint64_t)READS_MAX);
}

/* @n pages have taken @ns. */
static void learn_price(Search *search, uint64_t n, uint64_t ns) {
        uint64_t second;

        search->n_priced += n;
        search->priced_ns += ns;
        if (search->n_priced < READS_MIN)
                return;
        second = search->n_priced * READS_SECOND_NS / MAX(search->priced_ns, UINT64_C(1));
        search->reads_second = MIN((3 * search->reads_second + second) / 4, (uint64_t)READS_SECOND);
        search->n_priced = search->priced_ns = 0;
}

/* The step of an item that is due. A full search begins with a look, so no look comes just before one. */
enum { STEP_NONE, STEP_LOOK, STEP_FULL };

static int next_step(const Search *search, const Item *item, const RingBudget *budget, uint64_t now_ns) {
        bool has_budget = budget->n_entries && budget->n_reads >= READS_MIN;

        if (item->due_ns > now_ns || has_to_wait(search, item))
                return STEP_NONE;
        if (item->in_look)
                return budget->n_entries ? STEP_LOOK : STEP_NONE;
        if (has_budget && item->n_full && item->full_after_ns <= now_ns)
                return STEP_FULL;
        if (!item->looked)
                return STEP_LOOK;
        return has_budget ? STEP_FULL : STEP_NONE;
}

int search_work(Search *search, uint64_t now_ns, SearchFound found, void *userdata, uint64_t *next_nsp) {
        RingBudget early = { .n_entries = BUDGET_ENTRIES, .n_reads = BUDGET_READS };
        RingBudget budget = { .n_entries = BUDGET_ENTRIES }, *one;
        uint64_t next_ns = UINT64_MAX, n_reads;
        int what, r;

        search->started = true;
        refill(search, now_ns);
        search->asked_ns = UINT64_MAX;
        n_reads = budget.n_reads = MIN(search->n_reads, (uint64_t)BUDGET_READS);
        for (Item *item = search->first, *next; item; item = next) {
                next = item->next;
                one = item->is_early ? &early : &budget;
                what = next_step(search, item, one, now_ns);
                r = what == STEP_NONE ? 0 : step(search, item, what == STEP_LOOK, one, found, userdata);
                if (r)
                        return r;
        }
        search->n_reads -= n_reads - budget.n_reads;
        learn_price(search, n_reads - budget.n_reads, budget.read_ns);
        for (Item *item = search->first, *next; item; item = next) {
                next = item->next;
                if (is_forgotten(item, now_ns))
                        drop_lived(search, item, now_ns);
                else
                        next_ns = MIN(next_ns, due_ns(search, item, now_ns));
        }
        *next_nsp = next_ns;
        return 0;
}
