/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A set of targets without a kernel half, and children that do what they are told: for test-targets.c and
 * test-search.c.
 */

#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/context/ring-search.h"
#include "host/sampling/discover/targets.h"
#include "spanprof/ring.h"
#include "stat-reset.h"

/* ---- the kernel's table, as the callbacks leave it ---- */

enum { MAX_ROWS = 64 };

typedef struct Row {
        uint32_t tgid;
        struct abi_process row;
} Row;

typedef struct Table {
        Row rows[MAX_ROWS];
        unsigned n, n_set, room;
        uint64_t last_generation;
} Table;

static inline Row *row_of(Table *table, uint32_t tgid) {
        for (unsigned i = 0; i < table->n; i++)
                if (table->rows[i].tgid == tgid)
                        return &table->rows[i];
        return NULL;
}

static inline int row_set(void *userdata, uint32_t tgid, const struct abi_process *row) {
        Table *table = userdata;
        Row *old = row_of(table, tgid);

        table->n_set++;
        if (!old) {
                if (table->n >= table->room)
                        return 1;
                old = &table->rows[table->n++];
                *old = (Row){ .tgid = tgid };
        }
        /* Never reused: greater than all before, or the same row with more known of it. */
        if (row->generation != old->row.generation) {
                cr_assert_gt(row->generation, table->last_generation);
                table->last_generation = row->generation;
        }
        old->row = *row;
        return 0;
}

static inline int row_remove(void *userdata, uint32_t tgid) {
        Table *table = userdata;
        Row *row = row_of(table, tgid);

        cr_assert_not_null(row);
        *row = table->rows[--table->n];
        return 0;
}

typedef struct Bench {
        Table table;
        ObjectCache *objects;
        Targets *targets;
} Bench;

/* Filled in place: the callbacks keep its address. */
static inline void bench_init(Bench *bench, const Selector *selector, uint32_t max_targets) {
        TargetsConfig config = { .selector = selector,
                                 .callbacks = { row_set, row_remove, .userdata = &bench->table },
                                 .max_targets = max_targets };

        stat_reset();
        *bench = (Bench){ .table = { .room = MAX_ROWS } };
        cr_assert_eq(object_cache_new(&bench->objects, 64), 0);
        config.objects = bench->objects;
        cr_assert_eq(targets_new(&bench->targets, &config), 0);
}

static inline void bench_end(Bench *bench) {
        targets_free(bench->targets);
        object_cache_free(bench->objects);
}

/* Lets the set work until @done says so, or five seconds of its clock have gone by. */
static inline void work_until(Bench *bench, bool (*done)(Bench *bench, uint32_t tgid), uint32_t tgid) {
        for (uint64_t now_ns = clock_monotonic_ns(), end_ns = now_ns + 5 * NS_PER_SEC;
             now_ns < end_ns && !done(bench, tgid);) {
                uint64_t next_ns;

                cr_assert_eq(targets_work(bench->targets, now_ns, &next_ns), 0);
                cr_assert_gt(next_ns, now_ns);
                now_ns = next_ns;
        }
}

static inline bool has_ring(Bench *bench, uint32_t tgid) {
        Row *row = row_of(&bench->table, tgid);

        return row && row->row.ring_address;
}

static inline bool has_no_ring(Bench *bench, uint32_t tgid) {
        return !has_ring(bench, tgid);
}

/* ---- children ---- */

static inline void *publish(void) {
        struct spanprof_ring_header *header = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
                                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        header->capacity = 1024;
        header->slot_size = SPANPROF_RING_SLOT_SIZE;
        header->version = SPANPROF_RING_VERSION;
        header->magic = SPANPROF_RING_MAGIC;
        return header;
}

typedef struct Member {
        uint32_t pid;
        uint64_t start_time_ns;         /* as the kernel half would tell it: not rounded */
        char comm[ABI_COMM_SIZE];
        Child child;
} Member;

static inline void member_identify(Member *child) {
        ProcessStat stat;

        cr_assert_eq(process_identify((pid_t)child->pid, &stat, child->comm), 0);
        child->start_time_ns = stat.start_time_ns + 1234567;
}

static const char *next_comm;
static void (*next_body)(int ready, int go);

static inline void wait_and_begin(int ready, int go) {
        prctl(PR_SET_NAME, next_comm);
        dup2(go, 0);
        say(ready);
        hear(go);
        if (next_body)
                next_body(ready, go);
}

/* It begins with @body when it is told to. */
static inline Member start(const char *comm, void (*body)(int ready, int go)) {
        Member member = { 0 };

        next_comm = comm;
        next_body = body;
        member.child = child_start(wait_and_begin);
        member.pid = (uint32_t)member.child.pid;
        member_identify(&member);
        return member;
}

static inline void tell(const Member *member) {
        say(member->child.go);
}

static inline void go_on(const Member *member) {
        child_go_on(&member->child);
}

static inline void stop(const Member *member) {
        child_stop(&member->child);
}

static inline struct abi_notice notice_of(const Member *child, uint32_t kind, uint64_t value) {
        struct abi_notice notice = { .time_ns = clock_monotonic_ns(), .start_time_ns = child->start_time_ns,
                                     .value = value, .tgid = child->pid, .kind = kind };

        memcpy(notice.comm, child->comm, ABI_COMM_SIZE);
        return notice;
}

static inline void post(Bench *bench, const Member *child, uint32_t kind, uint64_t value) {
        struct abi_notice notice = notice_of(child, kind, value);

        cr_assert_eq(targets_notice(bench->targets, &notice), 0);
}

static inline int admit_sample(Bench *bench, const struct abi_sample *sample, Process **processp) {
        Program program = { 0 };
        int r = targets_admit(bench->targets, sample, &program);

        *processp = program.process;
        return r;
}

static inline int admit(Bench *bench, const Member *child, uint64_t time_ns, Process **processp) {
        struct abi_sample sample = { .time_ns = time_ns,
                                     .start_time_ns = child->start_time_ns,
                                     .tgid = child->pid,
                                     .tid = child->pid };

        memcpy(sample.comm, child->comm, ABI_COMM_SIZE);
        return admit_sample(bench, &sample, processp);
}

/* ---- stories ---- */

static inline void body_publish(int ready, int go) {
        publish();
}

static inline void body_publish_and_withdraw(int ready, int go) {
        void *ring = publish();

        say(ready);
        hear(go);
        munmap(ring, 1 << 20);
}

static inline void body_rename(int ready, int go) {
        prctl(PR_SET_NAME, "chosen");
}

static inline void body_exec(int ready, int go) {
        execl("/bin/cat", "cat", NULL);
}

/* Lets one with that body go on. execve() renames the process before it has made its stack. */
static inline void exec_cat(Member *child) {
        ProcessStat stat;

        tell(child);
        do {
                usleep(1000);
                cr_assert_eq(process_identify((pid_t)child->pid, &stat, child->comm), 0);
        } while (strcmp(child->comm, "cat") || !stat.stack_start);
}
