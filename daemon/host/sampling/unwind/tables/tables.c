/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Order is what keeps a walk right while tables come and go:
 *
 *     come   table filled → in the array (helper thread) → node names its slot
 *     go     node replaced or removed → out of the array, which waits until no
 *            program holds the old node → descriptor closed → slot free
 *
 * Each set of nodes has a generation that is never used again; a walk compares it
 * at its start and end (bpf/sampler.bpf.c).
 */

#include "host/sampling/unwind/tables/tables.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/shares.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "core/symbol/object/object-file.h"
#include "host/sampling/unwind/tables/bpfmap.h"
#include "host/sampling/unwind/tables/nodes.h"
#include "host/sampling/unwind/tables/pool.h"

enum {
        DEFAULT_MAX_IDLE_BYTES = 8 << 20,
        PF_EXECUTE = 1,
        CHARGES_A_TIME = 256,           /* processes whose share is read at once; 50 µs each */
        /* an area of made code may begin and end amid a mapping */
        MAX_MAPPINGS = PROCESS_MAX_MAPPINGS + 2 * MADE_MAX_PIECES,
};

#define ROOM_RETRY_NS NS_PER_SEC        /* a process whose nodes had no room */

typedef struct UserMapping {
        uint64_t start, end;            /* addresses in the target */
        uint64_t address;               /* ELF address of `start`; meaningful with a table */
        PoolTable *table;               /* in use; NULL = none */
        bool is_made;                   /* memory without a file, with a table or not */
} UserMapping;

/* A process, in the state that the kernel knows. */
typedef struct User {
        uint32_t pid;
        uint32_t n_nodes;               /* nodes in the kernel, of its space */
        uint64_t space;                 /* generation of the program */
        uint64_t maps_serial;
        uint64_t changes;               /* the pool's count of changes when its nodes were written */
        UserMapping *mappings;
        uint32_t n_mappings;
        ShareOwner owner;               /* read with its first new table; `group` 0 = not yet */
        Share *share;                   /* holder of the nodes; NULL = not counted (yet) */
        uint32_t n_charged;             /* nodes that are counted */
        uint64_t refused_ns;            /* MONOTONIC time when its nodes had no room; 0 = they have */
        uint32_t n_left_out;            /* mappings that were counted as left out of the nodes */
} User;

struct Tables {
        TablesConfig config;
        Pool *pool;
        Hashmap users;                  /* pid → User */
        uint64_t generation;            /* the last one given */
        uint64_t changes;               /* the pool's count of changes when all users were looked at */
        Shares shares;                  /* nodes by holder, once they were too many */
        bool has_shares;
        Nodes nodes;                    /* scratch, like the next */
        struct unwind_mapping mappings[MAX_MAPPINGS];
};

static void release_mappings(Tables *tables, UserMapping *mappings, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                if (mappings[i].table)
                        pool_unuse(tables->pool, mappings[i].table);
        free(mappings);
}

/* Makes void what CPUs have read of nodes before. */
static void nodes_changed(const Tables *tables) {
        if (tables->config.versionp)
                __atomic_fetch_add(tables->config.versionp, 1, __ATOMIC_RELEASE);
}

static void remove_node(Tables *tables, const User *user, uint32_t leaf) {
        const struct unwind_node_key key = unwind_node_key(user->space, leaf);

        bpfmap_delete(tables->config.nodes_fd, &key);
}

/* Counts @n nodes for the share of a process. Return: 0, -ENOMEM. */
static int charge(Tables *tables, User *user, uint32_t n) {
        Share *before = take(user->share);
        int r = n ? shares_hold(&tables->shares, &user->owner, n, &user->share) : 0;

        if (before)
                share_release(&tables->shares, before, user->n_charged);
        user->n_charged = r ? 0 : n;
        return r;
}

/* Removes the root first: leaves that no root names are not looked up. */
static void remove_nodes(Tables *tables, User *user) {
        for (uint32_t i = 0; i < user->n_nodes; i++)
                remove_node(tables, user, i);
        user->n_nodes = 0;
        charge(tables, user, 0);
        nodes_changed(tables);
}

