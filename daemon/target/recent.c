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

#include "util/error.h"
#include "util/hashmap.h"
#include "util/stat.h"

enum {
        MAX_VISITED = 512,              /* mappings of one program; the later ones are left out */
};

typedef struct Item {
        uint64_t previous;              /* position of the same process' item before, + 1; 0 = none */
        uint64_t time_ns;
        uint32_t size;                  /* of the item with its path, a multiple of 8 */
        uint32_t pid;                   /* 0 = filled up to the end */
        bool is_exec;
        MappingNotice notice;           /* its path follows the item */
} Item;

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

/* A filler is shorter than an item: it may have room for its size alone, at the end. */
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

static int add(Recent *recent, const MappingNotice *notice, bool is_exec) {
        size_t size = (sizeof(Item) + notice->path_size + 7) & ~(size_t)7;
        Item *item;
        int r;

        if (size > recent->size / 2 || !notice->pid)
                return 0;
        item = reserve(recent, size, notice->time_ns);
        *item = (Item){ .previous = newest_of(recent, notice->pid), .time_ns = notice->time_ns, .size = (uint32_t)size,
                        .pid = notice->pid, .is_exec = is_exec, .notice = *notice };
        if (notice->path_size)
                memcpy(item + 1, notice->path, notice->path_size);
        r = hashmap_put(&recent->newest, notice->pid, (void *)(uintptr_t)(recent->head + 1));
        if (r)
                return error_fold(r);
        recent->head += size;
        return 0;
}

int recent_add_exec(Recent *recent, uint32_t pid, uint64_t time_ns) {
        return add(recent, &(MappingNotice){ .pid = pid, .time_ns = time_ns }, true);
}

int recent_add_mapping(Recent *recent, const MappingNotice *notice) {
        return add(recent, notice, false);
}

/*
 * From the newest back to the exec that was in force. A process that has run another program since then has its
 * notices in front: each exec that is too late begins anew.
 */
static int collect(const Recent *recent, uint32_t pid, uint64_t since_ns, uint64_t time_ns, const Item **items,
                   size_t *np) {
        uint64_t next = newest_of(recent, pid);
        size_t n = 0;

        while (next && next - 1 >= recent->tail) {
                const Item *item = item_at(recent, next - 1);

                next = item->previous;
                if (!item->is_exec) {
                        items[n++ % MAX_VISITED] = item;
                        continue;
                }
                if (item->time_ns < since_ns)
                        return RECENT_E_UNKNOWN;
                if (item->time_ns <= time_ns) {
                        *np = n;
                        return 0;
                }
                n = 0;
        }
        return RECENT_E_UNKNOWN;
}

int recent_visit(const Recent *recent, uint32_t pid, uint64_t since_ns, uint64_t time_ns, RecentVisit visit,
                 void *userdata) {
        const Item *items[MAX_VISITED];
        size_t n;
        int r = collect(recent, pid, since_ns, time_ns, items, &n);

        for (size_t i = 0; i < MIN(n, (size_t)MAX_VISITED) && !r; i++) {
                const Item *item = items[(n - 1 - i) % MAX_VISITED];
                MappingNotice notice = item->notice;

                notice.path = (const char *)(item + 1);
                r = visit(userdata, &notice);
        }
        return r;
}
