/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <unistd.h>

#include "targets-bench.h"

Test(targets, finds_publishers_in_the_pass_over_proc) {
        Member child = start("publisher", body_publish), silent = start("silent", NULL);
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
        Member child = start("late", body_publish);
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
        Member child = start("withdraw", body_publish_and_withdraw);
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
        Member child = start("gone", NULL);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        Bench bench;

        stop(&child);
        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        cr_assert_eq(targets_missing_pid(bench.targets), child.pid);
        cr_assert_eq(targets_count(bench.targets), 0);
        bench_end(&bench);
}

Test(targets, misses_no_pid_that_is_excluded) {
        const SelectorRule by_name = { .kind = SELECTOR_KIND_COMM, .pattern = "spared" };
        Member wanted = start("wanted", NULL), spared = start("spared", NULL);
        uint32_t pids[] = { spared.pid, wanted.pid };
        Selector selector = { .pids = pids, .n_pids = 2, .exclude_rules = &by_name, .n_exclude_rules = 1 };
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        cr_assert_eq(targets_missing_pid(bench.targets), 0);
        cr_assert_eq(targets_n_excluded_pids(bench.targets), 1);
        cr_assert_eq(targets_count(bench.targets), 1);
        bench_end(&bench);
        stop(&wanted);
        stop(&spared);
}

Test(targets, starts_a_new_generation_with_exec_and_sorts_samples_by_time) {
        Member child = start("before", body_exec);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        uint64_t before_ns, generation, next_ns;
        struct abi_notice exec;
        Process *process;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        generation = row_of(&bench.table, child.pid)->row.generation;
        before_ns = clock_monotonic_ns();
        exec_cat(&child);
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
        Member child = start("short", NULL);
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
        Member child = start("first", NULL), other = child;
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
        Member child = start("lost", NULL);
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
        Member yes, no;
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

                cr_assert_eq(targets_work(bench.targets, clock_monotonic_ns() + 11 * NS_PER_SEC, &next_ns),
                             0);
                cr_assert_null(row_of(&bench.table, no.pid));
        }
        bench_end(&bench);
        stop(&yes);
        stop(&no);
}

Test(targets, looks_at_a_rejected_process_again_when_it_execs) {
        static const char *const names[] = { "cat" };
        Selector selector = { .comms = names, .n_comms = 1 };
        Member child = start("other", body_exec);
        Process *process;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), TARGETS_E_REJECTED);
        exec_cat(&child);
        post(&bench, &child, ABI_NOTICE_EXEC, 0);
        cr_assert_eq(row_of(&bench.table, child.pid)->row.state, ABI_STATE_TARGET);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        cr_assert_str_eq(process->exe, "/usr/bin/cat");
        bench_end(&bench);
        stop(&child);
}

Test(targets, knows_a_process_that_is_gone_by_what_its_sample_says) {
        Selector selector = { .comms = chosen, .n_comms = 1 };
        Member child = start("chosen", NULL);
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
        cr_assert_eq(bench.table.n_set, 0, "the kernel half has no use for a row of it");

        /* Another thread's name is not the leader's. */
        sample = (struct abi_sample){ .start_time_ns = child.start_time_ns + NS_PER_SEC, .tgid = child.pid,
                                      .tid = child.pid + 1, .comm = "chosen" };
        cr_assert_eq(admit_sample(&bench, &sample, &process), TARGETS_E_REJECTED);
        bench_end(&bench);
}

Test(targets, looks_for_no_process_whose_exit_was_noticed) {
        Selector selector = { .comms = chosen, .n_comms = 1 };
        Member child = start("chosen", NULL), other = child;
        Process *process;
        Bench bench;

        bench_init(&bench, &selector, 0);
        other.start_time_ns -= NS_PER_SEC;
        post(&bench, &other, ABI_NOTICE_EXIT, 0);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        cr_assert_not_null(process->exe, "that was another process of this id");
        bench_end(&bench);

        bench_init(&bench, &selector, 0);
        post(&bench, &child, ABI_NOTICE_EXIT, 0);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        cr_assert_str_eq(process->comm, "chosen");
        cr_assert_null(process->exe, "it lives in fact, but /proc was not read");
        cr_assert_eq(bench.table.n_set, 0);
        bench_end(&bench);
        stop(&child);
}

