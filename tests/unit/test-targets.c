/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "oracle.h"
#include "spanprof/ring.h"
#include "target/search.h"
#include "target/targets.h"
#include "util/clock.h"
#include "util/stat.h"

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

static Row *row_of(Table *table, uint32_t tgid) {
        for (unsigned i = 0; i < table->n; i++)
                if (table->rows[i].tgid == tgid)
                        return &table->rows[i];
        return NULL;
}

static int row_set(void *userdata, uint32_t tgid, const struct abi_process *row) {
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

static int row_remove(void *userdata, uint32_t tgid) {
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
static void bench_init(Bench *bench, const Selector *selector, uint32_t max_targets) {
        TargetsConfig config = { .selector = selector, .callbacks = { row_set, row_remove, NULL, &bench->table },
                                 .max_targets = max_targets };

        stat_reset();
        *bench = (Bench){ .table = { .room = MAX_ROWS } };
        cr_assert_eq(object_cache_new(&bench->objects, 64), 0);
        config.objects = bench->objects;
        cr_assert_eq(targets_new(&bench->targets, &config), 0);
}

static void bench_end(Bench *bench) {
        targets_free(bench->targets);
        object_cache_free(bench->objects);
}

/* Lets the set work until @done says so, or five seconds of its clock have gone by. */
static void work_until(Bench *bench, bool (*done)(Bench *bench, uint32_t tgid), uint32_t tgid) {
        for (uint64_t now_ns = clock_monotonic_ns(), end_ns = now_ns + 5 * NS_PER_SEC; now_ns < end_ns && !done(bench, tgid);) {
                uint64_t next_ns;

                cr_assert_eq(targets_work(bench->targets, now_ns, &next_ns), 0);
                cr_assert_gt(next_ns, now_ns);
                now_ns = next_ns;
        }
}

static bool has_ring(Bench *bench, uint32_t tgid) {
        Row *row = row_of(&bench->table, tgid);

        return row && row->row.ring_address;
}

static bool has_no_ring(Bench *bench, uint32_t tgid) {
        return !has_ring(bench, tgid);
}

/* ---- children ---- */

static void say(int fd) {
        if (write(fd, "x", 1) != 1)
                _exit(1);
}

static void hear(int fd) {
        char c;

        if (read(fd, &c, 1) != 1)
                _exit(1);
}

static void *publish(void) {
        struct spanprof_ring_header *header = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        header->capacity = 1024;
        header->slot_size = SPANPROF_RING_SLOT_SIZE;
        header->version = SPANPROF_RING_VERSION;
        header->magic = SPANPROF_RING_MAGIC;
        return header;
}

typedef struct Child {
        uint32_t pid;
        uint64_t start_time_ns;         /* as the kernel half would tell it: not rounded */
        int ready, go;
        char comm[ABI_COMM_SIZE];
} Child;

static void child_identify(Child *child) {
        ProcessStat stat;

        cr_assert_eq(process_identify((pid_t)child->pid, &stat, child->comm), 0);
        child->start_time_ns = stat.start_time_ns + 1234567;
}

static Child start(const char *comm, void (*body)(int ready, int go)) {
        int ready[2], go[2];
        Child child = { 0 };
        pid_t pid;

        cr_assert(!pipe(ready) && !pipe(go));
        pid = fork();
        if (!pid) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                prctl(PR_SET_NAME, comm);
                dup2(go[0], 0);
                say(ready[1]);
                hear(go[0]);
                if (body)
                        body(ready[1], go[0]);
                say(ready[1]);
                for (;;)
                        pause();
        }
        child.pid = (uint32_t)pid;
        child.ready = ready[0];
        child.go = go[1];
        hear(child.ready);
        child_identify(&child);
        return child;
}

static void go_on(const Child *child) {
        say(child->go);
        hear(child->ready);
}

static void stop(const Child *child) {
        kill((pid_t)child->pid, SIGKILL);
        waitpid((pid_t)child->pid, NULL, 0);
}

static struct abi_notice notice_of(const Child *child, uint32_t kind, uint64_t value) {
        struct abi_notice notice = { .time_ns = clock_monotonic_ns(), .start_time_ns = child->start_time_ns,
                                     .value = value, .tgid = child->pid, .kind = kind };

        memcpy(notice.comm, child->comm, ABI_COMM_SIZE);
        return notice;
}

static void post(Bench *bench, const Child *child, uint32_t kind, uint64_t value) {
        struct abi_notice notice = notice_of(child, kind, value);

        cr_assert_eq(targets_notice(bench->targets, &notice), 0);
}

static int admit(Bench *bench, const Child *child, uint64_t time_ns, Process **processp) {
        struct abi_sample sample = { .time_ns = time_ns, .start_time_ns = child->start_time_ns, .tgid = child->pid,
                                     .tid = child->pid };

        memcpy(sample.comm, child->comm, ABI_COMM_SIZE);
        return targets_admit(bench->targets, &sample, processp);
}

/* ---- stories ---- */

static void body_publish(int ready, int go) {
        publish();
}

static void body_publish_and_withdraw(int ready, int go) {
        void *ring = publish();

        say(ready);
        hear(go);
        munmap(ring, 1 << 20);
}

static void body_rename(int ready, int go) {
        prctl(PR_SET_NAME, "chosen");
}

static void body_exec(int ready, int go) {
        execl("/bin/cat", "cat", NULL);
}

Test(targets, finds_publishers_in_the_pass_over_proc) {
        Child child = start("publisher", body_publish), silent = start("silent", NULL);
        Selector selector = { 0 };
        Process *process;
        Bench bench;

        go_on(&child);
        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        cr_assert(has_ring(&bench, child.pid));
        cr_assert_eq(row_of(&bench.table, child.pid)->row.ring_capacity, 1024);
        cr_assert_eq(row_of(&bench.table, child.pid)->row.state, ABI_STATE_TARGET);
        /* Rounded as in /proc: the kernel half compares by the tick. */
        cr_assert_eq(row_of(&bench.table, child.pid)->row.start_time_ns, child.start_time_ns - 1234567);
        cr_assert_null(row_of(&bench.table, silent.pid));
        cr_assert_geq(targets_count_all(bench.targets), 3);

        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        cr_assert_eq(process->pid, child.pid);
        cr_assert_str_eq(process->comm, "publisher");
        cr_assert_gt(process->n_mappings, 0);
        cr_assert_eq(admit(&bench, &silent, clock_monotonic_ns(), &process), TARGETS_E_REJECTED);
        bench_end(&bench);
        stop(&child);
        stop(&silent);
}

Test(targets, finds_who_publishes_later_by_a_notice) {
        Child child = start("late", body_publish);
        Selector selector = { 0 };
        uint64_t generation;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        cr_assert_null(row_of(&bench.table, child.pid));
        go_on(&child);
        post(&bench, &child, ABI_NOTICE_MAPPINGS, 0);
        work_until(&bench, has_ring, child.pid);
        cr_assert(has_ring(&bench, child.pid));
        generation = row_of(&bench.table, child.pid)->row.generation;

        /* Another such notice changes nothing. */
        post(&bench, &child, ABI_NOTICE_MAPPINGS, 0);
        cr_assert_eq(row_of(&bench.table, child.pid)->row.generation, generation);
        bench_end(&bench);
        stop(&child);
}

Test(targets, keeps_a_target_whose_ring_goes_away_and_takes_its_next_one) {
        Child child = start("withdraw", body_publish_and_withdraw);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        uint64_t generation;
        Bench bench;

        go_on(&child);
        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        cr_assert_eq(targets_missing_pid(bench.targets), 0);
        cr_assert(has_ring(&bench, child.pid));
        generation = row_of(&bench.table, child.pid)->row.generation;
        go_on(&child);
        work_until(&bench, has_no_ring, child.pid);
        cr_assert(!has_ring(&bench, child.pid));
        cr_assert_eq(row_of(&bench.table, child.pid)->row.state, ABI_STATE_TARGET);
        cr_assert_eq(row_of(&bench.table, child.pid)->row.generation, generation);
        cr_assert_eq(stat_get(COUNTER_RING_FOUND), 1);
        cr_assert_eq(stat_get(COUNTER_RING_LOST), 1);
        bench_end(&bench);
        stop(&child);
}

Test(targets, says_which_pid_is_missing) {
        Child child = start("gone", NULL);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        Bench bench;

        stop(&child);
        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        cr_assert_eq(targets_missing_pid(bench.targets), child.pid);
        cr_assert_eq(targets_count(bench.targets), 0);
        bench_end(&bench);
}

Test(targets, starts_a_new_generation_with_exec_and_sorts_samples_by_time) {
        Child child = start("before", body_exec);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        uint64_t before_ns, generation, next_ns;
        struct abi_notice exec;
        Process *process;
        char comm[16] = "";
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        generation = row_of(&bench.table, child.pid)->row.generation;
        before_ns = clock_monotonic_ns();
        say(child.go);
        for (int i = 0; i < 5000 && strcmp(comm, "cat"); i++) {         /* until exec is through */
                ProcessStat stat;

                usleep(1000);
                process_identify((pid_t)child.pid, &stat, comm);
        }
        cr_assert_str_eq(comm, "cat");
        memcpy(child.comm, "cat\0", 4);
        exec = notice_of(&child, ABI_NOTICE_EXEC, 0);
        cr_assert_eq(targets_notice(bench.targets, &exec), 0);
        cr_assert_gt(row_of(&bench.table, child.pid)->row.generation, generation);
        cr_assert_eq(stat_get(COUNTER_TARGETS_EXEC), 1);
        cr_assert_eq(stat_get(COUNTER_TARGETS_GONE), 0);
        cr_assert_eq(targets_count(bench.targets), 1);

        cr_assert_eq(admit(&bench, &child, before_ns, &process), 0);
        cr_assert_eq(process->generation, generation);
        cr_assert_str_eq(process->comm, "before");
        cr_assert_eq(admit(&bench, &child, exec.time_ns, &process), 0);
        cr_assert_str_eq(process->comm, "cat");
        cr_assert_str_eq(process->exe, "/usr/bin/cat");

        /* Two seconds later nobody asks for the old program any more. */
        cr_assert_eq(targets_work(bench.targets, exec.time_ns + TARGETS_KEEP_NS - 1, &next_ns), 0);
        cr_assert_eq(admit(&bench, &child, before_ns, &process), 0);
        cr_assert_eq(targets_work(bench.targets, exec.time_ns + TARGETS_KEEP_NS, &next_ns), 0);
        cr_assert_eq(admit(&bench, &child, before_ns, &process), TARGETS_E_REJECTED);
        cr_assert_eq(admit(&bench, &child, exec.time_ns, &process), 0);
        bench_end(&bench);
        stop(&child);
}

Test(targets, keeps_the_dead_for_late_samples) {
        Child child = start("short", NULL);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        uint64_t next_ns, cpu_ns;
        struct abi_notice exit;
        Process *process;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        cpu_ns = targets_cpu_time(bench.targets);
        exit = notice_of(&child, ABI_NOTICE_EXIT, 7 * NS_PER_SEC);
        stop(&child);
        cr_assert_eq(targets_notice(bench.targets, &exit), 0);
        cr_assert_null(row_of(&bench.table, child.pid));
        cr_assert_eq(targets_count(bench.targets), 0);
        cr_assert_eq(stat_get(COUNTER_TARGETS_GONE), 1);
        /* Its final CPU time counts from when it became a target: it had hardly any before. */
        cr_assert_geq(targets_cpu_time(bench.targets), cpu_ns + 6 * NS_PER_SEC);
        cr_assert_leq(targets_cpu_time(bench.targets), 7 * NS_PER_SEC);

        cr_assert_eq(admit(&bench, &child, exit.time_ns - 1, &process), 0);
        cr_assert_gt(process->n_mappings, 0);
        cr_assert_eq(targets_notice(bench.targets, &exit), 0);          /* a second one changes nothing */

        cpu_ns = targets_cpu_time(bench.targets);
        exit.kind = ABI_NOTICE_SETTLED;
        exit.value = 12345;
        cr_assert_eq(targets_notice(bench.targets, &exit), 0);
        cr_assert_eq(targets_cpu_time(bench.targets), cpu_ns + 12345, "what its exit did not know of");
        exit.start_time_ns -= NS_PER_SEC;
        cr_assert_eq(targets_notice(bench.targets, &exit), 0);
        cr_assert_eq(targets_cpu_time(bench.targets), cpu_ns + 12345, "of another process with this number");
        cr_assert_leq(targets_cpu_time(bench.targets), 7 * NS_PER_SEC);
        cr_assert_eq(targets_work(bench.targets, exit.time_ns + TARGETS_KEEP_NS, &next_ns), 0);
        cr_assert_eq(admit(&bench, &child, exit.time_ns - 1, &process), TARGETS_E_REJECTED);
        bench_end(&bench);
}

Test(targets, tells_processes_with_one_id_apart_by_their_start) {
        Child child = start("first", NULL), other = child;
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        struct abi_notice exit;
        Process *process;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        other.start_time_ns -= 5 * NS_PER_SEC;
        cr_assert_eq(admit(&bench, &other, clock_monotonic_ns(), &process), TARGETS_E_REJECTED);
        exit = notice_of(&other, ABI_NOTICE_EXIT, 0);
        cr_assert_eq(targets_notice(bench.targets, &exit), 0);
        cr_assert_not_null(row_of(&bench.table, child.pid));
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        bench_end(&bench);
        stop(&child);
}

Test(targets, notices_the_end_of_a_target_even_if_the_notice_is_lost) {
        Child child = start("lost", NULL);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        uint64_t now_ns = clock_monotonic_ns(), next_ns;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        stop(&child);
        cr_assert_eq(targets_work(bench.targets, now_ns, &next_ns), 0);
        cr_assert_not_null(row_of(&bench.table, child.pid));            /* the notice may be on its way */
        for (int i = 1; i < 4; i++)
                cr_assert_eq(targets_work(bench.targets, now_ns + i * NS_PER_SEC, &next_ns), 0);
        cr_assert_null(row_of(&bench.table, child.pid));
        cr_assert_eq(targets_count(bench.targets), 0);
        bench_end(&bench);
}

static const char *const chosen[] = { "chos*n" };

Test(targets, decides_undecided_processes_by_their_name_at_the_first_sample) {
        Selector selector = { .comms = chosen, .n_comms = 1 };
        Child yes, no;
        Process *process;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        yes = start("chosen", NULL);
        no = start("other", NULL);
        cr_assert_eq(admit(&bench, &yes, clock_monotonic_ns(), &process), 0);
        cr_assert_str_eq(process->comm, "chosen");
        cr_assert_gt(process->n_mappings, 0);
        cr_assert_eq(row_of(&bench.table, yes.pid)->row.state, ABI_STATE_TARGET);

        cr_assert_eq(admit(&bench, &no, clock_monotonic_ns(), &process), TARGETS_E_REJECTED);
        cr_assert_eq(row_of(&bench.table, no.pid)->row.state, ABI_STATE_REJECTED);
        cr_assert_eq(stat_get(COUNTER_TARGETS_REJECTED), 1);

        /* It takes another name: found when its row has expired. */
        {
                uint64_t next_ns;

                cr_assert_eq(targets_work(bench.targets, clock_monotonic_ns() + 11 * NS_PER_SEC, &next_ns), 0);
                cr_assert_null(row_of(&bench.table, no.pid));
        }
        bench_end(&bench);
        stop(&yes);
        stop(&no);
}

Test(targets, looks_at_a_rejected_process_again_when_it_execs) {
        static const char *const names[] = { "cat" };
        Selector selector = { .comms = names, .n_comms = 1 };
        Child child = start("other", body_exec);
        Process *process;
        char comm[16] = "";
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), TARGETS_E_REJECTED);
        say(child.go);
        for (int i = 0; i < 5000 && strcmp(comm, "cat"); i++) {
                ProcessStat stat;

                usleep(1000);
                process_identify((pid_t)child.pid, &stat, comm);
        }
        memcpy(child.comm, "cat\0", 4);
        post(&bench, &child, ABI_NOTICE_EXEC, 0);
        cr_assert_eq(row_of(&bench.table, child.pid)->row.state, ABI_STATE_TARGET);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        cr_assert_str_eq(process->exe, "/usr/bin/cat");
        bench_end(&bench);
        stop(&child);
}