static void free_user(Tables *tables, User *user) {
        remove_nodes(tables, user);
        release_mappings(tables, user->mappings, user->n_mappings);
        hashmap_remove(&tables->users, user->pid);
        free(user);
}

Tables *tables_free(Tables *tables) {
        HashmapEntry *entry;
        uint32_t at = 0;

        if (!tables)
                return NULL;
        while (tables->pool && (entry = hashmap_next(&tables->users, &at))) {
                User *user = entry->value;

                remove_nodes(tables, user);
                release_mappings(tables, user->mappings, user->n_mappings);
                free(user);
        }
        hashmap_deinit(&tables->users);
        shares_deinit(&tables->shares);
        pool_free(tables->pool);
        free(tables);
        return NULL;
}

int tables_new(Tables **tablesp, const TablesConfig *config) {
        _cleanup_(tables_freep) Tables *tables = calloc(1, sizeof(*tables));
        PoolConfig pool = {
                .array_fd = config->array_fd,
                .n_slots = UNWIND_MAX_TABLES,
                .max_bytes = config->max_bytes ?: TABLES_MAX_BYTES,
                .max_idle_bytes = config->max_idle_bytes ?: DEFAULT_MAX_IDLE_BYTES,
                .max_idle_waiting = config->max_idle_waiting,
                .zygotes = config->zygotes,
                .cache = config->cache,
        };
        int r;

        if (!tables)
                return error_origin(-ENOMEM);
        tables->config = *config;
        r = pool_new(&tables->pool, &pool);
        if (r)
                return error_fold(r);
        *tablesp = take(tables);
        return 0;
}

void tables_hold(Tables *tables, bool holds) {
        pool_hold(tables->pool, holds);
}

bool tables_find_address(const Object *object, uint64_t offset, uint64_t *addressp) {
        for (uint32_t i = 0; i < object->n_segments; i++) {
                const Segment *segment = &object->segments[i];
                uint64_t first = segment->offset & ~(uint64_t)(UNWIND_PAGE_SIZE - 1);

                if (!(segment->flags & PF_EXECUTE) || offset < first ||
                    offset - first >= segment->file_size + (segment->offset - first))
                        continue;
                *addressp = segment->address + (offset - segment->offset);
                return true;
        }
        return false;
}

/* The file of a mapping, for a worker; -1 = it cannot be opened. @owner: filled if it is not known yet. */
static int open_file(const Process *process, const Mapping *mapping, ShareOwner *owner) {
        const ObjectFile file = object_file(mapping->object);
        _cleanup_(closep) int proc_fd = -1;
        int fd = -1, r;

        if (process_open_living((pid_t)process->pid, process->start_time_ns, &proc_fd, NULL))
                proc_fd = -1;
        if (!owner->group)
                *owner = identity_owner(proc_fd, process->pid);
        if (proc_fd >= 0)
                r = object_file_open(&file, proc_fd, mapping->start, mapping->end, mapping->path, &fd);
        else    /* a short program: its file may be there still, where the daemon sees it, too */
                r = mapping->path ? object_file_open_here(&file, mapping->path, &fd) : -1;
        return r ? -1 : fd;
}

static int open_table(Tables *tables, const Process *process, const Mapping *mapping, ShareOwner *owner,
                      PoolTable **tablep) {
        uint64_t id = mapping->object->id;
        int fd;

        *tablep = pool_find(tables->pool, id);
        if (*tablep && !(*tablep)->is_unopened)
                return 0;
        if (mapping->kind == MAPPING_VDSO)
                return pool_add_image(tables->pool, id, (const void *)getauxval(AT_SYSINFO_EHDR),
                                      mapping->end - mapping->start, tablep);
        fd = open_file(process, mapping, owner);
        if (!*tablep)
                return pool_add_file(tables->pool, id, fd, owner, tablep);
        return pool_retry(tables->pool, *tablep, fd, owner);
}

static int read_mapping(Tables *tables, const Process *process, const Mapping *mapping, ShareOwner *owner,
                        UserMapping *to) {
        int r;

        *to = (UserMapping){ .start = mapping->start, .end = mapping->end };
        if (!mapping->object || (mapping->kind != MAPPING_FILE && mapping->kind != MAPPING_VDSO) ||
            !tables_find_address(mapping->object, mapping->offset, &to->address))
                return 0;
        r = open_table(tables, process, mapping, owner, &to->table);
        if (r)
                return error_fold(r);
        pool_use(tables->pool, to->table);
        return 0;
}