static void *code;                      /* of this file in two processes, of another one in the child */

static void map_code(const char *path) {
        int fd = open(path, O_RDONLY);

        code = mmap(code, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | (code ? MAP_FIXED : 0), fd, 0);
        cr_assert_neq(code, MAP_FAILED);
        close(fd);
}

static void body_map_over(int ready, int go) {
        map_code("/usr/bin/true");
}

/* Its mappings are read after that. */
Test(targets, doubts_samples_of_a_forked_child_that_has_mapped_code_over_its_parents) {
        Selector selector = { .all = true };
        Process *process;
        ProcessAnswer answer;
        Member parent, child;
        uint64_t fork_ns;
        Bench bench;

        map_code("/proc/self/exe");
        parent = start("parent", NULL);
        bench_init(&bench, &selector, 0);
        cr_assert_eq(admit(&bench, &parent, clock_monotonic_ns(), &process), 0);
        fork_ns = clock_monotonic_ns();
        child = start("child", body_map_over);
        cr_assert_eq(targets_fork(bench.targets, child.pid, parent.pid, fork_ns), 0);
        go_on(&child);
        cr_assert_eq(admit(&bench, &child, fork_ns + 1, &process), 0);
        process_resolve(process, (uintptr_t)code, fork_ns + 1, &answer);
        cr_assert(answer.is_stale, "walked by its parent's rows");
        process_resolve(process, (uintptr_t)code, clock_monotonic_ns() + NS_PER_SEC, &answer);
        cr_assert_not(answer.is_stale);
        cr_assert_not_null(answer.mapping);
        cr_assert_not_null(strstr(answer.mapping->path, "true"));
        bench_end(&bench);
        stop(&child);
        stop(&parent);
}

/* What comes with the sample of @tgid at @time_ns, which has its control groups in common with @ancestor. */
static void send_start_below(Bench *bench, uint32_t tgid, uint64_t time_ns, const char *variable,
                             const Member *ancestor) {
        union {
                struct abi_start told;
                uint8_t room[sizeof(struct abi_start) + 64];
        } record = { .told = { .tgid = tgid, .time_ns = time_ns, .group_tgid = ancestor->pid,
                               .group_start_ns = ancestor->start_time_ns,
                               .n_environment = (uint32_t)strlen(variable) + 1 } };

        memcpy(record.told.bytes, variable, record.told.n_environment);
        targets_start(bench->targets, &record.told);
}

/* The same of a child of this process. */
static void send_start(Bench *bench, uint32_t tgid, uint64_t time_ns, const char *variable) {
        send_start_below(bench, tgid, time_ns, variable, &(Member){ .pid = (uint32_t)getpid() });
}

static const char *service_of(const Process *process) {
        return process->identity ? process->identity->environment.service_name : NULL;
}

Test(targets, knows_who_is_gone_by_what_came_with_its_first_sample) {
        const uint64_t now_ns = clock_monotonic_ns();
        Selector selector = { .all = true };
        Member child = start("chosen", NULL), other = start("chosen", NULL);
        struct abi_sample sample = { .time_ns = now_ns, .start_time_ns = child.start_time_ns,
                                     .tgid = child.pid, .tid = child.pid, .comm = "chosen",
                                     .has_start = 1 };
        Process *process;
        Bench bench;

        bench_init(&bench, &selector, 0);
        stop(&child);
        stop(&other);
        send_start(&bench, child.pid, now_ns, "OTEL_SERVICE_NAME=cart");
        cr_assert_eq(admit_sample(&bench, &sample, &process), 0);
        cr_assert_str_eq(service_of(process), "cart");
        cr_assert_eq(stat_get(COUNTER_STARTS_USED), 1);

        /* exec was under way at its first sample: the texts come with the next one */
        send_start(&bench, other.pid, now_ns + 10, "OTEL_SERVICE_NAME=shop");
        sample.tgid = sample.tid = other.pid;
        sample.start_time_ns = other.start_time_ns;
        sample.has_start = 0;
        cr_assert_eq(admit_sample(&bench, &sample, &process), 0);
        cr_assert_str_eq(service_of(process), "shop");
        cr_assert_eq(stat_get(COUNTER_STARTS_USED), 2);
        cr_assert_eq(stat_get(COUNTER_STARTS_MISSED), 0);
        bench_end(&bench);
}