Test(targets, knows_a_process_that_is_gone_by_what_its_sample_says) {
        Selector selector = { .comms = chosen, .n_comms = 1 };
        Child child = start("chosen", NULL);
        struct abi_sample sample = { 0 };
        Process *process;
        Bench bench;

        bench_init(&bench, &selector, 0);
        stop(&child);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        cr_assert_str_eq(process->comm, "chosen");
        cr_assert_eq(process->n_mappings, 0);
        cr_assert_null(process->exe);
        cr_assert_gt(stat_get(COUNTER_TARGETS_VANISHED), 0);

        /* Another thread's name is not the leader's. */
        sample = (struct abi_sample){ .start_time_ns = child.start_time_ns + NS_PER_SEC, .tgid = child.pid,
                                      .tid = child.pid + 1, .comm = "chosen" };
        cr_assert_eq(targets_admit(bench.targets, &sample, &process), TARGETS_E_REJECTED);
        bench_end(&bench);
}

/* Only another thread than the leader was sampled, and no notice tells of an exec or a fork. */
Test(targets, takes_who_is_gone_without_a_name_where_names_do_not_matter) {
        const SelectorRule by_name = { .kind = SELECTOR_KIND_COMM, .pattern = "other" };
        Selector selectors[] = { { .all = true }, { .all = true, .exclude_rules = &by_name, .n_exclude_rules = 1 } };
        Child child = start("any", NULL);
        struct abi_sample sample = { .start_time_ns = child.start_time_ns, .tgid = child.pid, .tid = child.pid + 1,
                                     .comm = "of its own" };
        Process *process;
        Bench bench;

        stop(&child);
        bench_init(&bench, &selectors[0], 0);
        cr_assert_eq(targets_admit(bench.targets, &sample, &process), 0);
        cr_assert_eq(process->pid, child.pid);
        cr_assert_str_eq(process->comm, "");
        cr_assert_eq(stat_get(COUNTER_SAMPLES_UNATTRIBUTED), 1);
        cr_assert_eq(targets_admit(bench.targets, &sample, &process), 0);
        cr_assert_eq(stat_get(COUNTER_SAMPLES_UNATTRIBUTED), 2);
        bench_end(&bench);

        bench_init(&bench, &selectors[1], 0);
        cr_assert_eq(targets_admit(bench.targets, &sample, &process), TARGETS_E_REJECTED, "it may be the one that is excluded");
        cr_assert_eq(stat_get(COUNTER_SAMPLES_UNATTRIBUTED), 0);
        bench_end(&bench);
}