/* Splits memory without a file by the areas in it that have rows. *np: mappings so far. */
static void read_made(Tables *tables, const Process *process, const Mapping *mapping, UserMapping *to,
                      uint32_t *np) {
        const MadePiece *piece = made_areas_next(process->made, mapping->start, UINT64_MAX);
        uint64_t at = mapping->start;

        while (at < mapping->end) {
                UserMapping *next = &to[*np];

                *next = (UserMapping){ .start = at, .end = mapping->end, .address = at, .is_made = true };
                if (piece && piece->start > at) {
                        next->end = MIN(mapping->end, piece->start);
                } else if (piece) {
                        next->end = MIN(mapping->end, piece->end);
                        next->table = pool_find(tables->pool, piece->id);
                        piece = made_areas_next(process->made, piece->end, UINT64_MAX);
                }
                if (next->table)
                        pool_use(tables->pool, next->table);
                at = next->end;
                ++*np;
        }
}

int tables_add_made(Tables *tables, const Process *process, uint64_t id, int fd) {
        const ShareOwner owner = identity_owner_of((pid_t)process->pid, process->start_time_ns);
        PoolTable *table = pool_find(tables->pool, id);

        if (!table)
                return pool_add_file(tables->pool, id, fd, &owner, &table);
        if (pool_is_wanted(tables->pool, table, &owner, clock_monotonic_ns()))
                return pool_retry(tables->pool, table, fd, &owner);
        close(fd);
        return 0;
}

static int get_user(Tables *tables, const Process *process, User **userp) {
        User *user = hashmap_get(&tables->users, process->pid);
        uint32_t pid = process->pid;
        int r;

        if (user && user->space != process->generation) {
                free_user(tables, user);
                user = NULL;
        }
        if (!user) {
                user = calloc(1, sizeof(*user));
                if (!user)
                        return error_origin(-ENOMEM);
                user->pid = pid;
                user->space = process->generation;
                r = hashmap_put(&tables->users, pid, user);
                if (r) {
                        free(user);
                        return error_fold(r);
                }
        }
        *userp = user;
        return 0;
}

/* Number of pages of a mapping that its table covers. */
static uint32_t covered_pages(const UserMapping *mapping) {
        uint64_t size = MIN(mapping->end - mapping->start, mapping->table->text_high - mapping->address);

        return (uint32_t)(size >> UNWIND_PAGE_SHIFT);
}

/* Value in place of a slot. Where made code's rows are lost, its frames may be proved. */
static uint32_t no_slot(const PoolTable *table, bool is_made) {
        if (table && (table->state == POOL_WAITING || table->state == POOL_PUBLISHING))
                return UNWIND_PENDING_TABLE;
        return table && table->is_lost && !is_made ? UNWIND_LOST_TABLE : UNWIND_NO_TABLE;
}

static struct unwind_mapping kernel_mapping(const UserMapping *mapping) {
        struct unwind_mapping made = {
                .start = mapping->start,
                .n_pages = (uint32_t)MIN((mapping->end - mapping->start) >> UNWIND_PAGE_SHIFT,
                                         (uint64_t)UINT32_MAX),
                .table = no_slot(mapping->table, mapping->is_made),
                .offset = mapping->is_made || !mapping->table ? UNWIND_MADE : 0,
        };
        const PoolTable *table = mapping->table;

        if (table && table->state == POOL_READY && mapping->address >= table->text_low &&
            mapping->address < table->text_high) {
                made.n_pages = covered_pages(mapping);
                made.table = table->slot;
                made.offset |= mapping->address - table->text_low;
        }
        return made;
}

/* Writes leaves first, so that a root never names one that is not there. Return: 0, -errno. */
static int write_nodes(Tables *tables, User *user) {
        Nodes *nodes = &tables->nodes;
        int r = 0;

        for (uint32_t i = nodes->n; i-- > 0 && !r;) {
                const struct unwind_node_key key = unwind_node_key(user->space, i);

                r = bpfmap_update(tables->config.nodes_fd, &key, &nodes->nodes[i]);
        }
        return r;
}