static struct abi_sample sample_of(const Member *child, uint64_t time_ns, const char *comm) {
        struct abi_sample sample = { .time_ns = time_ns, .start_time_ns = child->start_time_ns,
                                     .tgid = child->pid, .tid = child->pid };

        strcpy(sample.comm, comm);
        return sample;
}

/* Its first sample comes without a start, and the start of the next program is read before its exec. */
Test(targets, takes_no_start_that_an_exec_may_lie_before) {
        static const char second_name[ABI_COMM_SIZE] = "second";
        const uint64_t now_ns = clock_monotonic_ns();
        Selector selector = { .all = true };
        Member child = start("first", NULL), other = start("second", NULL);
        struct abi_sample sample = sample_of(&child, now_ns - 10, "first");
        Process *first, *second;
        Bench bench;

        bench_init(&bench, &selector, 0);
        stop(&child);
        stop(&other);
        targets_execs_told(bench.targets, now_ns);
        send_start(&bench, child.pid, now_ns + 20, "OTEL_SERVICE_NAME=after");
        cr_assert_eq(admit_sample(&bench, &sample, &first), 0);
        cr_assert_null(service_of(first));

        cr_assert_eq(targets_exec_begins(bench.targets, child.pid, second_name, now_ns + 10), 0);
        targets_execs_told(bench.targets, now_ns + 30);
        sample = sample_of(&child, now_ns + 20, "second");
        sample.has_start = 1;
        cr_assert_eq(admit_sample(&bench, &sample, &second), 0);
        cr_assert_neq(second, first);
        cr_assert_str_eq(service_of(second), "after");
        cr_assert_null(service_of(first));

        /* its own exec, which was under way at its sample, ends it not */
        sample = sample_of(&other, now_ns - 10, "second");
        cr_assert_eq(admit_sample(&bench, &sample, &first), 0);
        cr_assert_eq(targets_exec_begins(bench.targets, other.pid, second_name, now_ns - 5), 0);
        sample.time_ns = now_ns;
        cr_assert_eq(admit_sample(&bench, &sample, &second), 0);
        cr_assert_eq(second, first);
        bench_end(&bench);
}

/* The start is read too early to be believed, and comes with a later sample. */
Test(targets, lets_its_own_start_replace_what_an_ancestor_has_lent) {
        const uint64_t now_ns = clock_monotonic_ns();
        Selector selector = { .all = true };
        Member child = start("forked", NULL);
        struct abi_sample sample = sample_of(&child, now_ns - 10, "forked");
        Process *process, *again;
        Bench bench;

        bench_init(&bench, &selector, 0);
        stop(&child);
        cr_assert_eq(targets_fork(bench.targets, child.pid, (uint32_t)getpid(), now_ns - 100), 0);
        targets_execs_told(bench.targets, now_ns);
        send_start(&bench, child.pid, now_ns + 20, "OTEL_SERVICE_NAME=own");
        cr_assert_eq(admit_sample(&bench, &sample, &process), 0);
        cr_assert(process->identity, "of this process, its parent");
        cr_assert_null(service_of(process));
        targets_execs_told(bench.targets, now_ns + 30);
        sample.time_ns = now_ns + 20;
        sample.has_start = 1;
        cr_assert_eq(admit_sample(&bench, &sample, &again), 0);
        cr_assert_eq(again, process);
        cr_assert_str_eq(service_of(process), "own");
        bench_end(&bench);
}

static Process *admitted(Bench *bench, struct abi_sample sample, const char *service) {
        char text[64];
        Process *process;

        if (service) {
                snprintf(text, sizeof(text), "OTEL_SERVICE_NAME=%s", service);
                send_start(bench, sample.tgid, sample.time_ns, text);
                sample.has_start = 1;
        }
        cr_assert_eq(admit_sample(bench, &sample, &process), 0);
        return process;
}