Test(targets, takes_all_but_itself) {
        uint32_t self = (uint32_t)getpid();
        Selector selector = { .all = true, .excluded = &self, .n_excluded = 1 };
        Child child = start("any", NULL), me = { .pid = self };
        Process *process;
        Bench bench;

        child_identify(&me);
        bench_init(&bench, &selector, 0);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        cr_assert_gt(process->n_mappings, 0);
        cr_assert_eq(admit(&bench, &me, clock_monotonic_ns(), &process), TARGETS_E_REJECTED);
        cr_assert_eq(row_of(&bench.table, self)->row.state, ABI_STATE_REJECTED);
        bench_end(&bench);
        stop(&child);
}

Test(targets, holds_its_cap_and_counts_what_is_over_it) {
        Child a = start("chosen", NULL), b = start("chosen", NULL), c = start("chosen", NULL);
        Selector selector = { .comms = chosen, .n_comms = 1 };
        Process *process;
        Bench bench;

        bench_init(&bench, &selector, 2);
        cr_assert_eq(targets_scan(bench.targets), 0);
        cr_assert_eq(targets_count(bench.targets), 2);
        cr_assert_geq(stat_get(COUNTER_TARGETS_OVER_CAP), 1);
        cr_assert_eq(bench.table.n, 2);
        bench_end(&bench);

        /* The kernel's table is full before ours. */
        bench_init(&bench, &selector, 0);
        bench.table.room = 1;
        cr_assert_eq(admit(&bench, &a, clock_monotonic_ns(), &process), 0);
        cr_assert_eq(admit(&bench, &b, clock_monotonic_ns(), &process), TARGETS_E_REJECTED);
        cr_assert_eq(stat_get(COUNTER_TARGETS_OVER_CAP), 1);
        cr_assert_eq(targets_count(bench.targets), 1);
        post(&bench, &a, ABI_NOTICE_EXIT, 0);
        cr_assert_eq(admit(&bench, &c, clock_monotonic_ns(), &process), 0);
        bench_end(&bench);
        stop(&a);
        stop(&b);
        stop(&c);
}