/* ---- shares of nodes ---- */

static void read_owner(User *user) {
        if (!user->owner.group)
                user->owner = identity_owner_of((pid_t)user->pid, 0);
}

/* Counts nodes that were written while there was room for all. */
static void charge_others(Tables *tables) {
        HashmapEntry *entry;
        uint32_t at = 0, n = 0;

        while (n < CHARGES_A_TIME && (entry = hashmap_next(&tables->users, &at))) {
                User *user = entry->value;

                if (user->share || !user->n_nodes)
                        continue;
                read_owner(user);
                n++;
                if (charge(tables, user, user->n_nodes))
                        return;
        }
}

/* A process is walked without rows, until a later sample finds room for its nodes. */
static void go_without(Tables *tables, User *user) {
        uint64_t now_ns = clock_monotonic_ns();
        bool was_told = user->refused_ns;

        remove_nodes(tables, user);
        user->refused_ns = now_ns;
        if (was_told)
                return;
        stat_add(COUNTER_UNWIND_NODES_OVER_CAP, 1);
        shares_tell(&tables->shares, "processes with mappings of code", &user->owner, now_ns);
}

/* The nodes of the greatest holder give way to those of @asking. Return: whether some did. */
static bool make_room(Tables *tables, User *asking) {
        const Share *victim;
        User *holder;

        tables->has_shares = true;
        read_owner(asking);
        if (charge(tables, asking, tables->nodes.n))
                return false;
        charge_others(tables);
        victim = shares_victim(&tables->shares, asking->share, 0);
        holder = hashmap_get(&tables->users, (uint32_t)share_owner(victim)->process);
        if (!holder || holder == asking || holder->share != victim)
                return false;
        go_without(tables, holder);
        return true;
}

/* Tells the kernel which tables of a process are ready, which are on their way, and where there are none. */
static void publish(Tables *tables, User *user) {
        uint32_t n_before = user->n_nodes, n = user->n_mappings, n_left_out;
        int r;

        user->changes = pool_changes(tables->pool);
        for (uint32_t i = 0; i < n; i++)
                tables->mappings[i] = kernel_mapping(&user->mappings[i]);
        n = nodes_fit(tables->mappings, n, &n_left_out);
        if (n_left_out > user->n_left_out) {            /* once, however often nodes are written */
                stat_add(COUNTER_MAPPINGS_OVER_CAP, n_left_out - user->n_left_out);
                user->n_left_out = n_left_out;
        }
        if (n == 0) {
                remove_nodes(tables, user);
                return;
        }
        nodes_build(&tables->nodes, tables->mappings, n, ++tables->generation);
        user->n_nodes = MAX(tables->nodes.n, n_before);
        do
                r = write_nodes(tables, user);
        while (r == -E2BIG && make_room(tables, user));
        if (r) {
                go_without(tables, user);
                return;
        }
        user->refused_ns = 0;
        nodes_changed(tables);
        for (uint32_t i = tables->nodes.n; i < n_before; i++)
                remove_node(tables, user, i);
        user->n_nodes = tables->nodes.n;
        if (tables->has_shares) {
                read_owner(user);
                charge(tables, user, user->n_nodes);
        }
}

int tables_process(Tables *tables, const Process *process) {
        uint32_t n_before, n = (uint32_t)MIN(process->n_mappings, (size_t)PROCESS_MAX_MAPPINGS), n_read = 0;
        UserMapping *mappings, *before;
        User *user = NULL;
        int r;

        r = get_user(tables, process, &user);
        if (r)
                return error_fold(r);
        if (process->maps_serial && user->maps_serial == process->maps_serial)
                return 0;
        /*
         * [vsyscall] lies in the kernel's half: no walk returns there, and the kernel's search compares by
         * sign.
         */
        while (n > 0 && process->mappings[n - 1].start >> 63)
                n--;
        mappings = calloc(n + 1 + 2 * MADE_MAX_PIECES, sizeof(*mappings));
        if (!mappings)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n && !r; i++)
                if (process->mappings[i].kind == MAPPING_ANONYMOUS)
                        read_made(tables, process, &process->mappings[i], mappings, &n_read);
                else
                        r = read_mapping(tables, process, &process->mappings[i], &user->owner,
                                         &mappings[n_read++]);
        if (r) {
                release_mappings(tables, mappings, n_read);
                return error_fold(r);
        }
        before = user->mappings;
        n_before = user->n_mappings;
        user->mappings = mappings;
        user->n_mappings = n_read;
        user->maps_serial = process->maps_serial;
        publish(tables, user);
        release_mappings(tables, before, n_before);
        return 0;
}

