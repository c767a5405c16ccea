/* SPDX-License-Identifier: Apache-2.0 */

/* The loader on maps of the kernel's kind, for this very process: it has libraries enough. */

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "border/unwind_abi.h"
#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/unwind/tables/bpfmap.h"
#include "host/sampling/unwind/tables/pool.h"
#include "host/sampling/unwind/tables/tables.h"
#include "stat-reset.h"
#include "user-child.h"

static int array_fd = -1, nodes_fd = -1;
static ObjectCache *objects;
static Process *process;
static Tables *tables;

static int bpf(int command, union bpf_attr *attr) {
        return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int create(uint32_t type, uint32_t key_size, uint32_t value_size, uint32_t n, uint32_t flags,
                  int inner_fd) {
        union bpf_attr attr;

        memset(&attr, 0, sizeof(attr));
        attr.map_type = type;
        attr.key_size = key_size;
        attr.value_size = value_size;
        attr.max_entries = n;
        attr.map_flags = flags;
        attr.inner_map_fd = (uint32_t)inner_fd;
        return bpf(BPF_MAP_CREATE, &attr);
}

/* As bpf/walk/tables.bpf.h declares them. */
static void create_maps(uint32_t n_nodes) {
        static const uint8_t block[UNWIND_BLOCK_SIZE];
        int inner = bpfmap_create_table(block, sizeof(block));

        if (inner == -EPERM || inner == -EACCES)
                cr_skip_test("root: needs BPF");
        cr_assert_geq(inner, 0);
        array_fd = create(BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, 4, UNWIND_MAX_TABLES, 0, inner);
        nodes_fd = create(BPF_MAP_TYPE_HASH, 8, sizeof(struct unwind_node), n_nodes, BPF_F_NO_PREALLOC, 0);
        close(inner);
        cr_assert_geq(array_fd, 0);
        cr_assert_geq(nodes_fd, 0);
}

static uint64_t version;

static void open_tables(size_t max_bytes, size_t max_idle_bytes) {
        TablesConfig config = { .array_fd = array_fd, .nodes_fd = nodes_fd, .max_bytes = max_bytes,
                                .max_idle_bytes = max_idle_bytes, .versionp = &version };

        stat_reset();
        cr_assert_eq(tables_new(&tables, &config), 0);
        cr_assert_eq(object_cache_new(&objects, 64), 0);
        cr_assert_eq(process_new(&process, getpid()), 0);
        process->generation = 4711;
        cr_assert_eq(process_read_mappings(process, objects), 0);
}

static void teardown(void) {
        process_free(process);
        tables_free(tables);
        object_cache_free(objects);
        close(array_fd);
        close(nodes_fd);
}

/* Until all is ready, or @condition holds. */
static void settle(bool (*condition)(void)) {
        for (int i = 0; i < 1000 && !(condition ? condition() : tables_is_ready(tables, process->pid)); i++) {
                struct pollfd fd = { .fd = tables_fd(tables), .events = POLLIN };
                int r = tables_step(tables, 1 << 20);

                cr_assert_geq(r, 0);
                if (r == 0 && !(condition ? condition() : tables_is_ready(tables, process->pid)))
                        poll(&fd, 1, 20);
        }
        cr_assert(condition ? condition() : tables_is_ready(tables, process->pid));
}

static bool lookup(int fd, const void *key, void *value) {
        union bpf_attr attr;

        memset(&attr, 0, sizeof(attr));
        attr.map_fd = (uint32_t)fd;
        attr.key = (uint64_t)(uintptr_t)key;
        attr.value = (uint64_t)(uintptr_t)value;
        return bpf(BPF_MAP_LOOKUP_ELEM, &attr) == 0;
}

static bool get_node(uint32_t leaf, struct unwind_node *node) {
        struct unwind_node_key key = unwind_node_key(process->generation, leaf);

        return lookup(nodes_fd, &key, node);
}

static bool get_root(struct unwind_node *node) {
        return get_node(0, node);
}

/* One mapping, or several that follow each other: in a table only pieces of one file, one after the other. */
static void check_mapping(const struct unwind_mapping *made) {
        const Mapping *mapping = process_find_mapping(process, made->start), *next = mapping;

        cr_assert_not_null(mapping);
        cr_assert_eq(mapping->start, made->start);
        while (made->start + ((uint64_t)made->n_pages << 12) > next->end) {
                const Mapping *before = next;

                next = process_find_mapping(process, before->end);
                cr_assert_not_null(next);
                cr_assert_eq(next->start, before->end);
                cr_assert(made->table == UNWIND_NO_TABLE ||
                          (made->table < UNWIND_MAX_TABLES && mapping_is_same_file(mapping, next)));
        }
}

/*
 * Mappings with a table; each must really be in the array. With sanitizers we have so many libraries that
 * there are leaves.
 */
static uint32_t count_tables(const struct unwind_node *root) {
        struct unwind_node leaf;
        uint32_t n = 0, id;

        for (uint32_t i = 0; i < root->n; i++) {
                cr_assert(i == 0 || root->mappings[i - 1].start < root->mappings[i].start);
                if (!root->is_leaf) {
                        cr_assert(get_node(root->mappings[i].table, &leaf));
                        cr_assert_eq(leaf.generation, root->generation);
                        cr_assert_eq(leaf.mappings[0].start, root->mappings[i].start);
                        n += count_tables(&leaf);
                        continue;
                }
                check_mapping(&root->mappings[i]);
                if (root->mappings[i].table >= UNWIND_MAX_TABLES)
                        continue;
                cr_assert(lookup(array_fd, &root->mappings[i].table, &id),
                          "a node names a table that is not there");
                n++;
        }
        return n;
}

/* Mappings with @mark in place of a table, among those of the root or of its first leaf. */
static uint32_t count_marks(const struct unwind_node *root, uint32_t mark) {
        struct unwind_node leaf = *root;
        uint32_t n = 0;

        if (!root->is_leaf)
                cr_assert(get_node(root->mappings[0].table, &leaf));
        for (uint32_t i = 0; i < leaf.n; i++)
                n += leaf.mappings[i].table == mark;
        return n;
}

TestSuite(tables, .fini = teardown);

Test(tables, tell_the_kernel_where_each_file_lies) {
        struct unwind_node root;

        create_maps(64);
        open_tables(0, 0);
        cr_assert_eq(tables_process(tables, process), 0);
        cr_assert(get_root(&root));
        cr_assert_eq(count_tables(&root), 0);
        cr_assert_gt(count_marks(&root, UNWIND_PENDING_TABLE), 0, "the kernel half is told what is on its way");
        settle(NULL);
        cr_assert(get_root(&root));
        cr_assert_eq(count_marks(&root, UNWIND_PENDING_TABLE), 0);
        cr_assert(get_root(&root));
        cr_assert_geq(count_tables(&root), 4, "program, libc, ld.so, libcriterion at least");
        cr_assert_geq(stat_get(COUNTER_UNWIND_TABLES_LOADED), 4);
        cr_assert_eq(stat_get(COUNTER_UNWIND_ENTRIES_BAD), 0);
}

Test(tables, give_each_change_a_new_generation) {
        struct unwind_node first, second;
        size_t n;

        create_maps(64);
        open_tables(0, 0);
        cr_assert_eq(tables_process(tables, process), 0);
        settle(NULL);
        cr_assert(get_root(&first));
        cr_assert_eq(tables_process(tables, process), 0);
        cr_assert(get_root(&second));
        cr_assert_eq(second.generation, first.generation, "nothing has changed");
        n = process->n_mappings;
        process->n_mappings = n - 1;
        process->maps_serial++;
        cr_assert_eq(tables_process(tables, process), 0);
        process->n_mappings = n;
        cr_assert(get_root(&second));
        cr_assert_gt(second.generation, first.generation);
}

static bool all_evicted(void) {
        return tables_bytes(tables) == 0;
}

Test(tables, leave_with_the_process_but_stay_for_the_next_one) {
        struct unwind_node root;
        size_t n_bytes;

        create_maps(64);
        open_tables(0, 64 << 20);
        cr_assert_eq(tables_process(tables, process), 0);
        settle(NULL);
        n_bytes = tables_bytes(tables);
        tables_forget(tables, process->pid);
        cr_assert_not(get_root(&root));
        cr_assert_eq(tables_bytes(tables), n_bytes, "idle, below the cap of idle ones");
        cr_assert_eq(tables_process(tables, process), 0);
        cr_assert(tables_is_ready(tables, process->pid), "at once: all were there");
        cr_assert(get_root(&root));
        cr_assert_eq(stat_get(COUNTER_UNWIND_TABLES_EVICTED), 0);
}

Test(tables, without_users_are_evicted_over_the_cap_of_idle_ones) {
        struct unwind_node root;

        create_maps(64);
        open_tables(0, 1);
        cr_assert_eq(tables_process(tables, process), 0);
        settle(NULL);
        cr_assert_gt(tables_bytes(tables), 0);
        tables_forget(tables, process->pid);
        settle(all_evicted);
        cr_assert_eq(stat_get(COUNTER_UNWIND_TABLES_EVICTED), stat_get(COUNTER_UNWIND_TABLES_LOADED));
        /* And again, some in slots that were used before. */
        cr_assert_eq(tables_process(tables, process), 0);
        settle(NULL);
        cr_assert(get_root(&root));
        cr_assert_geq(count_tables(&root), 4);
}

/* Another process that has mapping @i of ours alone. */
static Process borrow_mapping(size_t i) {
        Process other = *process;

        other.pid = process->pid + 1;
        other.generation = process->generation + 1;
        other.mappings = &process->mappings[i];
        other.n_mappings = 1;
        return other;
}

static size_t first_with_rows(const struct unwind_node *root) {
        size_t i = 0;

        while (i < process->n_mappings && (process->mappings[i].start != root->mappings[0].start))
                i++;
        cr_assert_lt(i, process->n_mappings);
        cr_assert_neq(root->mappings[0].table, UNWIND_NO_TABLE, "our own program has rows");
        return i;
}

static uint64_t n_evicted_before;

static bool one_is_evicted(void) {
        return stat_get(COUNTER_UNWIND_TABLES_EVICTED) > n_evicted_before;
}

Test(tables, that_were_used_last_are_evicted_last) {
        struct unwind_node root;
        size_t n_bytes, first;
        Process other;

        create_maps(64);
        open_tables(0, 64 << 20);
        cr_assert_eq(tables_process(tables, process), 0);
        settle(NULL);
        n_bytes = tables_bytes(tables);
        tables = tables_free(tables);
        process = process_free(process);
        objects = object_cache_free(objects);
        /* Room for all idle ones but the smallest. */
        open_tables(0, n_bytes - 1);
        cr_assert_eq(tables_process(tables, process), 0);
        settle(NULL);
        cr_assert(get_root(&root));
        first = first_with_rows(&root);
        other = borrow_mapping(first);
        cr_assert_eq(tables_process(tables, &other), 0);
        n_evicted_before = stat_get(COUNTER_UNWIND_TABLES_EVICTED);
        /* The others become idle, the first one last, though it comes first in the process. */
        tables_forget(tables, process->pid);
        cr_assert_eq(stat_get(COUNTER_UNWIND_TABLES_EVICTED), n_evicted_before);
        tables_forget(tables, other.pid);
        settle(one_is_evicted);
        cr_assert_eq(stat_get(COUNTER_UNWIND_TABLES_EVICTED), n_evicted_before + 1);
        cr_assert_lt(tables_bytes(tables), n_bytes);
        cr_assert_eq(tables_process(tables, &other), 0);
        cr_assert(tables_is_ready(tables, other.pid), "it was still there");
        tables_forget(tables, other.pid);
}

Test(tables, over_the_cap_are_not_loaded_and_counted) {
        struct unwind_node root;

        create_maps(64);
        open_tables(64 << 10, 0);       /* room for the small ones alone: libc has 96 KiB */
        cr_assert_eq(tables_process(tables, process), 0);
        settle(NULL);
        cr_assert_gt(stat_get(COUNTER_UNWIND_TABLES_OVER_CAP), 0);
        cr_assert_leq(tables_bytes(tables), 64 << 10);
        cr_assert(get_root(&root));
        cr_assert_gt(count_tables(&root), 0);
}

Test(tables, do_without_a_node_that_finds_no_room) {
        struct unwind_node_key key = unwind_node_key(1, 0);
        struct unwind_node root = { .generation = 1 };

        create_maps(1);
        open_tables(0, 0);
        cr_assert_eq(bpfmap_update(nodes_fd, &key, &root), 0);
        cr_assert_eq(tables_process(tables, process), 0);
        settle(NULL);
        cr_assert_not(get_root(&root));
        cr_assert_gt(stat_get(COUNTER_UNWIND_NODES_OVER_CAP), 0);
}

enum { N_HOLDERS = 3 };                 /* as many as there are nodes */

/* A process of a user, with the mappings of this one. */
static Process *begin_holder(uid_t user, uint64_t generation) {
        pid_t pid = user_child_begin(user);
        Process *holder;

        cr_assert_eq(process_new(&holder, pid), 0);
        cr_assert_eq(process_read_mappings(holder, objects), 0);
        holder->generation = generation;
        cr_assert_eq(tables_process(tables, holder), 0);
        return holder;
}

static void end_holder(Process *holder) {
        tables_forget(tables, holder->pid);
        user_child_end((pid_t)holder->pid);
        process_free(holder);
}

static bool has_nodes(const Process *holder) {
        struct unwind_node_key key = unwind_node_key(holder->generation, 0);
        struct unwind_node root;

        return !bpfmap_lookup(nodes_fd, &key, &root);
}

static unsigned n_with_nodes(Process *const *holders, unsigned n) {
        unsigned n_found = 0;

        for (unsigned i = 0; i < n; i++)
                n_found += has_nodes(holders[i]);
        return n_found;
}

/* A sample in each, so much later that each that has no room asks again. */
static void sample_all(Process *const *holders, unsigned n) {
        for (unsigned i = 0; i < n; i++)
                cr_assert_eq(tables_sampled(tables, holders[i], &holders[i]->mappings[0],
                                            clock_monotonic_ns() + 10 * NS_PER_SEC), 0);
}

Test(tables, of_the_user_with_most_nodes_give_way_to_those_of_another_and_come_back) {
        Process *holders[N_HOLDERS + 1], *other;

        if (geteuid())
                cr_skip_test("machine: not root, who makes processes of other users");
        create_maps(N_HOLDERS);
        open_tables(0, 0);
        for (unsigned i = 0; i <= N_HOLDERS; i++)
                holders[i] = begin_holder(USER_CHILD, 1 + i);
        cr_assert_eq(n_with_nodes(holders, N_HOLDERS + 1), N_HOLDERS, "one has no room");
        cr_assert_eq(stat_get(COUNTER_UNWIND_NODES_OVER_CAP), 1);
        other = begin_holder(USER_CHILD - 1, 100);
        cr_assert(has_nodes(other), "another user has its share");
        cr_assert_eq(n_with_nodes(holders, N_HOLDERS + 1), N_HOLDERS - 1);
        cr_assert_eq(stat_get(COUNTER_UNWIND_NODES_OVER_CAP), 2);
        sample_all(holders, N_HOLDERS + 1);
        cr_assert(has_nodes(other));
        cr_assert_eq(n_with_nodes(holders, N_HOLDERS + 1), N_HOLDERS - 1, "they ask in vain");
        cr_assert_eq(stat_get(COUNTER_UNWIND_NODES_OVER_CAP), 2, "each is counted once");
        end_holder(other);
        sample_all(holders, N_HOLDERS + 1);
        cr_assert_eq(n_with_nodes(holders, N_HOLDERS + 1), N_HOLDERS, "one asks again, and has room");
        for (unsigned i = 0; i <= N_HOLDERS; i++)
                end_holder(holders[i]);
}

/* Its own file is where it was; on libraries links may lie in the way. */
Test(tables, of_a_process_that_is_gone_are_made_if_its_files_are_there) {
        TablesRows rows;

        create_maps(64);
        open_tables(0, 0);
        process->pid = 0x3ffffff;       /* no such process */
        cr_assert_eq(tables_process(tables, process), 0);
        settle(NULL);
        cr_assert_eq(tables_find_rows(tables, process->mappings[0].object->id, &rows), 0);
        cr_assert_gt(rows.size, 0);
        tables_forget(tables, process->pid);
}

Test(tables, survive_a_process_that_is_gone_before_it_is_read) {
        struct unwind_node root;
        Process living;
        TablesRows rows;

        create_maps(64);
        open_tables(0, 0);
        /* no such process, and its files are gone, too: none can be opened */
        process->pid = 0x3ffffff;
        for (size_t i = 0; i < process->n_mappings; i++)
                if (process->mappings[i].path)
                        process->mappings[i].path[0] = '?';
        cr_assert_eq(tables_process(tables, process), 0);
        settle(NULL);
        cr_assert_gt(stat_get(COUNTER_UNWIND_TABLES_FAILED), 0);
        cr_assert(get_root(&root));
        cr_assert_gt(count_marks(&root, UNWIND_LOST_TABLE), 0, "they may have rows: nothing is guessed there");
        cr_assert_eq(tables_find_rows(tables, process->mappings[0].object->id, &rows), UNWIND_PENDING_TABLE);
        living = *process;
        living.pid = (uint32_t)getpid();
        cr_assert_eq(tables_process(tables, &living), 0);
        while (!tables_is_ready(tables, living.pid))
                cr_assert_geq(tables_step(tables, 1 << 20), 0);
        cr_assert_eq(tables_find_rows(tables, process->mappings[0].object->id, &rows), 0,
                     "the next process could show the file");
        cr_assert_gt(rows.size, 0);
        tables_forget(tables, living.pid);
        tables_forget(tables, process->pid);
}

Test(tables, may_be_dropped_while_they_are_on_their_way) {
        create_maps(64);
        open_tables(0, 0);
        cr_assert_eq(tables_process(tables, process), 0);
        for (int i = 0; i < 3; i++)
                cr_assert_geq(tables_step(tables, 1 << 20), 0);
        tables_forget(tables, process->pid);
        cr_assert_eq(tables_process(tables, process), 0);
}

/* ---- what stays without users ---- */

static int null_file(void) {
        FILE *file = tmpfile();

        cr_assert_not_null(file);
        cr_assert_eq(ftruncate(fileno(file), 8192), 0);
        return dup(fileno(file));
}

static const ShareOwner nobody = { .group = 1 };

static Pool *open_pool(void) {
        const PoolConfig config = { .array_fd = array_fd, .n_slots = 64, .max_bytes = 1 << 20,
                                    .max_idle_bytes = 1 << 20 };
        Pool *pool;

        stat_reset();
        cr_assert_eq(pool_new(&pool, &config), 0);
        return pool;
}

static void finish(Pool *pool, const PoolTable *table, PoolState state) {
        for (int i = 0; i < 1000 && table->state != state; i++) {
                struct pollfd fd = { .fd = pool_fd(pool), .events = POLLIN };

                if (pool_step(pool, 1 << 20) == 0 && table->state != state)
                        poll(&fd, 1, 20);
        }
        cr_assert_eq(table->state, state);
}

Test(tables, of_a_file_without_rows_are_not_asked_for_again) {
        PoolTable *table;
        Pool *pool;

        create_maps(64);
        pool = open_pool();
        cr_assert_eq(pool_add_file(pool, 7, null_file(), &nobody, &table), 0);
        pool_use(pool, table);
        finish(pool, table, POOL_NONE);
        pool_unuse(pool, table);
        cr_assert_eq(pool_find(pool, 7), table, "the next process need not read it");
        cr_assert_eq(stat_get(COUNTER_UNWIND_TABLES_KNOWN), 0);
        pool_use(pool, table);
        cr_assert_eq(stat_get(COUNTER_UNWIND_TABLES_KNOWN), 1);
        cr_assert_eq(table->state, POOL_NONE);
        pool_unuse(pool, table);
        cr_assert_eq(stat_get(COUNTER_UNWIND_TABLES_NO_ROWS), 1);
        pool_free(pool);
}

Test(tables, of_a_file_that_could_not_be_opened_are_asked_for_again) {
        PoolTable *table;
        Pool *pool;

        create_maps(64);
        pool = open_pool();
        cr_assert_eq(pool_add_file(pool, 7, -1, &nobody, &table), 0);
        pool_use(pool, table);
        cr_assert_eq(table->state, POOL_NONE);
        pool_unuse(pool, table);
        cr_assert_null(pool_find(pool, 7));
        pool_free(pool);
}

Test(tables, of_files_without_rows_have_a_cap) {
        enum { N = 300, KEPT = 256 };
        PoolTable *table;
        Pool *pool;
        int n = 0;

        create_maps(64);
        pool = open_pool();
        for (uint64_t id = 1; id <= N; id++) {
                cr_assert_eq(pool_add_file(pool, id, null_file(), &nobody, &table), 0);
                pool_use(pool, table);
                finish(pool, table, POOL_NONE);
                pool_unuse(pool, table);
        }
        for (uint64_t id = 1; id <= N; id++)
                n += pool_find(pool, id) != NULL;
        cr_assert_eq(n, KEPT);
        cr_assert_null(pool_find(pool, N - KEPT), "the oldest went");
        cr_assert_not_null(pool_find(pool, N - KEPT + 1));
        cr_assert_eq(stat_get(COUNTER_UNWIND_TABLES_EVICTED), N - KEPT);
        pool_free(pool);
}

/* Processes of 20 ms end before a busy worker comes to their file. */
Test(tables, are_made_for_the_next_process_if_the_first_was_too_short) {
        enum { N = 100, KEPT = 64 };
        PoolTable *table;
        Pool *pool;
        int n = 0, fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

        create_maps(64);
        pool = open_pool();
        cr_assert_eq(pool_add_file(pool, 1, fd, &nobody, &table), 0);
        pool_use(pool, table);
        pool_unuse(pool, table);
        cr_assert_eq(pool_find(pool, 1), table);
        finish(pool, table, POOL_READY);
        cr_assert_gt(pool_bytes(pool), 0);
        for (uint64_t id = 2; id < 2 + N; id++) {
                PoolTable *other;

                cr_assert_eq(pool_add_file(pool, id, null_file(), &nobody, &other), 0);
                pool_use(pool, other);
                pool_unuse(pool, other);
                n += pool_find(pool, id) != NULL;
        }
        cr_assert_eq(n, KEPT, "so many may wait without users");
        for (int i = 0; i < 10 * N; i++)
                pool_step(pool, 1 << 20);
        cr_assert_eq(stat_get(COUNTER_UNWIND_TABLES_NO_ROWS), KEPT);
        pool_free(pool);
}

static bool add_brief(Pool *pool, uint64_t id, const ShareOwner *owner) {
        PoolTable *table;

        cr_assert_eq(pool_add_file(pool, id, null_file(), owner, &table), 0);
        pool_use(pool, table);
        pool_unuse(pool, table);
        return pool_find(pool, id);
}

Test(tables, that_wait_for_a_next_process_leave_room_for_another_groups) {
        enum { N = 100, KEPT = 64, N_HONEST = 10 };
        Pool *pool;
        int n = 0;

        create_maps(64);
        pool = open_pool();
        for (uint64_t id = 1; id <= N; id++)
                add_brief(pool, id, &(ShareOwner){ 1, 1000, 10 + id });
        for (uint64_t id = 1; id <= N_HONEST; id++)
                cr_assert(add_brief(pool, 1000 + id, &(ShareOwner){ 2, 1000, 1000 + id }));
        for (uint64_t id = 1; id <= N; id++)
                n += pool_find(pool, id) != NULL;
        cr_assert_eq(n, KEPT - N_HONEST, "of the crowd's");
        cr_assert_not(add_brief(pool, N + 1, &(ShareOwner){ 1, 1000, 5 }));
        for (uint64_t id = 1; id <= N_HONEST; id++)
                cr_assert_not_null(pool_find(pool, 1000 + id));
        for (int i = 0; i < 10 * N; i++)
                pool_step(pool, 1 << 20);
        cr_assert_eq(stat_get(COUNTER_UNWIND_TABLES_NO_ROWS), KEPT);
        pool_free(pool);
}

/* ---- shares of a pool that is full ---- */

static PoolTable *add_loaded(Pool *pool, uint64_t id, const ShareOwner *owner, PoolState state) {
        int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        PoolTable *table;

        cr_assert_eq(pool_add_file(pool, id, fd, owner, &table), 0);
        pool_use(pool, table);
        finish(pool, table, state);
        return table;
}

static Pool *open_shared_pool(void) {
        const PoolConfig config = { .array_fd = array_fd, .n_slots = 64, .max_bytes = 1 << 30 };
        Pool *pool;

        stat_reset();
        cr_assert_eq(pool_new(&pool, &config), 0);
        return pool;
}

enum { FULL = 63 };                     /* one of 64 slots is kept free */

/* Waits until the slot of a table that gave way has left the kernel. */
static void free_slot(Pool *pool) {
        struct pollfd fd = { .fd = pool_fd(pool), .events = POLLIN };

        pool_free_slots(pool);
        cr_assert_eq(poll(&fd, 1, 20000), 1);
        pool_step(pool, 1 << 20);
}

Test(tables, of_the_greatest_holder_give_way_the_one_that_was_sampled_last_at_the_end) {
        const ShareOwner greedy = { 1, 1000, 11 }, honest = { 2, 1000, 12 };
        PoolTable *tables_of_greedy[FULL], *first, *second;
        Pool *pool;

        create_maps(64);
        pool = open_shared_pool();
        for (unsigned i = 0; i < FULL; i++) {
                tables_of_greedy[i] = add_loaded(pool, i, &greedy, POOL_READY);
                cr_assert_not(pool_is_wanted(pool, tables_of_greedy[i], &greedy, 1000 + (i + 7) % FULL));
        }
        add_loaded(pool, 100, &greedy, POOL_NONE);
        cr_assert_eq(stat_get(COUNTER_UNWIND_TABLES_OVER_CAP), 1, "it displaces none of its own that lives");
        first = add_loaded(pool, 200, &honest, POOL_READY);
        cr_assert_eq(tables_of_greedy[FULL - 7]->state, POOL_NONE, "sampled at 1000");
        cr_assert(tables_of_greedy[FULL - 7]->is_lost);
        free_slot(pool);
        second = add_loaded(pool, 201, &honest, POOL_READY);
        cr_assert_eq(tables_of_greedy[FULL - 6]->state, POOL_NONE, "sampled at 1001");
        cr_assert_eq(stat_get(COUNTER_UNWIND_TABLES_EVICTED), 2);
        cr_assert_eq(first->state, POOL_READY);
        cr_assert_eq(second->state, POOL_READY);
        pool_free(pool);
}

Test(tables, that_had_no_room_are_asked_for_again_by_a_sample_in_them) {
        const ShareOwner greedy = { 1, 1000, 11 }, honest = { 2, 1000, 12 };
        const uint64_t second = 1000000000;
        PoolTable *refused, *old;
        Pool *pool;

        create_maps(64);
        pool = open_shared_pool();
        old = add_loaded(pool, 0, &greedy, POOL_READY);
        for (unsigned i = 1; i < FULL; i++) {
                PoolTable *table = add_loaded(pool, i, &greedy, POOL_READY);

                cr_assert_not(pool_is_wanted(pool, table, &greedy, 90 * second));
        }
        refused = add_loaded(pool, 100, &greedy, POOL_NONE);
        cr_assert(pool_is_wanted(pool, refused, &honest, 91 * second), "others have more");
        cr_assert_not(pool_is_wanted(pool, refused, &honest, 91 * second + 1), "once a second");
        cr_assert(pool_is_wanted(pool, refused, &greedy, 93 * second), "one of its own was never sampled");
        cr_assert_eq(pool_retry(pool, refused, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), &greedy), 0);
        finish(pool, refused, POOL_READY);
        cr_assert_eq(old->state, POOL_NONE);
        free_slot(pool);
        refused = add_loaded(pool, 101, &greedy, POOL_NONE);
        cr_assert_not(pool_is_wanted(pool, refused, &greedy, 94 * second), "all others were sampled lately");
        pool_free(pool);
}