static void body_map_code(int ready, int go) {
        mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

Test(targets, reads_mappings_again_but_not_at_every_call) {
        Child child = start("maps", body_map_code);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        Process *process;
        uint64_t serial;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        serial = process->maps_serial;
        go_on(&child);
        cr_assert_eq(targets_refresh(bench.targets, process), 0);
        cr_assert_neq(process->maps_serial, serial);
        cr_assert_eq(targets_refresh(bench.targets, process), TARGETS_E_NOT_NOW);
        stop(&child);
        post(&bench, &child, ABI_NOTICE_EXIT, 0);
        cr_assert_eq(targets_refresh(bench.targets, process), TARGETS_E_NOT_NOW);
        bench_end(&bench);
}

static void body_burn(int ready, int go) {
        struct timespec ts;

        do
                clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
        while (ts.tv_nsec < 50000000);
}

Test(targets, adds_up_the_cpu_time_of_the_living) {
        Child child = start("burn", body_burn);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        uint64_t before_ns;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        before_ns = targets_cpu_time(bench.targets);
        go_on(&child);
        cr_assert_geq(targets_cpu_time(bench.targets) - before_ns, 40 * NS_PER_MS);
        cr_assert_leq(targets_cpu_time(bench.targets) - before_ns, 60 * NS_PER_MS);
        bench_end(&bench);
        stop(&child);
}

/* ---- search ---- */

static unsigned n_found;

static int found(void *userdata, uint32_t tgid, uint64_t start_time_ns, const SearchFinding *finding) {
        n_found += tgid == *(uint32_t *)userdata && finding->ring_capacity == 1024;
        return 0;
}

/* ---- the sweep ---- */

static void work_for(Bench *bench, uint64_t ns) {
        uint64_t next_ns;

        for (uint64_t now_ns = clock_monotonic_ns(), end_ns = now_ns + ns; now_ns < end_ns; now_ns = next_ns)
                cr_assert_eq(targets_work(bench->targets, now_ns, &next_ns), 0);
}

Test(targets, finds_a_publisher_whose_notice_was_lost) {
        Child child = start("late", body_publish);
        Selector selector = { 0 };
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        work_for(&bench, 2 * NS_PER_SEC);
        go_on(&child);
        work_for(&bench, 10 * NS_PER_SEC);
        cr_assert(!has_ring(&bench, child.pid), "nobody looks without a reason");
        targets_resync_notices(bench.targets);
        work_for(&bench, 10 * NS_PER_SEC);
        cr_assert(has_ring(&bench, child.pid));
        cr_assert_geq(stat_get(COUNTER_SWEEP_FOUND), 1);
        cr_assert_eq(stat_get(COUNTER_SWEEP_RESYNCS), 1);
        cr_assert_gt(stat_get(COUNTER_SWEEP_LOOKED), 1);
        bench_end(&bench);
        stop(&child);
}

Test(targets, comes_by_everybody_in_time_though_no_notice_was_lost) {
        Child child = start("late", body_publish);
        Selector selector = { 0 };
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        work_for(&bench, 2 * NS_PER_SEC);
        go_on(&child);
        work_for(&bench, 24 * 3600 * NS_PER_SEC);       /* 46,000 processes */
        cr_assert(has_ring(&bench, child.pid));
        cr_assert_geq(stat_get(COUNTER_SWEEP_FOUND), 1);
        cr_assert_leq(stat_get(COUNTER_SWEEP_LOOKED), 24 * 120 * 16);
        bench_end(&bench);
        stop(&child);
}

Test(targets, finds_the_new_program_of_an_exec_whose_notice_was_lost) {
        Child child = start("chosen", body_exec);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        Process *process;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        say(child.go);
        do {
                usleep(1000);
                child_identify(&child);
        } while (strcmp(child.comm, "cat"));
        targets_resync_notices(bench.targets);
        work_for(&bench, 10 * NS_PER_SEC);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        cr_assert_str_eq(process->comm, "cat");
        cr_assert_not_null(strstr(process->exe, "/cat"));
        cr_assert_eq(stat_get(COUNTER_TARGETS_EXEC), 1);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 1);
        bench_end(&bench);
        stop(&child);
}