/* The record of an exec is there, and the notice that ends the old program is still to come. */
Test(targets, gives_no_program_a_sample_of_the_next_one_before_its_notice) {
        static const char second_name[ABI_COMM_SIZE] = "second";
        Selector selector = { .all = true };
        Member child = start("first", NULL);
        Process *first, *again;
        uint64_t exec_ns;
        Bench bench;

        bench_init(&bench, &selector, 0);
        first = admitted(&bench, sample_of(&child, clock_monotonic_ns(), "first"), NULL);
        exec_ns = clock_monotonic_ns() + 1000;
        cr_assert_eq(targets_exec_begins(bench.targets, child.pid, second_name, exec_ns), 0);
        cr_assert_eq(admit_sample(&bench, &(struct abi_sample){ .time_ns = exec_ns + 10,
                                                                .start_time_ns = child.start_time_ns,
                                                                .tgid = child.pid, .tid = child.pid,
                                                                .comm = "second" }, &again),
                     TARGETS_E_REJECTED);
        again = admitted(&bench, sample_of(&child, exec_ns - 500, "first"), NULL);
        cr_assert_eq(again, first);
        /* a thread may be called anything */
        cr_assert_eq(admit_sample(&bench, &(struct abi_sample){ .time_ns = exec_ns + 10,
                                                                .start_time_ns = child.start_time_ns,
                                                                .tgid = child.pid, .tid = child.pid + 1,
                                                                .comm = "second" }, &again), 0);
        stop(&child);
        bench_end(&bench);
}

/* The control group of a program that is gone, by its ancestor; "" = not known. */
static const char *group_of(Bench *bench, const Member *ancestor) {
        Member child = start("short", NULL);
        uint64_t now_ns = clock_monotonic_ns();
        struct abi_sample sample = { .time_ns = now_ns, .start_time_ns = child.start_time_ns,
                                     .tgid = child.pid, .tid = child.pid, .comm = "short", .has_start = 1 };
        Process *process;

        stop(&child);
        send_start_below(bench, child.pid, now_ns, "TERM=dumb", ancestor);
        cr_assert_eq(admit_sample(bench, &sample, &process), 0);
        return process->identity->cgroup ?: "";
}

Test(targets, knows_the_group_of_an_ancestor_that_has_ended_with_its_children) {
        Selector selector = { .all = true };
        Member ancestor = start("ancestor", NULL), other = start("other", NULL);
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_str_neq(group_of(&bench, &ancestor), "");
        stop(&ancestor);
        stop(&other);
        usleep(1200000);                /* it is to be read again, and cannot be */
        cr_assert_str_neq(group_of(&bench, &ancestor), "");
        cr_assert_str_eq(group_of(&bench, &other), "", "it was not read while it lived");
        ancestor.start_time_ns += NS_PER_SEC;
        cr_assert_str_eq(group_of(&bench, &ancestor), "", "another process of that id");
        usleep(2000000);
        ancestor.start_time_ns -= NS_PER_SEC;
        cr_assert_str_eq(group_of(&bench, &ancestor), "", "it may have moved since");
        bench_end(&bench);
}

/* The process lives, and what was sampled is over. */
Test(targets, tells_programs_apart_that_one_process_ran_before_anybody_looked) {
        static const char first_name[ABI_COMM_SIZE] = "first", second_name[ABI_COMM_SIZE] = "second";
        const uint64_t now_ns = clock_monotonic_ns();
        Selector selector = { .all = true };
        Member child = start("second", NULL);
        struct abi_sample sample = { .time_ns = now_ns - 50, .start_time_ns = child.start_time_ns,
                                     .tgid = child.pid, .tid = child.pid, .comm = "first",
                                     .has_start = 1 };
        Process *first, *second;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_exec_begins(bench.targets, child.pid, first_name, now_ns - 100), 0);
        cr_assert_eq(targets_exec_begins(bench.targets, child.pid, second_name, now_ns - 20), 0);
        send_start(&bench, child.pid, sample.time_ns, "OTEL_SERVICE_NAME=cart");
        cr_assert_eq(admit_sample(&bench, &sample, &first), 0);
        cr_assert_str_eq(first->comm, "first");
        cr_assert_str_eq(service_of(first), "cart");
        cr_assert_eq(bench.table.n_set, 0, "no row for what is over");

        strcpy(sample.comm, "second");
        sample.time_ns = now_ns;
        sample.has_start = 0;
        cr_assert_eq(admit_sample(&bench, &sample, &second), 0);
        cr_assert_str_eq(second->comm, "second");
        cr_assert_null(service_of(second));
        cr_assert_eq(bench.table.n_set, 1);
        sample.time_ns = now_ns - 30;
        strcpy(sample.comm, "first");
        cr_assert_eq(admit_sample(&bench, &sample, &second), 0);
        cr_assert_eq(second, first);
        stop(&child);
        bench_end(&bench);
}

