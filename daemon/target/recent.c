/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The ring, with positions that only grow (the place in memory is position % size):
 *
 *     tail                                              head
 *      │ exec 812 │ map 812 │ exec 815 │ map 812 │ map 815 │
 *           ↑─────────┘↑──────────────────┘
 *
 * Each item knows the position before it of the same process; a position below
 * tail is gone. No item lies over the end: what is left there is filled.
 */
#include "target/recent.h"

#include <errno.h>
#include <string.h>

#include "util/clock.h"
#include "util/error.h"
#include "util/hashmap.h"
#include "util/stat.h"

enum {
        MAX_VISITED = 512,              /* mappings of one program; the later ones are left out */
};

typedef enum ItemKind {
        ITEM_MAPPING,
        ITEM_EXEC,
        ITEM_FORK,
} ItemKind;

#define EXEC_NS (10 * NS_PER_MS)                /* from a program's new name to the record of its exec */

typedef struct Item {
        uint64_t previous;              /* position of the same process' item before, + 1; 0 = none */
        uint64_t time_ns;
        uint32_t size;                  /* of the item with what follows, a multiple of 8 */
        uint32_t pid;                   /* 0 = filled up to the end */
        uint32_t parent;                /* FORK only */
        ItemKind kind;
} Item;                                 /* MAPPING: its notice follows, then the notice's path; EXEC: the comm */

struct Recent {
        Hashmap newest;                 /* pid → position of its newest item, + 1 */
        uint64_t head, tail;
        size_t size;
        char bytes[] __attribute__((aligned(8)));
};

int recent_new(Recent **recentp, size_t size) {
        Recent *recent = calloc(1, sizeof(*recent) + size);

        if (!recent)
                return error_origin(-ENOMEM);
        recent->size = size;
        *recentp = recent;
        return 0;
}

Recent *recent_free(Recent *recent) {
        if (!recent)
                return NULL;
        hashmap_deinit(&recent->newest);
        free(recent);
        return NULL;
}

static Item *item_at(const Recent *recent, uint64_t position) {
        return (Item *)(recent->bytes + position % recent->size);
}

static uint64_t newest_of(const Recent *recent, uint32_t pid) {
        return (uint64_t)(uintptr_t)hashmap_get(&recent->newest, pid);
}

/* What is left at the end may be shorter than an item: then it is not even marked. */
static void drop_oldest(Recent *recent, uint64_t now_ns) {
        uint64_t left = recent->size - recent->tail % recent->size;
        const Item *item = item_at(recent, recent->tail);

        if (left < sizeof(*item) || !item->pid) {
                recent->tail += left;
                return;
        }
        if (newest_of(recent, item->pid) == recent->tail + 1)
                hashmap_remove(&recent->newest, item->pid);
        if (item->time_ns + RECENT_KEEP_NS > now_ns)
                stat_add(COUNTER_MAPPINGS_NOTICES_EVICTED, 1);
        recent->tail += item->size;
}

static void make_room(Recent *recent, size_t size, uint64_t now_ns) {
        while (recent->head - recent->tail + size > recent->size)
                drop_oldest(recent, now_ns);
}

/* Room for an item of @size bytes in one piece. */
static Item *reserve(Recent *recent, size_t size, uint64_t now_ns) {
        uint64_t left = recent->size - recent->head % recent->size;

        if (left < size) {
                make_room(recent, left, now_ns);
                if (left >= sizeof(Item))
                        item_at(recent, recent->head)->pid = 0;
                recent->head += left;
        }
        make_room(recent, size, now_ns);
        return item_at(recent, recent->head);
}

/* *item with @more bytes behind it. *itemp stays NULL if it was left out. */
static int add(Recent *recent, const Item *from, size_t more, Item **itemp) {
        size_t size = (sizeof(Item) + more + 7) & ~(size_t)7;
        Item *item;
        int r;

        if (size > recent->size / 2 || !from->pid)
                return 0;
        item = reserve(recent, size, from->time_ns);
        *item = *from;
        item->previous = newest_of(recent, from->pid);
        item->size = (uint32_t)size;
        r = hashmap_put(&recent->newest, from->pid, (void *)(uintptr_t)(recent->head + 1));
        if (r)
                return error_fold(r);
        recent->head += size;
        *itemp = item;
        return 0;
}