/* What a process changes of itself after it was decided is seen when it is decided anew: ten seconds later. */
Test(targets, decides_a_rejected_process_anew_after_ten_seconds) {
        Child child = start("other", body_rename);
        Selector selector = { .comms = chosen, .n_comms = 1 };
        Process *process;
        uint64_t now_ns, next_ns;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), TARGETS_E_REJECTED);
        go_on(&child);
        now_ns = clock_monotonic_ns();
        cr_assert_eq(targets_work(bench.targets, now_ns + 9 * NS_PER_SEC, &next_ns), 0);
        cr_assert_eq(row_of(&bench.table, child.pid)->row.state, ABI_STATE_REJECTED);
        cr_assert_eq(targets_work(bench.targets, now_ns + 10 * NS_PER_SEC, &next_ns), 0);
        cr_assert_null(row_of(&bench.table, child.pid));
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), TARGETS_E_REJECTED, "of before it had the name");
        memcpy(child.comm, "chosen", sizeof("chosen"));
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        cr_assert_str_eq(process->comm, "chosen");
        bench_end(&bench);
        stop(&child);
}

Test(search, comes_back_a_second_after_a_notice_and_then_rests) {
        Child child = start("late", body_publish);
        uint64_t now_ns = clock_monotonic_ns(), next_ns = 0;
        Search *search;

        cr_assert_eq(search_new(&search), 0);
        cr_assert_eq(search_quick(search, now_ns, found, &child.pid), 0);
        cr_assert_eq(search_add(search, child.pid, child.start_time_ns - 1234567, now_ns), 0);
        for (int i = 0; i < 1000 && next_ns < now_ns + NS_PER_SEC / 2; i++)
                cr_assert_eq(search_work(search, now_ns += NS_PER_MS, found, &child.pid, &next_ns), 0);
        cr_assert_eq(n_found, 0);
        cr_assert_geq(next_ns, now_ns + NS_PER_SEC / 2);        /* the second look */
        cr_assert_neq(next_ns, UINT64_MAX);
        go_on(&child);                  /* the notice had come before the writer's first store */
        cr_assert_eq(search_work(search, next_ns, found, &child.pid, &next_ns), 0);
        cr_assert_eq(n_found, 1);
        cr_assert_eq(search_count(search), 0);
        cr_assert_eq(next_ns, UINT64_MAX);
        search_free(search);
        stop(&child);
}