/* ---- files of areas of made code ---- */

static const ShareOwner maker = { 1, 1000, 11 }, other_maker = { 2, 1000, 12 };

static int own_file(void) {
        return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
}

/* Nothing in it is a table's. */
static int made_file(off_t size) {
        int fd = memfd_create("area", MFD_CLOEXEC);

        cr_assert_geq(fd, 0);
        cr_assert_eq(posix_fallocate(fd, 0, size), 0);
        return fd;
}

static PoolTable *add_area(Pool *pool, uint64_t id, off_t size, const ShareOwner *owner) {
        PoolTable *table;

        cr_assert_eq(pool_add_file(pool, MADE_FIRST_ID | id, made_file(size), owner, &table), 0);
        pool_use(pool, table);
        return table;
}

Test(tables, of_made_code_are_forgotten_with_their_last_user) {
        PoolTable *waiting, *loaded, *none;
        Pool *pool;

        create_maps(64);
        pool = open_shared_pool();
        waiting = add_area(pool, 1, 4096, &maker);
        pool_unuse(pool, waiting);
        cr_assert_null(pool_find(pool, MADE_FIRST_ID | 1));
        cr_assert_not(pool_has_requests(pool));
        none = add_area(pool, 2, 4096, &maker);
        finish(pool, none, POOL_NONE);
        pool_unuse(pool, none);
        cr_assert_null(pool_find(pool, MADE_FIRST_ID | 2));
        loaded = add_loaded(pool, MADE_FIRST_ID | 3, &maker, POOL_READY);
        cr_assert_gt(pool_bytes(pool), 0);
        pool_unuse(pool, loaded);
        cr_assert_null(pool_find(pool, MADE_FIRST_ID | 3));
        cr_assert_eq(pool_bytes(pool), 0);
        cr_assert_eq(stat_get(COUNTER_UNWIND_TABLES_EVICTED), 0);
        free_slot(pool);
        add_loaded(pool, 3, &maker, POOL_READY);
        pool_free(pool);
}