int tables_sampled(Tables *tables, const Process *process, const Mapping *mapping, uint64_t now_ns) {
        User *user = hashmap_get(&tables->users, process->pid);
        PoolTable *table = mapping->object ? pool_find(tables->pool, mapping->object->id) : NULL;

        if (user && user->refused_ns && now_ns >= user->refused_ns + ROOM_RETRY_NS)
                publish(tables, user);
        if (!user || !table || !pool_is_wanted(tables->pool, table, &user->owner, now_ns))
                return 0;
        return pool_retry(tables->pool, table, open_file(process, mapping, &user->owner), &user->owner);
}

void tables_forget(Tables *tables, uint32_t pid) {
        User *user = hashmap_get(&tables->users, pid);

        if (user)
                free_user(tables, user);
}

int tables_fd(const Tables *tables) {
        return pool_fd(tables->pool);
}

static bool has_changed(const User *user) {
        for (uint32_t i = 0; i < user->n_mappings; i++)
                if (user->mappings[i].table && user->mappings[i].table->changed > user->changes)
                        return true;
        return false;
}

static void publish_changes(Tables *tables) {
        HashmapEntry *entry;
        uint32_t at = 0;

        if (tables->changes == pool_changes(tables->pool))
                return;
        tables->changes = pool_changes(tables->pool);
        while ((entry = hashmap_next(&tables->users, &at)))
                if (has_changed(entry->value))
                        publish(tables, entry->value);
}

int tables_step(Tables *tables, uint64_t budget) {
        int r = pool_step(tables->pool, budget);

        if (r < 0)
                return error_fold(r);
        publish_changes(tables);
        pool_free_slots(tables->pool);
        return r == POOL_E_AGAIN ? TABLES_E_AGAIN : 0;
}

bool tables_have_work(const Tables *tables) {
        return tables->changes != pool_changes(tables->pool) || pool_has_requests(tables->pool);
}

uint32_t tables_find_rows(const Tables *tables, uint64_t object_id, TablesRows *rowsp) {
        const PoolTable *table = pool_find(tables->pool, object_id);

        /* The next process that maps the file may live long enough to show it. */
        if (!table || table->state == POOL_WAITING || table->is_unopened)
                return UNWIND_PENDING_TABLE;
        if (table->state != POOL_PUBLISHING && table->state != POOL_READY)
                return no_slot(table, object_id >= MADE_FIRST_ID);
        *rowsp = (TablesRows){ table->map_fd, table->n_bytes, table->text_low, table->text_high };
        return 0;
}

void tables_want(Tables *tables, uint64_t object_id) {
        pool_want(tables->pool, object_id);
}

void tables_progress(const Tables *tables, uint32_t *n_madep, uint32_t *np) {
        pool_progress(tables->pool, n_madep, np);
}

uint64_t tables_changes(const Tables *tables) {
        return pool_changes(tables->pool);
}

static bool is_ready(const User *user) {
        for (uint32_t i = 0; i < user->n_mappings; i++) {
                const PoolTable *table = user->mappings[i].table;

                if (table && table->state != POOL_READY && table->state != POOL_NONE)
                        return false;
        }
        return true;
}

bool tables_is_ready(const Tables *tables, uint32_t pid) {
        const User *user = hashmap_get(&tables->users, pid);

        return user && is_ready(user);
}

bool tables_are_ready(const Tables *tables) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&tables->users, &at)))
                if (!is_ready(entry->value))
                        return false;
        return true;
}

size_t tables_bytes(const Tables *tables) {
        return pool_bytes(tables->pool);
}