Test(search, rests_after_two_full_searches_and_forgets_later) {
        Child child = start("silent", NULL);
        uint64_t now_ns = clock_monotonic_ns(), next_ns = now_ns;
        Search *search;

        stat_reset();
        cr_assert_eq(search_new(&search), 0);
        cr_assert_eq(search_quick(search, now_ns, found, &child.pid), 0);
        cr_assert_eq(search_add(search, child.pid, child.start_time_ns - 1234567, now_ns), 0);
        for (int i = 0; i < 10000 && next_ns != UINT64_MAX; i++) {
                now_ns = next_ns;
                cr_assert_eq(search_work(search, now_ns, found, &child.pid, &next_ns), 0);
        }
        cr_assert_eq(next_ns, UINT64_MAX);
        cr_assert_eq(stat_get(COUNTER_RING_SCANS), 2);
        cr_assert_eq(search_count(search), 1);
        cr_assert_eq(search_work(search, now_ns + 600 * NS_PER_SEC, found, &child.pid, &next_ns), 0);
        cr_assert_eq(search_count(search), 0);
        search_free(search);
        stop(&child);
}

Test(search, is_bounded) {
        uint64_t now_ns = clock_monotonic_ns();
        Search *search;

        stat_reset();
        cr_assert_eq(search_new(&search), 0);
        for (uint32_t i = 1; i <= 33000; i++)
                cr_assert_eq(search_add(search, i, 1, now_ns), 0);
        cr_assert_eq(search_count(search), 32768);
        cr_assert_eq(stat_get(COUNTER_RING_SCANS_SKIPPED), 232);
        search_remove(search, 17);
        cr_assert_eq(search_count(search), 32767);
        search_free(search);
}