/* While it is being made, too. */
Test(tables, of_made_code_that_has_no_users_any_more_are_not_loaded) {
        PoolTable *table;
        Pool *pool;

        create_maps(64);
        pool = open_shared_pool();
        cr_assert_eq(pool_add_file(pool, MADE_FIRST_ID | 1, own_file(), &maker, &table), 0);
        pool_use(pool, table);
        cr_assert_eq(pool_step(pool, 1), POOL_E_AGAIN);
        cr_assert(table->request.is_in_work);
        pool_unuse(pool, table);
        while (pool_has_requests(pool))
                pool_step(pool, 1 << 20);
        cr_assert_null(pool_find(pool, MADE_FIRST_ID | 1));
        cr_assert_eq(pool_bytes(pool), 0);
        pool_free(pool);
}

Test(tables, of_made_code_wait_with_so_many_bytes_of_files) {
        enum { MIB = 1 << 20 };
        PoolTable *first, *second, *third;
        Pool *pool;

        create_maps(64);
        pool = open_shared_pool();
        first = add_area(pool, 1, 20 * MIB, &maker);
        cr_assert_eq(first->state, POOL_WAITING, "nothing else waits");
        second = add_area(pool, 2, MIB, &maker);
        cr_assert_eq(second->state, POOL_NONE, "it leaves as much as it has");
        cr_assert_eq(second->request.fd, -1);
        cr_assert(second->is_refused);
        third = add_area(pool, 3, MIB, &other_maker);
        cr_assert_eq(third->state, POOL_WAITING);
        cr_assert_eq(stat_get(COUNTER_MADE_FUNCTIONS_OVER_CAP), 1);
        cr_assert(pool_is_wanted(pool, second, &maker, 1000));
        cr_assert_eq(pool_retry(pool, second, made_file(MIB), &maker), 0);
        cr_assert_eq(second->state, POOL_NONE);
        cr_assert_eq(stat_get(COUNTER_MADE_FUNCTIONS_OVER_CAP), 1, "it is the same one");
        finish(pool, first, POOL_NONE);
        cr_assert(pool_is_wanted(pool, second, &maker, 1001), "by each look");
        cr_assert_eq(pool_retry(pool, second, made_file(MIB), &maker), 0);
        cr_assert_eq(second->state, POOL_WAITING);
        cr_assert_eq(second->request.n_users, 1);
        finish(pool, second, POOL_NONE);
        finish(pool, third, POOL_NONE);
        /* what was given back is there for others */
        for (int i = 0; i < 3; i++) {
                PoolTable *table = add_area(pool, 10, 32 * MIB, &maker);

                cr_assert_eq(table->state, POOL_WAITING);
                pool_unuse(pool, table);
        }
        cr_assert_eq(add_area(pool, 11, 33 * MIB, &maker)->state, POOL_NONE);
        pool_free(pool);
}