Test(targets, gives_ticks_of_an_exec_that_is_under_way_to_the_new_program) {
        const char name[ABI_COMM_SIZE] = "cat";
        Selector selector = { .all = true };
        Member child = start("first", body_exec);
        struct abi_notice notice;
        uint64_t exec_ns;
        Process *first;
        Bench bench;

        bench_init(&bench, &selector, 0);
        first = admitted(&bench, sample_of(&child, clock_monotonic_ns(), "first"), "cart");
        exec_cat(&child);
        exec_ns = clock_monotonic_ns();
        cr_assert_eq(targets_exec_begins(bench.targets, child.pid, name, exec_ns), 0);
        notice = notice_of(&child, ABI_NOTICE_EXEC, 0);
        notice.time_ns = exec_ns + 100;
        cr_assert_eq(targets_notice(bench.targets, &notice), 0);
        cr_assert_str_eq(admitted(&bench, sample_of(&child, exec_ns + 50, name), NULL)->comm, name);
        cr_assert_str_eq(admitted(&bench, sample_of(&child, exec_ns - 1, name), NULL)->comm, name,
                         "it had the name a moment before that was told");
        cr_assert_eq(admitted(&bench, sample_of(&child, exec_ns - 1, "first"), NULL), first);
        stop(&child);
        bench_end(&bench);
}

Test(targets, asks_for_the_start_of_a_program_that_only_its_exec_has_told_of) {
        const char name[ABI_COMM_SIZE] = "cat";
        Selector selector = { .all = true };
        Member child = start("first", NULL), other = start("first", NULL), *both[] = { &child, &other };
        struct abi_notice notice;
        uint64_t now_ns;
        Bench bench;

        bench_init(&bench, &selector, 0);
        for (unsigned i = 0; i < 2; i++) {
                admitted(&bench, sample_of(both[i], clock_monotonic_ns(), "first"), "cart");
                cr_assert_eq(row_of(&bench.table, both[i]->pid)->row.flags, 0, "its own sample came with it");
                notice = notice_of(both[i], ABI_NOTICE_EXEC, 0);
                strcpy(notice.comm, name);
                cr_assert_eq(targets_notice(bench.targets, &notice), 0);
                cr_assert_eq(row_of(&bench.table, both[i]->pid)->row.flags, ABI_PROCESS_UNREAD);
        }
        now_ns = clock_monotonic_ns();
        admitted(&bench, sample_of(&other, now_ns, name), NULL);
        cr_assert_eq(row_of(&bench.table, other.pid)->row.flags, 0, "it was read while it lived");
        stop(&child);
        stop(&other);
        post(&bench, &child, ABI_NOTICE_EXIT, 0);
        cr_assert_str_eq(service_of(admitted(&bench, sample_of(&child, now_ns, name), "shop")), "shop");
        cr_assert_eq(stat_get(COUNTER_STARTS_USED), 1);
        cr_assert_eq(stat_get(COUNTER_STARTS_MISSED), 0);
        bench_end(&bench);
}

/* It runs the next one when it is looked at, of which no notice has told yet. */
Test(targets, takes_no_program_for_the_one_before_it) {
        const char name[ABI_COMM_SIZE] = "second";
        const uint64_t now_ns = clock_monotonic_ns();
        Selector selector = { .all = true };
        Member child = start("second", NULL);
        Process *first, *second;
        Bench bench;

        bench_init(&bench, &selector, 0);
        first = admitted(&bench, sample_of(&child, now_ns - 50, "first"), "cart");
        cr_assert_str_eq(first->comm, "first");
        cr_assert_str_eq(service_of(first), "cart");
        cr_assert_eq(bench.table.n_set, 0, "no row for what is over");
        cr_assert_eq(targets_exec_begins(bench.targets, child.pid, name, now_ns - 20), 0);
        second = admitted(&bench, sample_of(&child, now_ns - 10, name), NULL);
        cr_assert_str_eq(second->comm, name);
        cr_assert_null(service_of(second));
        cr_assert_eq(bench.table.n_set, 1);
        cr_assert_eq(admitted(&bench, sample_of(&child, now_ns - 30, "first"), NULL), first);
        bench_end(&bench);

        /* what a later sample brought may be the next program's */
        bench_init(&bench, &selector, 0);
        send_start(&bench, child.pid, now_ns - 10, "OTEL_SERVICE_NAME=shop");
        first = admitted(&bench, sample_of(&child, now_ns - 50, "first"), NULL);
        cr_assert_str_eq(first->comm, "first");
        cr_assert_null(service_of(first));
        stop(&child);
        bench_end(&bench);
}

