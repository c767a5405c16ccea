/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The life of one item: search_add() → quick look at the starts of its regions → full search, in pieces →
 * (if a notice asked for it) a second full search one second later, since the notice may have come between
 * the writer's mmap() and its first store → idle. An idle item only remembers what the last full search cost,
 * so that the next one waits a hundred times as long: at most 1 % of a CPU goes to any process, however often
 * its memory changes. The quick look is never delayed.
 */
#include "sampling/context/ring-search.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/hashmap.h"
#include "base/util/list.h"
#include "base/util/stat.h"
#include "sampling/context/ring.h"

enum {
        /* 120 bytes each, for a minute: all processes of the machine at the start */
        MAX_ITEMS = 32768,
        MAX_PAUSED = 16,                /* in the middle of maps, which are kept open; others begin again */
        MAX_UNFINISHED = 8,             /* how often a half-written header brings a process back */
        BUDGET_ENTRIES = 262144,        /* of pagemap in one go: 1 GiB of addresses, about 3 ms */
        BUDGET_READS = 16384,           /* pages in one go: 64 MiB present, about 3 ms */
};

#define PIECE_INTERVAL_NS (20 * NS_PER_MS)      /* between two goes */
#define AGAIN_NS NS_PER_SEC
#define SAME_LOOK_NS (5 * NS_PER_MS)            /* a full search goes on from a quick look this old */
#define COST_FACTOR 100
#define MAX_WAIT_NS (60 * NS_PER_SEC)           /* after it the cost is forgotten too */

typedef struct Item {
        struct Item *previous, *next;
        RingSearch ring;
        uint64_t start_time_ns;
        uint64_t due_ns;                /* UINT64_MAX = idle */
        uint64_t full_after_ns;         /* no full search earlier */
        uint64_t knows_starts_ns;       /* when a quick look has found nothing, just before; 0 = other */
        uint64_t cost_ns;               /* of the full search so far */
        uint32_t tgid;
        uint16_t n_full;                /* full searches still to do */
        uint16_t n_unfinished;
        bool looked;                    /* the quick look is done */
        bool swept;                     /* by the sweep, and no notice since */
        bool in_look;                   /* a quick look goes on */
        bool is_long;                   /* its maps took more than a turn */
        uint64_t told_context, told_stations;   /* what was handed on */
} Item;

struct Search {
        Hashmap map;                    /* tgid → Item */
        Item *first, *last;
        bool started;                   /* the first quick pass is over */
        size_t *text_leftp;
        unsigned n_paused;
};

int search_new(Search **searchp) {
        *searchp = calloc(1, sizeof(**searchp));
        return *searchp ? 0 : error_origin(-ENOMEM);
}

Search *search_free(Search *search) {
        if (!search)
                return NULL;
        for (Item *item = search->first, *next; item; item = next) {
                next = item->next;
                ring_search_stop(&item->ring);
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
        list_remove(search, item);
        free(item);
}

void search_remove(Search *search, uint32_t tgid) {
        Item *item = hashmap_get(&search->map, tgid);

        if (item)
                drop(search, item);
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

int search_add(Search *search, uint32_t tgid, uint64_t start_time_ns, uint64_t now_ns) {
        Item *item = hashmap_get(&search->map, tgid);
        int r;

        if (item && item->start_time_ns != start_time_ns) {
                drop(search, item);
                item = NULL;
        }
        if (!item) {
                if (search->map.n_entries >= MAX_ITEMS) {
                        stat_add(COUNTER_RING_SCANS_SKIPPED, 1);
                        return 0;
                }
                r = add_item(search, tgid, &item);
                if (r)
                        return r;
        }
        stop_maps(search, item);
        item->start_time_ns = start_time_ns;
        item->due_ns = now_ns;
        item->looked = false;
        item->n_unfinished = 0;
        item->told_context = item->told_stations = 0;
        item->swept = false;
        item->n_full = search->started ? 2 : 1;
        return 0;
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

/* When the item comes up next, after a full search that found nothing. */
static void plan(Item *item, int outcome, uint64_t now_ns) {
        uint64_t wait_ns = MIN(item->cost_ns * COST_FACTOR, MAX_WAIT_NS);

        item->full_after_ns = now_ns + MAX(wait_ns, AGAIN_NS);
        item->cost_ns = 0;
        item->n_full -= item->n_full > 0;
        if (outcome == RING_E_UNFINISHED && item->n_unfinished < MAX_UNFINISHED) {
                item->n_unfinished++;
                item->n_full = MAX(item->n_full, 1);
        }
        item->due_ns = item->n_full ? item->full_after_ns : UINT64_MAX;
}

/* Who was interrupted in the middle of maps goes on there; too many of them do not. */
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

/* One call of ring_find() and what follows from it; the item may be dropped. */
static int step(Search *search, Item *item, bool quick, RingBudget *budget, SearchFound found,
                void *userdata) {
        uint64_t before_ns = clock_monotonic_ns(), start_time_ns = item->start_time_ns, now_ns;
        SearchFinding finding = { .is_swept = item->swept };
        uint32_t tgid = item->tgid;
        int r;

        item->ring.knows_starts = item->knows_starts_ns && before_ns - item->knows_starts_ns < SAME_LOOK_NS;
        budget->text_leftp = search->started ? search->text_leftp : NULL;
        search->n_paused -= item->ring.paused != NULL;
        r = ring_find((pid_t)tgid, start_time_ns, quick, &item->ring, budget, &finding.ring_address,
                      &finding.ring_capacity);
        keep_maps(search, item);
        now_ns = clock_monotonic_ns();
        finding.context_address = item->ring.context_address;
        finding.stations_address = item->ring.stations_address;
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
        } else {
                item->cost_ns += now_ns - before_ns;
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
        return item->due_ns == UINT64_MAX && item->full_after_ns + MAX_WAIT_NS <= now_ns;
}

int search_work(Search *search, uint64_t now_ns, SearchFound found, void *userdata, uint64_t *next_nsp) {
        RingBudget budget = { .n_entries = BUDGET_ENTRIES, .n_reads = BUDGET_READS };
        uint64_t next_ns = UINT64_MAX;
        int r;

        r = search_quick(search, now_ns, found, userdata);
        if (r)
                return r;
        for (Item *item = search->first, *next; item; item = next) {
                next = item->next;
                if (item->due_ns > now_ns || !budget.n_entries || !budget.n_reads ||
                    has_to_wait(search, item))
                        continue;
                r = step(search, item, item->in_look, &budget, found, userdata);
                if (r)
                        return r;
        }
        for (Item *item = search->first, *next; item; item = next) {
                next = item->next;
                if (is_forgotten(item, now_ns))
                        drop(search, item);
                else
                        next_ns = MIN(next_ns,
                                      item->due_ns <= now_ns ? now_ns + PIECE_INTERVAL_NS : item->due_ns);
        }
        *next_nsp = next_ns;
        return 0;
}
