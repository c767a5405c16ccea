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
 *
 * The notices also make the identity of an ended process: the first mapped file is its executable, and the
 * nearest ancestor that lives lends the rest.
 */
#include "host/sampling/discover/notice-history.h"

#include <errno.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "host/sampling/process/process.h"

enum {
        /* mappings of one program; later ones are left out: stacks end in them, which has counters */
        MAX_VISITED = 512,
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
        uint32_t size;                  /* bytes of the item with its payload, a multiple of 8 */
        uint32_t pid;                   /* 0 = filled up to the end */
        uint32_t parent;                /* FORK only */
        ItemKind kind;
} Item; /* MAPPING: its notice follows, then the notice's path; EXEC: the comm */

struct NoticeHistory {
        Hashmap newest;                 /* pid → position of its newest item, + 1 */
        uint64_t head, tail;
        uint64_t lost_ns;               /* when the kernel last said that it had lost notices; 0 = never */
        size_t size;
        char bytes[] __attribute__((aligned(8)));
};

int notice_history_new(NoticeHistory **historyp, size_t size) {
        NoticeHistory *history = calloc(1, sizeof(*history) + size);

        if (!history)
                return error_origin(-ENOMEM);
        history->size = size;
        *historyp = history;
        return 0;
}

NoticeHistory *notice_history_free(NoticeHistory *history) {
        if (!history)
                return NULL;
        hashmap_deinit(&history->newest);
        free(history);
        return NULL;
}

static Item *item_at(const NoticeHistory *history, uint64_t position) {
        return (Item *)(history->bytes + position % history->size);
}

static uint64_t newest_of(const NoticeHistory *history, uint32_t pid) {
        return (uint64_t)(uintptr_t)hashmap_get(&history->newest, pid);
}

/* The rest at the end may be shorter than an item: then it is not even marked. */
static void drop_oldest(NoticeHistory *history, uint64_t now_ns) {
        uint64_t left = history->size - history->tail % history->size;
        const Item *item = item_at(history, history->tail);

        if (left < sizeof(*item) || !item->pid) {
                history->tail += left;
                return;
        }
        if (newest_of(history, item->pid) == history->tail + 1)
                hashmap_remove(&history->newest, item->pid);
        if (item->time_ns + NOTICE_HISTORY_KEEP_NS > now_ns)
                stat_add(COUNTER_MAPPINGS_NOTICES_EVICTED, 1);
        history->tail += item->size;
}

static void make_room(NoticeHistory *history, size_t size, uint64_t now_ns) {
        while (history->head - history->tail + size > history->size)
                drop_oldest(history, now_ns);
}

/* Room for an item of @size bytes in one piece. */
static Item *reserve(NoticeHistory *history, size_t size, uint64_t now_ns) {
        uint64_t left = history->size - history->head % history->size;

        if (left < size) {
                make_room(history, left, now_ns);
                if (left >= sizeof(Item))
                        item_at(history, history->head)->pid = 0;
                history->head += left;
        }
        make_room(history, size, now_ns);
        return item_at(history, history->head);
}

/* *item with @more bytes behind it. *itemp stays NULL if it was left out. */
static int add(NoticeHistory *history, const Item *from, size_t more, Item **itemp) {
        size_t size = (sizeof(Item) + more + 7) & ~(size_t)7;
        Item *item;
        int r;

        if (size > history->size / 2 || !from->pid)
                return 0;
        item = reserve(history, size, from->time_ns);
        *item = *from;
        item->previous = newest_of(history, from->pid);
        item->size = (uint32_t)size;
        r = hashmap_put(&history->newest, from->pid, (void *)(uintptr_t)(history->head + 1));
        if (r)
                return error_fold(r);
        history->head += size;
        *itemp = item;
        return 0;
}

int notice_history_add_exec(NoticeHistory *history, uint32_t pid, const char comm[ABI_COMM_SIZE],
                            uint64_t time_ns) {
        Item *item = NULL;
        int r = add(history, &(Item){ .pid = pid, .time_ns = time_ns, .kind = ITEM_EXEC }, ABI_COMM_SIZE,
                    &item);

        if (!r && item)
                memcpy(item + 1, comm, ABI_COMM_SIZE);
        return r;
}