/* The area of a process: [0x10000, 0x20000), with the file of a table that stands for it. */
static void make_area(Process *of, Mapping *mapping) {
        *mapping = (Mapping){ .start = 0x10000, .end = 0x20000, .kind = MAPPING_ANONYMOUS };
        *of = *process;
        of->pid = process->pid + 1;
        of->generation = process->generation + 1;
        of->mappings = mapping;
        of->n_mappings = 1;
        of->made = calloc(1, sizeof(*of->made));
        cr_assert_not_null(of->made);
        of->made->pieces[0] = (MadePiece){ .start = 0x10000, .end = 0x20000, .id = MADE_FIRST_ID | 5 };
        of->made->n_pieces = 1;
}

static uint32_t find_area(void) {
        TablesRows rows;

        return tables_find_rows(tables, MADE_FIRST_ID | 5, &rows);
}

static bool area_has_rows(void) {
        return find_area() == 0;
}

static bool area_is_unknown(void) {
        return find_area() == UNWIND_PENDING_TABLE;
}

static bool nothing_waits(void) {
        return !tables_have_work(tables);
}

Test(tables, of_made_code_that_had_no_room_are_asked_for_again_by_the_next_look) {
        Process of;
        Mapping mapping;

        create_maps(64);
        open_tables(0, 0);
        make_area(&of, &mapping);
        cr_assert_eq(tables_add_made(tables, &of, MADE_FIRST_ID | 4, made_file(20 << 20)), 0);
        cr_assert_eq(tables_add_made(tables, &of, MADE_FIRST_ID | 5, own_file()), 0);
        cr_assert_eq(tables_process(tables, &of), 0);
        cr_assert_eq(find_area(), UNWIND_NO_TABLE);
        settle(nothing_waits);
        cr_assert_eq(find_area(), UNWIND_NO_TABLE);
        cr_assert_eq(tables_add_made(tables, &of, MADE_FIRST_ID | 5, own_file()), 0);
        cr_assert_eq(find_area(), UNWIND_PENDING_TABLE);
        settle(area_has_rows);
        cr_assert_eq(tables_add_made(tables, &of, MADE_FIRST_ID | 5, own_file()), 0);
        cr_assert_eq(find_area(), 0, "it is there");
        tables_forget(tables, of.pid);
        settle(area_is_unknown);
        free(of.made);
}