Test(targets, takes_no_program_for_the_one_before_it_of_the_same_name) {
        const char name[ABI_COMM_SIZE] = "same";
        const uint64_t now_ns = clock_monotonic_ns();
        Selector selector = { .all = true };
        Member child = start("same", NULL);
        struct abi_notice notice;
        Process *first, *second;
        Bench bench;

        bench_init(&bench, &selector, 0);
        first = admitted(&bench, sample_of(&child, now_ns - 50, name), "cart");
        cr_assert_eq(targets_exec_begins(bench.targets, child.pid, name, now_ns - 20), 0);
        notice = notice_of(&child, ABI_NOTICE_EXEC, 0);
        notice.time_ns = now_ns - 15;
        cr_assert_eq(targets_notice(bench.targets, &notice), 0);
        second = admitted(&bench, sample_of(&child, now_ns - 10, name), NULL);
        cr_assert_neq(second, first);
        cr_assert_null(service_of(second));
        cr_assert_eq(admitted(&bench, sample_of(&child, now_ns - 30, name), NULL), first);

        /* a sample of the new one has found it already: the notice says nothing new */
        notice.time_ns = now_ns - 60;
        cr_assert_eq(targets_notice(bench.targets, &notice), 0);
        cr_assert_eq(admitted(&bench, sample_of(&child, now_ns - 10, name), NULL), second);
        stop(&child);
        bench_end(&bench);
}

/* The process lives, and its executable is another one than that of the program that was sampled. */
Test(targets, chooses_by_the_executable_that_ran_then) {
        const SelectorRule by_exe = { .kind = SELECTOR_KIND_EXE, .pattern = "cat" },
                           excluded[] = { { .kind = SELECTOR_KIND_UNIT, .pattern = "nothing" },
                                          { .kind = SELECTOR_KIND_EXE, .pattern = "cat" },
                                          { .kind = SELECTOR_KIND_EXE, .pattern = "first" },
                                          { .kind = SELECTOR_KIND_EXE, .pattern = "any" } };
        const char first[ABI_COMM_SIZE] = "first", cat[ABI_COMM_SIZE] = "cat";
        Selector selector = { .rules = &by_exe, .n_rules = 1 };
        Member child = start("first", body_exec);
        uint64_t now_ns = clock_monotonic_ns();
        MappingNotice notice = { .time_ns = now_ns - 90, .pid = child.pid, .tid = child.pid, .start = 4096,
                                 .size = 4096, .prot = PROT_EXEC, .path = "/bin/first", .path_size = 10 };
        struct abi_sample sample = sample_of(&child, now_ns - 50, first);
        Process *process;
        Bench bench;

        bench_init(&bench, &selector, 0);
        exec_cat(&child);
        cr_assert_eq(targets_exec_begins(bench.targets, child.pid, first, now_ns - 100), 0);
        cr_assert_eq(targets_mapping(bench.targets, &notice), 0);
        cr_assert_eq(targets_exec_begins(bench.targets, child.pid, cat, now_ns - 20), 0);
        cr_assert_eq(admit_sample(&bench, &sample, &process), TARGETS_E_REJECTED);
        cr_assert_null(row_of(&bench.table, child.pid), "what runs now is another matter");
        process = admitted(&bench, sample_of(&child, now_ns, cat), NULL);
        cr_assert_str_eq(process->exe, "/usr/bin/cat");
        bench_end(&bench);

        /* What is known of it leaves it out, or does not: nothing else. */
        for (unsigned i = 0; i < ARRAY_SIZE(excluded); i++) {
                selector = (Selector){ .all = true, .exclude_rules = &excluded[i], .n_exclude_rules = 1 };
                bench_init(&bench, &selector, 0);
                cr_assert_eq(targets_exec_begins(bench.targets, child.pid, first, now_ns - 100), 0);
                if (i < 3)
                        cr_assert_eq(targets_mapping(bench.targets, &notice), 0);
                cr_assert_eq(targets_exec_begins(bench.targets, child.pid, cat, now_ns - 20), 0);
                cr_assert_eq(admit_sample(&bench, &sample, &process), i < 2 ? 0 : TARGETS_E_REJECTED, "%u",
                             i);
                bench_end(&bench);
        }
        stop(&child);
}