int notice_history_add_fork(NoticeHistory *history, uint32_t pid, uint32_t parent, uint64_t time_ns) {
        Item *item = NULL;

        return add(history, &(Item){ .pid = pid, .time_ns = time_ns, .parent = parent, .kind = ITEM_FORK }, 0,
                   &item);
}

int notice_history_add_mapping(NoticeHistory *history, const MappingNotice *notice) {
        const Item from = { .pid = notice->pid, .time_ns = notice->time_ns, .kind = ITEM_MAPPING };
        Item *item = NULL;
        int r = add(history, &from, sizeof(*notice) + notice->path_size, &item);

        if (r || !item)
                return r;
        memcpy(item + 1, notice, sizeof(*notice));
        if (notice->path_size)
                memcpy((char *)(item + 1) + sizeof(*notice), notice->path, notice->path_size);
        return 0;
}

/*
 * From the newest back to the exec or fork that was in force. A process that has run another program since
 * then has its notices in front: each exec that is too late begins again. *beginp: that exec or fork.
 */
static int collect(const NoticeHistory *history, uint32_t pid, uint64_t since_ns, uint64_t time_ns,
                   const Item **items, size_t *np, const Item **beginp) {
        uint64_t next = newest_of(history, pid);
        bool replaced = false;
        size_t n = 0;

        while (next && next - 1 >= history->tail) {
                const Item *item = item_at(history, next - 1);

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
        return replaced ? NOTICE_HISTORY_E_REPLACED : NOTICE_HISTORY_E_UNKNOWN;
}

int notice_history_visit(const NoticeHistory *history, uint32_t pid, uint64_t since_ns, uint64_t time_ns,
                         NoticeHistoryVisit visit, void *userdata) {
        const Item *items[MAX_VISITED], *begin;
        size_t n;
        int r = collect(history, pid, since_ns, time_ns, items, &n, &begin);

        for (size_t i = 0; i < MIN(n, (size_t)MAX_VISITED) && !r; i++) {
                const Item *item = items[(n - 1 - i) % MAX_VISITED];
                MappingNotice notice;

                memcpy(&notice, item + 1, sizeof(notice));
                notice.path = (const char *)(item + 1) + sizeof(notice);
                r = visit(userdata, &notice);
        }
        return r;
}

int notice_history_find_origin(const NoticeHistory *history, uint32_t pid, uint64_t since_ns,
                               uint64_t time_ns, NoticeHistoryOrigin *originp) {
        const Item *items[MAX_VISITED], *begin;
        size_t n;
        int r = collect(history, pid, since_ns, time_ns, items, &n, &begin);

        if (r)
                return r;
        *originp = (NoticeHistoryOrigin){ .parent = begin->parent,
                                          .time_ns = begin->time_ns,
                                          .may_lack = begin->time_ns <= history->lost_ns };
        if (begin->kind == ITEM_EXEC)
                memcpy(originp->comm, begin + 1, ABI_COMM_SIZE);
        return 0;
}

void notice_history_lose(NoticeHistory *history, uint64_t now_ns) {
        history->lost_ns = now_ns;
}

int notice_history_find_whole(const NoticeHistory *history, uint32_t pid, uint64_t since_ns,
                              uint64_t *exec_nsp) {
        const Item *items[MAX_VISITED], *begin;
        size_t n;
        int r = collect(history, pid, since_ns, UINT64_MAX, items, &n, &begin);

        if (r)
                return r;
        if (begin->kind != ITEM_EXEC || begin->time_ns <= history->lost_ns || n > MAX_VISITED)
                return NOTICE_HISTORY_E_UNKNOWN;
        *exec_nsp = begin->time_ns;
        return 0;
}

uint64_t notice_history_exec_under_way(const NoticeHistory *history, uint32_t pid,
                                       const char comm[ABI_COMM_SIZE], uint64_t time_ns) {
        uint64_t next = newest_of(history, pid), exec_ns = time_ns;

        while (next && next - 1 >= history->tail) {
                const Item *item = item_at(history, next - 1);

                if (item->time_ns <= time_ns)
                        break;
                if (item->kind == ITEM_EXEC && item->time_ns <= time_ns + EXEC_NS &&
                    !strncmp((const char *)(item + 1), comm, ABI_COMM_SIZE))
                        exec_ns = item->time_ns;
                next = item->previous;
        }
        return exec_ns;
}

uint64_t notice_history_next_exec(const NoticeHistory *history, uint32_t pid, uint64_t time_ns) {
        uint64_t next = newest_of(history, pid), exec_ns = 0;

        while (next && next - 1 >= history->tail) {
                const Item *item = item_at(history, next - 1);

                if (item->time_ns <= time_ns || item->kind == ITEM_FORK)
                        break;
                if (item->kind == ITEM_EXEC)
                        exec_ns = item->time_ns;
                next = item->previous;
        }
        return exec_ns;
}

uint32_t notice_history_parent(const NoticeHistory *history, uint32_t pid) {
        uint64_t next = newest_of(history, pid);

        while (next && next - 1 >= history->tail) {
                const Item *item = item_at(history, next - 1);

                if (item->kind == ITEM_FORK)
                        return item->parent;
                next = item->previous;
        }
        return 0;
}

/* ---- the identity of an ended process ---- */

/* The first file that a program maps is its executable. */
static int take_executable(void *userdata, const MappingNotice *notice) {
        Identity *identity = userdata;

        if (identity->exe || !notice->path_size || notice->path[0] != '/')
                return 0;
        identity->exe = strndup(notice->path, notice->path_size);
        return identity->exe ? 0 : error_origin(-ENOMEM);
}

/* Opens an ancestor. A process that began after @time_ns only has the id of one that is gone. */
static int open_ancestor(uint32_t tgid, uint64_t time_ns, int *fdp) {
        char comm[ABI_COMM_SIZE];
        ProcessStat stat;
        int r = process_identify((pid_t)tgid, &stat, comm);

        if (!r && process_begin_ns(stat.start_time_ns) > time_ns)
                r = PROCESS_E_GONE;
        return r ? r : process_open_living((pid_t)tgid, stat.start_time_ns, fdp, NULL);
}

/* Reads the identity of the nearest living ancestor. @time_ns: @tgid itself was there then. */
static int identity_of_ancestor(const NoticeHistory *history, uint32_t tgid, uint64_t time_ns, unsigned what,
                                Identity **identityp) {
        for (unsigned i = 0; i < NOTICE_HISTORY_DEPTH && tgid; i++) {
                _cleanup_(closep) int fd = -1;

                tgid = notice_history_parent(history, tgid);
                if (tgid && open_ancestor(tgid, time_ns, &fd) == 0)
                        return identity_new(identityp, fd, what);
        }
        return 0;
}

int notice_history_executable(const NoticeHistory *history, uint32_t tgid, uint64_t time_ns,
                              Identity *identity) {
        NoticeHistoryOrigin origin;

        if (!history || notice_history_find_origin(history, tgid, 0, time_ns, &origin) || origin.parent)
                return 0;
        return MIN(notice_history_visit(history, tgid, 0, time_ns, take_executable, identity), 0);
}

int notice_history_identity(const NoticeHistory *history, uint32_t tgid, unsigned what,
                            Identity **identityp) {
        _cleanup_(identity_freep) Identity *identity = NULL;
        unsigned inherited = what;
        NoticeHistoryOrigin origin;
        int r;

        if (!history || notice_history_find_origin(history, tgid, 0, UINT64_MAX, &origin))
                return 0;
        /* an exec gives another executable and another environment than the parent's */
        if (!origin.parent)
                inherited &= ~(unsigned)(IDENTITY_EXE | IDENTITY_ENVIRONMENT);
        r = identity_of_ancestor(history, tgid, origin.time_ns, inherited, &identity);
        if (!r && identity && !origin.parent && what & IDENTITY_EXE)
                r = notice_history_executable(history, tgid, UINT64_MAX, identity);
        if (!r && identity && (identity->exe || !(what & IDENTITY_EXE)))
                *identityp = take(identity);
        return MIN(r, 0);
}