Test(tables, are_made_for_control_groups_in_turn) {
        enum { N = 20 };
        const ShareOwner greedy = { 1, 1000, 11 }, honest = { 2, 1000, 12 };
        PoolTable *of_greedy[N], *of_honest;
        Pool *pool;
        int n = 0;

        create_maps(64);
        pool = open_shared_pool();
        for (unsigned i = 0; i < N; i++) {
                cr_assert_eq(pool_add_file(pool, i, null_file(), &greedy, &of_greedy[i]), 0);
                pool_use(pool, of_greedy[i]);
                pool_use(pool, of_greedy[i]);
        }
        cr_assert_eq(pool_add_file(pool, 100, null_file(), &honest, &of_honest), 0);
        pool_use(pool, of_honest);
        for (int i = 0; i < 100 && of_honest->state != POOL_NONE; i++)
                pool_step(pool, 1 << 20);
        for (unsigned i = 0; i < N; i++)
                n += of_greedy[i]->state == POOL_NONE;
        cr_assert_leq(n, 2, "files with more users, which came before, wait");
        pool_free(pool);
}

Test(tables, of_another_program_of_the_same_process_have_a_space_of_their_own) {
        struct unwind_node node;
        struct unwind_node_key key;

        create_maps(64);
        open_tables(0, 64 << 20);
        cr_assert_eq(tables_process(tables, process), 0);
        settle(NULL);
        cr_assert(get_root(&node));
        process->generation++;
        process->maps_serial++;
        cr_assert_eq(tables_process(tables, process), 0);
        cr_assert(get_root(&node));
        key = unwind_node_key(process->generation - 1, 0);
        cr_assert_not(lookup(nodes_fd, &key, &node), "the old program's nodes are gone");
}