/* Only another thread than the leader was sampled, and no notice tells of an exec or a fork. */
Test(targets, takes_who_is_gone_without_a_name_where_names_do_not_matter) {
        const SelectorRule by_name = { .kind = SELECTOR_KIND_COMM, .pattern = "other" };
        Selector selectors[] = { { .all = true },
                                 { .all = true, .exclude_rules = &by_name, .n_exclude_rules = 1 } };
        Member child = start("any", NULL);
        struct abi_sample sample = { .start_time_ns = child.start_time_ns,
                                     .tgid = child.pid,
                                     .tid = child.pid + 1,
                                     .comm = "of its own" };
        Process *process;
        Bench bench;

        stop(&child);
        bench_init(&bench, &selectors[0], 0);
        cr_assert_eq(admit_sample(&bench, &sample, &process), 0);
        cr_assert_eq(process->pid, child.pid);
        cr_assert_str_eq(process->comm, "");
        cr_assert_eq(stat_get(COUNTER_SAMPLES_UNATTRIBUTED), 1);
        cr_assert_eq(admit_sample(&bench, &sample, &process), 0);
        cr_assert_eq(stat_get(COUNTER_SAMPLES_UNATTRIBUTED), 2);
        bench_end(&bench);

        bench_init(&bench, &selectors[1], 0);
        cr_assert_eq(admit_sample(&bench, &sample, &process), TARGETS_E_REJECTED,
                     "it may be the one that is excluded");
        cr_assert_eq(stat_get(COUNTER_SAMPLES_UNATTRIBUTED), 0);
        bench_end(&bench);
}

Test(targets, takes_all_but_itself) {
        uint32_t self = (uint32_t)getpid();
        Selector selector = { .all = true, .excluded = &self, .n_excluded = 1 };
        Member child = start("any", NULL), me = { .pid = self };
        Process *process;
        Bench bench;

        member_identify(&me);
        bench_init(&bench, &selector, 0);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        cr_assert_gt(process->n_mappings, 0);
        cr_assert_eq(admit(&bench, &me, clock_monotonic_ns(), &process), TARGETS_E_REJECTED);
        cr_assert_eq(row_of(&bench.table, self)->row.state, ABI_STATE_REJECTED);
        bench_end(&bench);
        stop(&child);
}