int recent_add_exec(Recent *recent, uint32_t pid, const char comm[ABI_COMM_SIZE], uint64_t time_ns) {
        Item *item = NULL;
        int r = add(recent, &(Item){ .pid = pid, .time_ns = time_ns, .kind = ITEM_EXEC }, ABI_COMM_SIZE, &item);

        if (!r && item)
                memcpy(item + 1, comm, ABI_COMM_SIZE);
        return r;
}

int recent_add_fork(Recent *recent, uint32_t pid, uint32_t parent, uint64_t time_ns) {
        Item *item = NULL;

        return add(recent, &(Item){ .pid = pid, .time_ns = time_ns, .parent = parent, .kind = ITEM_FORK }, 0, &item);
}

int recent_add_mapping(Recent *recent, const MappingNotice *notice) {
        const Item from = { .pid = notice->pid, .time_ns = notice->time_ns, .kind = ITEM_MAPPING };
        Item *item = NULL;
        int r = add(recent, &from, sizeof(*notice) + notice->path_size, &item);

        if (r || !item)
                return r;
        memcpy(item + 1, notice, sizeof(*notice));
        if (notice->path_size)
                memcpy((char *)(item + 1) + sizeof(*notice), notice->path, notice->path_size);
        return 0;
}

/*
 * From the newest back to the exec or fork that was in force. A process that has run another program since then has
 * its notices in front: each exec that is too late begins anew. *beginp: that exec or fork.
 */
static int collect(const Recent *recent, uint32_t pid, uint64_t since_ns, uint64_t time_ns, const Item **items,
                   size_t *np, const Item **beginp) {
        uint64_t next = newest_of(recent, pid);
        bool replaced = false;
        size_t n = 0;

        while (next && next - 1 >= recent->tail) {
                const Item *item = item_at(recent, next - 1);

                next = item->previous;
                if (item->kind == ITEM_MAPPING) {
                        items[n++ % MAX_VISITED] = item;
                        continue;
                }
                if (item->time_ns < since_ns)
                        break;
                if (item->time_ns <= time_ns) {
                        *np = n;
                        *beginp = item;
                        return 0;
                }
                replaced = true;
                n = 0;
        }
        return replaced ? RECENT_E_REPLACED : RECENT_E_UNKNOWN;
}

int recent_visit(const Recent *recent, uint32_t pid, uint64_t since_ns, uint64_t time_ns, RecentVisit visit,
                 void *userdata) {
        const Item *items[MAX_VISITED], *begin;
        size_t n;
        int r = collect(recent, pid, since_ns, time_ns, items, &n, &begin);

        for (size_t i = 0; i < MIN(n, (size_t)MAX_VISITED) && !r; i++) {
                const Item *item = items[(n - 1 - i) % MAX_VISITED];
                MappingNotice notice;

                memcpy(&notice, item + 1, sizeof(notice));
                notice.path = (const char *)(item + 1) + sizeof(notice);
                r = visit(userdata, &notice);
        }
        return r;
}

int recent_find_origin(const Recent *recent, uint32_t pid, uint64_t since_ns, uint64_t time_ns, RecentOrigin *originp) {
        const Item *items[MAX_VISITED], *begin;
        size_t n;
        int r = collect(recent, pid, since_ns, time_ns, items, &n, &begin);

        if (r)
                return r;
        *originp = (RecentOrigin){ .parent = begin->parent, .time_ns = begin->time_ns };
        if (begin->kind == ITEM_EXEC)
                memcpy(originp->comm, begin + 1, ABI_COMM_SIZE);
        return 0;
}

uint64_t recent_exec_under_way(const Recent *recent, uint32_t pid, const char comm[ABI_COMM_SIZE], uint64_t time_ns) {
        uint64_t next = newest_of(recent, pid), exec_ns = time_ns;

        while (next && next - 1 >= recent->tail) {
                const Item *item = item_at(recent, next - 1);

                if (item->time_ns <= time_ns)
                        break;
                if (item->kind == ITEM_EXEC && item->time_ns <= time_ns + EXEC_NS &&
                    !strncmp((const char *)(item + 1), comm, ABI_COMM_SIZE))
                        exec_ns = item->time_ns;
                next = item->previous;
        }
        return exec_ns;
}

uint32_t recent_parent(const Recent *recent, uint32_t pid) {
        uint64_t next = newest_of(recent, pid);

        while (next && next - 1 >= recent->tail) {
                const Item *item = item_at(recent, next - 1);

                if (item->kind == ITEM_FORK)
                        return item->parent;
                next = item->previous;
        }
        return 0;
}