/* Each CPU keeps the generation of the nodes that it has read, until the version changes. */
Test(tables, tell_of_each_change_of_a_node) {
        struct unwind_node node;
        uint64_t generation, before;

        create_maps(64);
        open_tables(0, 64 << 20);
        cr_assert_eq(tables_process(tables, process), 0);
        settle(NULL);
        cr_assert(get_root(&node));
        generation = node.generation;
        before = version;
        process->maps_serial++;
        cr_assert_eq(tables_process(tables, process), 0);
        cr_assert(get_root(&node));
        cr_assert_neq(node.generation, generation);
        cr_assert_gt(version, before);
        before = version;
        tables_forget(tables, process->pid);
        cr_assert_not(get_root(&node));
        cr_assert_gt(version, before, "a node that is gone is a change");
}

static uint64_t wanted_id;

static bool is_wanted_ready(void) {
        TablesRows rows;

        return tables_find_rows(tables, wanted_id, &rows) != UNWIND_PENDING_TABLE;
}

/* The last file of the process, which is not the vdso: that one is made beside the others. */
static uint64_t last_file(void) {
        for (size_t i = process->n_mappings; i-- > 0;)
                if (process->mappings[i].object && process->mappings[i].kind == MAPPING_FILE)
                        return process->mappings[i].object->id;
        return 0;
}

Test(tables_want, has_the_file_that_walks_wait_for_made_before_all_others) {
        uint32_t n_made, n;

        create_maps(256);
        open_tables(0, 0);
        wanted_id = last_file();
        cr_assert_neq(wanted_id, 0);
        cr_assert_eq(tables_process(tables, process), 0);
        tables_progress(tables, &n_made, &n);
        cr_assert_eq(n_made, 0);
        cr_assert_gt(n, 3, "this program has a few libraries");
        tables_want(tables, wanted_id);
        settle(is_wanted_ready);
        tables_progress(tables, &n_made, &n);
        cr_assert_leq(n_made, 2, "that file, and the next if it was quick");
        settle(NULL);
        tables_progress(tables, &n_made, &n);
        cr_assert_eq(n, 0, "nothing is left to read");
        teardown();
}