Test(targets, holds_its_cap_and_counts_what_is_over_it) {
        Member a = start("chosen", NULL), b = start("chosen", NULL), c = start("chosen", NULL);
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

enum { N_HOLDERS = 3, HOLDER = 65534 }; /* as many as may be targets; a user that owns nothing */

static void body_other_user(int ready, int go) {
        if (setuid(HOLDER))
                _exit(1);
        say(ready);
        hear(go);
}

/* A process of a user with a sample. Return: whether it is a target then. */
static bool is_admitted(Bench *bench, const Member *member) {
        Process *process;
        int r = admit(bench, member, clock_monotonic_ns(), &process);

        cr_assert(!r || r == TARGETS_E_REJECTED);
        return !r;
}

Test(targets, of_the_user_with_most_give_way_to_another_and_are_asked_again) {
        Selector selector = { .comms = chosen, .n_comms = 1 };
        Member holders[N_HOLDERS + 1], other = start("chosen", NULL);
        unsigned n_rows = 0;
        uint64_t next_ns;
        Bench bench;

        if (geteuid())
                cr_skip_test("machine: not root, who makes processes of other users");
        bench_init(&bench, &selector, N_HOLDERS);
        for (unsigned i = 0; i <= N_HOLDERS; i++) {
                holders[i] = start("chosen", body_other_user);
                go_on(&holders[i]);
                cr_assert_eq(is_admitted(&bench, &holders[i]), i < N_HOLDERS);
        }
        cr_assert_eq(stat_get(COUNTER_TARGETS_OVER_CAP), 1);
        cr_assert(is_admitted(&bench, &other), "another user has its share");
        cr_assert_eq(targets_count(bench.targets), N_HOLDERS);
        cr_assert_eq(stat_get(COUNTER_TARGETS_OVER_CAP), 2);
        for (unsigned i = 0; i <= N_HOLDERS; i++)
                n_rows += row_of(&bench.table, holders[i].pid)->row.state == ABI_STATE_TARGET;
        cr_assert_eq(n_rows, N_HOLDERS - 1, "one of them is rejected, beside the one without room");

        /* The other one ends, and those that were rejected may be decided again. */
        post(&bench, &other, ABI_NOTICE_EXIT, 0);
        cr_assert_eq(targets_work(bench.targets, clock_monotonic_ns() + 20 * NS_PER_SEC, &next_ns), 0);
        n_rows = 0;
        for (unsigned i = 0; i <= N_HOLDERS; i++)
                n_rows += is_admitted(&bench, &holders[i]);
        cr_assert_eq(n_rows, N_HOLDERS, "all that there is room for");
        bench_end(&bench);
        for (unsigned i = 0; i <= N_HOLDERS; i++)
                stop(&holders[i]);
        stop(&other);
}

static void body_map_code(int ready, int go) {
        mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

Test(targets, reads_mappings_again_but_not_at_every_call) {
        Member child = start("maps", body_map_code);
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

static void body_map_crowd(int ready, int go) {
        enum { N = 40000 };             /* their lines are longer than what one turn allows */
        char *memory = mmap(NULL, (size_t)N * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        for (int i = 0; i < N; i += 2)
                mprotect(memory + (size_t)i * 4096, 4096, i % 16 ? PROT_NONE : PROT_READ | PROT_EXEC);
}

static bool is_read(Bench *bench, uint32_t tgid) {
        return !targets_is_reading(bench->targets);
}

/* Once the loop runs; and samples of the first turns wait for nobody. */
Test(targets, reads_very_many_mappings_in_turns) {
        Member child = start("maps", body_map_crowd);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        Process *process;
        uint64_t serial;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        serial = process->maps_serial;
        go_on(&child);
        cr_assert_eq(stat_get(COUNTER_MAPS_PAUSED), 0, "at the start there is time");
        targets_begin_turn(bench.targets);
        cr_assert_eq(targets_refresh(bench.targets, process), 0);
        cr_assert(targets_is_reading(bench.targets));
        cr_assert_eq(process->maps_serial, serial, "what is known stays in force");
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        work_until(&bench, is_read, child.pid);
        cr_assert(!targets_is_reading(bench.targets));
        cr_assert_neq(process->maps_serial, serial);
        cr_assert_gt(process->n_mappings, 40000 / 16);
        cr_assert_gt(stat_get(COUNTER_MAPS_PAUSED), 0);
        stop(&child);
        bench_end(&bench);
}

Test(targets, stops_to_read_who_is_gone) {
        Member child = start("maps", body_map_crowd);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        Process *process;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        go_on(&child);
        targets_begin_turn(bench.targets);
        cr_assert_eq(targets_refresh(bench.targets, process), 0);
        cr_assert(targets_is_reading(bench.targets));
        stop(&child);
        post(&bench, &child, ABI_NOTICE_EXIT, 0);
        cr_assert(!targets_is_reading(bench.targets));
        bench_end(&bench);
}

static void body_burn(int ready, int go) {
        struct timespec ts;

        do
                clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
        while (ts.tv_nsec < 50000000);
}

Test(targets, adds_up_the_cpu_time_of_the_living) {
        Member child = start("burn", body_burn);
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

/*
 * What a process changes of itself after it was decided is seen when it is decided anew: ten seconds later.
 */
Test(targets, decides_a_rejected_process_anew_after_ten_seconds) {
        Member child = start("other", body_rename);
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
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), TARGETS_E_REJECTED,
                     "of before it had the name");
        memcpy(child.comm, "chosen", sizeof("chosen"));
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        cr_assert_str_eq(process->comm, "chosen");
        bench_end(&bench);
        stop(&child);
}
