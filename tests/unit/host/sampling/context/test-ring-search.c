/* SPDX-License-Identifier: Apache-2.0 */

/* Looking for who publishes, and the sweep that looks for what notices should have told. */

#include <sys/resource.h>

#include "stat-reset.h"
#include "targets-bench.h"

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
        Member child = start("late", body_publish);
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
        targets_noticed(bench.targets, UINT64_MAX);
        cr_assert_geq(stat_get(COUNTER_SWEEP_FOUND), 1);
        cr_assert_eq(stat_get(COUNTER_SWEEP_RESYNCS), 1);
        cr_assert_gt(stat_get(COUNTER_SWEEP_LOOKED), 1);
        bench_end(&bench);
        stop(&child);
}

/* A ring amid much memory may be a guest's, until a thread of the process has a slot in it. */
static void body_guest(int ready, int go) {
        enum { SIZE = 256 << 20 };
        const struct spanprof_ring_header header = {
                .magic = SPANPROF_RING_MAGIC, .version = 1, .capacity = 1024, .slot_size = 32
        };
        char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct spanprof_ring_slot *slots = (void *)(p + SIZE / 2 + sizeof(header));

        if (p == MAP_FAILED)
                _exit(1);
        memcpy(p + SIZE / 2, &header, sizeof(header));
        slots[(getpid() + 1) % 1024].span_id = 1;
        say(ready);
        hear(go);
        slots[getpid() % 1024].span_id = 1;
}

Test(targets, comes_back_to_a_ring_that_may_be_of_a_guest) {
        Member child = start("guest", body_guest);
        Selector selector = { 0 };
        Bench bench;

        go_on(&child);
        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        work_for(&bench, 30 * NS_PER_SEC);
        cr_assert(!has_ring(&bench, child.pid));
        cr_assert_geq(stat_get(COUNTER_RING_FOREIGN), 2);
        cr_assert_leq(stat_get(COUNTER_RING_FOREIGN), 8, "less and less often");
        go_on(&child);
        work_for(&bench, 70 * NS_PER_SEC);
        cr_assert(has_ring(&bench, child.pid));
        bench_end(&bench);
        stop(&child);
}

Test(targets, comes_by_everybody_in_time_though_no_notice_was_lost) {
        Member child = start("late", body_publish);
        Selector selector = { 0 };
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        work_for(&bench, 2 * NS_PER_SEC);
        go_on(&child);
        work_for(&bench, 24 * 3600 * NS_PER_SEC);       /* 46,000 processes */
        cr_assert(has_ring(&bench, child.pid));
        targets_noticed(bench.targets, UINT64_MAX);
        cr_assert_geq(stat_get(COUNTER_SWEEP_FOUND), 1);
        cr_assert_leq(stat_get(COUNTER_SWEEP_LOOKED), 24 * 120 * 16);
        bench_end(&bench);
        stop(&child);
}

/*
 * Whoever lets processes come and go so fast that notices are lost all the time does not keep us busy with
 * that.
 */
Test(targets, rests_between_looks_at_everybody) {
        Selector selector = { .all = true };    /* nobody is searched */
        uint64_t now_ns, end_ns, next_ns, n_once;
        Bench bench;

        bench_init(&bench, &selector, 0);
        targets_resync_notices(bench.targets);
        work_for(&bench, 900 * NS_PER_MS);
        n_once = stat_get(COUNTER_SWEEP_LOOKED);
        cr_assert_gt(n_once, 1, "at once");
        now_ns = clock_monotonic_ns() + 2 * NS_PER_SEC;
        for (end_ns = now_ns + 120 * NS_PER_SEC; now_ns < end_ns; now_ns = next_ns) {
                targets_resync_notices(bench.targets);
                cr_assert_eq(targets_work(bench.targets, now_ns, &next_ns), 0);
                cr_assert_gt(next_ns, now_ns);
        }
        cr_assert_gt(stat_get(COUNTER_SWEEP_LOOKED), 2 * n_once, "but again and again");
        cr_assert_lt(stat_get(COUNTER_SWEEP_LOOKED), 300 * n_once);
        bench_end(&bench);
}

Test(targets, finds_the_new_program_of_an_exec_whose_notice_was_lost) {
        Member child = start("chosen", body_exec);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        uint64_t before_ns;
        Process *process;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        exec_cat(&child);
        before_ns = clock_monotonic_ns();
        targets_resync_notices(bench.targets);
        work_for(&bench, 10 * NS_PER_SEC);
        cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
        cr_assert_str_eq(process->comm, "cat");
        cr_assert_not_null(strstr(process->exe, "/cat"));
        cr_assert_eq(stat_get(COUNTER_TARGETS_EXEC), 1);
        targets_noticed(bench.targets, before_ns);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 0, "its notice may be on its way");
        targets_noticed(bench.targets, clock_monotonic_ns() + 10 * NS_PER_SEC);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 1);
        bench_end(&bench);
        stop(&child);
}

/* Notices wait in a ring: one that was posted in time may come after the sweep has been there. */
Test(targets, claims_no_program_for_the_sweep_whose_notice_was_waiting) {
        Member child = start("chosen", body_exec);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };
        struct abi_notice waiting;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        exec_cat(&child);
        waiting = notice_of(&child, ABI_NOTICE_EXEC, 0);
        targets_resync_notices(bench.targets);
        work_for(&bench, 10 * NS_PER_SEC);
        cr_assert_eq(stat_get(COUNTER_TARGETS_EXEC), 1);
        cr_assert_eq(targets_notice(bench.targets, &waiting), 0);
        targets_noticed(bench.targets, UINT64_MAX);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 0);
        cr_assert_eq(stat_get(COUNTER_TARGETS_EXEC), 1);
        bench_end(&bench);
        stop(&child);
}

Test(targets, claims_no_publisher_for_the_sweep_whose_notice_was_waiting) {
        Member child = start("late", body_publish);
        Selector selector = { .pids = &child.pid, .n_pids = 1 };        /* there may be other publishers */
        struct abi_notice waiting;
        Bench bench;

        bench_init(&bench, &selector, 0);
        cr_assert_eq(targets_scan(bench.targets), 0);
        work_for(&bench, 2 * NS_PER_SEC);
        go_on(&child);
        waiting = notice_of(&child, ABI_NOTICE_MAPPINGS, 0);
        targets_resync_notices(bench.targets);
        work_for(&bench, 10 * NS_PER_SEC);
        cr_assert(has_ring(&bench, child.pid));
        cr_assert_eq(targets_notice(bench.targets, &waiting), 0);
        targets_noticed(bench.targets, UINT64_MAX);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 0);
        bench_end(&bench);
        stop(&child);
}

Test(search, says_when_who_was_added_is_old_enough) {
        Member child = start("late", body_publish);
        uint64_t now_ns = clock_monotonic_ns(), next_ns, due_ns;
        Search *search;

        cr_assert_eq(search_new(&search), 0);
        cr_assert_eq(search_asked_ns(search), UINT64_MAX);
        cr_assert_eq(search_quick(search, now_ns, found, &child.pid), 0);
        cr_assert_eq(search_add(search, child.pid, clock_read_ns(CLOCK_BOOTTIME) - 1, now_ns), 0);
        due_ns = search_asked_ns(search);
        cr_assert_gt(due_ns, now_ns + 25 * NS_PER_MS);
        cr_assert_leq(due_ns, now_ns + 30 * NS_PER_MS);
        cr_assert_eq(search_work(search, now_ns, found, &child.pid, &next_ns), 0);
        cr_assert_eq(search_asked_ns(search), UINT64_MAX, "it is known when to come");
        cr_assert_eq(next_ns, due_ns);
        search_free(search);
        stop(&child);
}

Test(search, comes_back_a_second_after_a_notice_and_then_rests) {
        Member child = start("late", body_publish);
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
        Member child = start("silent", NULL);
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

/* Hand-overs to the thread of bounded calls. */
static long n_waits(void) {
        struct rusage usage;

        getrusage(RUSAGE_THREAD, &usage);
        return usage.ru_nvcsw;
}

Test(search, looks_and_searches_in_one_go_where_both_are_due) {
        Member first = start("silent", NULL), second = start("silent", NULL);
        uint64_t now_ns = clock_monotonic_ns(), next_ns;
        Search *search;
        long before;

        stat_reset();
        cr_assert_eq(search_new(&search), 0);
        cr_assert_eq(search_quick(search, now_ns, found, &first.pid), 0);
        cr_assert_eq(search_add(search, first.pid, first.start_time_ns - 1234567, now_ns), 0);
        cr_assert_eq(search_work(search, now_ns + NS_PER_SEC, found, &first.pid, &next_ns), 0);
        cr_assert_eq(search_add(search, second.pid, second.start_time_ns - 1234567, now_ns), 0);
        before = n_waits();
        cr_assert_eq(search_work(search, now_ns + NS_PER_SEC, found, &second.pid, &next_ns), 0);
#ifndef __SANITIZE_ADDRESS__            /* it has more mappings, and shadow */
        cr_assert_leq(n_waits() - before, 2, "%ld", n_waits() - before);
        cr_assert_eq(stat_get(COUNTER_RING_SCANS), 2);
#endif
        search_free(search);
        stop(&first);
        stop(&second);
}

/* Most programs that have just begun end before. */
Test(search, looks_at_a_process_when_it_is_a_little_older) {
        Member child = start("late", body_publish);
        uint64_t now_ns, boot_ns, next_ns = 0;
        Search *search;

        go_on(&child);
        cr_assert_eq(search_new(&search), 0);
        cr_assert_eq(search_quick(search, clock_monotonic_ns(), found, &child.pid), 0);
        now_ns = clock_monotonic_ns();
        boot_ns = clock_read_ns(CLOCK_BOOTTIME);
        cr_assert_eq(search_add(search, child.pid, boot_ns, now_ns), 0);
        cr_assert_eq(search_work(search, now_ns, found, &child.pid, &next_ns), 0);
        cr_assert_gt(next_ns, now_ns + 10 * NS_PER_MS);
        cr_assert_leq(next_ns, now_ns + 30 * NS_PER_MS);
        cr_assert_eq(search_count(search), 1, "it was not looked at, else it is another process");
        cr_assert_eq(search_work(search, next_ns, found, &child.pid, &next_ns), 0);
        cr_assert_eq(search_count(search), 0);
        search_free(search);
        stop(&child);
}

static void body_with_much_memory(int ready, int go) {
        char *p = mmap(NULL, 512 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        for (size_t i = 0; i < 512 << 20; i += 4096)
                p[i] = 1;
}

/* As a compiler beside us, which fills memory all the time. */
Test(search, reads_only_so_much_of_processes_that_come_later) {
        Member child = start("much", body_with_much_memory);
        uint64_t now_ns, next_ns, begin_ns;
        Search *search;

        go_on(&child);
        now_ns = next_ns = clock_monotonic_ns();
        stat_reset();
        cr_assert_eq(search_new(&search), 0);
        cr_assert_eq(search_quick(search, now_ns, found, &child.pid), 0);
        cr_assert_eq(search_add(search, child.pid, child.start_time_ns - 1234567, now_ns), 0);
        while (!stat_get(COUNTER_RING_SCANS_POSTPONED)) {
                cr_assert_neq(next_ns, UINT64_MAX);
                now_ns = next_ns;
                cr_assert_eq(search_work(search, now_ns, found, &child.pid, &next_ns), 0);
        }
        cr_assert_leq(stat_get(COUNTER_RING_PAGES_READ), 70000);
        cr_assert_eq(stat_get(COUNTER_RING_SCANS), 0);
        for (begin_ns = now_ns; !stat_get(COUNTER_RING_SCANS); now_ns = next_ns)
                cr_assert_eq(search_work(search, now_ns, found, &child.pid, &next_ns), 0);
        cr_assert_geq(now_ns - begin_ns, 10 * NS_PER_SEC, "but it gets there");
        cr_assert_leq(now_ns - begin_ns, 40 * NS_PER_SEC);
        search_free(search);
        stop(&child);
}

Test(search, reads_at_once_what_was_there_at_the_start) {
        Member child = start("much", body_with_much_memory);
        uint64_t now_ns, next_ns;
        Search *search;

        go_on(&child);
        now_ns = next_ns = clock_monotonic_ns();
        stat_reset();
        cr_assert_eq(search_new(&search), 0);
        cr_assert_eq(search_add(search, child.pid, child.start_time_ns - 1234567, now_ns), 0);
        cr_assert_eq(search_quick(search, now_ns, found, &child.pid), 0);
        while (!stat_get(COUNTER_RING_SCANS)) {
                cr_assert_neq(next_ns, UINT64_MAX);
                now_ns = next_ns;
                cr_assert_eq(search_work(search, now_ns, found, &child.pid, &next_ns), 0);
        }
        cr_assert_geq(stat_get(COUNTER_RING_PAGES_READ), 131072);
        cr_assert_eq(stat_get(COUNTER_RING_SCANS_POSTPONED), 0);
        search_free(search);
        stop(&child);
}

/* ---- programs of a kind ---- */

enum { KIND = 17, OTHER_KIND = 19 };

/* Three programs of this kind that have lived for two seconds each. */
static void end_three(Search *search, uint64_t kind, uint64_t now_ns) {
        for (uint32_t tgid = 1; tgid <= 3; tgid++) {
                cr_assert_eq(search_add(search, tgid, tgid, now_ns), 0);
                search_set_kind(search, tgid, tgid, kind);
                search_remove(search, tgid, now_ns + 2 * NS_PER_SEC);
        }
}

/* A search to which KIND is known, after its first time. */
static Search *search_of_kind(Member *child, uint64_t now_ns) {
        Search *search;

        cr_assert_eq(search_new(&search), 0);
        cr_assert_eq(search_quick(search, now_ns, found, &child->pid), 0);
        end_three(search, KIND, now_ns);
        return search;
}

static void add_kind(Search *search, const Member *child, uint64_t kind, uint64_t now_ns) {
        cr_assert_eq(search_add(search, child->pid, child->start_time_ns - 1234567, now_ns), 0);
        search_set_kind(search, child->pid, child->start_time_ns - 1234567, kind);
}

/* When the first full search of a program that was added at @now_ns is over. */
static uint64_t full_search_ns(Search *search, Member *child, uint64_t now_ns) {
        uint64_t next_ns = now_ns;

        for (stat_reset(); !stat_get(COUNTER_RING_SCANS);) {
                cr_assert_neq(next_ns, UINT64_MAX);
                now_ns = next_ns;
                cr_assert_eq(search_work(search, now_ns, found, &child->pid, &next_ns), 0);
        }
        return now_ns;
}

Test(search, searches_a_program_later_whose_like_end_soon_and_publish_nothing) {
        Member child = start("silent", NULL), other = start("silent", NULL);
        uint64_t now_ns = clock_monotonic_ns();
        Search *search;

        search = search_of_kind(&child, now_ns);
        add_kind(search, &other, OTHER_KIND, now_ns);
        cr_assert_lt(full_search_ns(search, &other, now_ns), now_ns + NS_PER_SEC, "of it nothing is known");
        search_remove(search, other.pid, now_ns);
        add_kind(search, &child, KIND, now_ns);
        cr_assert_geq(full_search_ns(search, &child, now_ns), now_ns + 4 * NS_PER_SEC);
        search_free(search);
        stop(&child);
        stop(&other);
}

Test(search, looks_at_once_at_a_program_that_is_searched_later) {
        Member child = start("late", body_publish);
        uint64_t now_ns = clock_monotonic_ns() + NS_PER_SEC, next_ns;
        Search *search;

        go_on(&child);
        search = search_of_kind(&child, now_ns);
        add_kind(search, &child, KIND, now_ns);
        cr_assert_eq(search_work(search, now_ns + 30 * NS_PER_MS, found, &child.pid, &next_ns), 0);
        cr_assert_eq(n_found, 1);
        search_free(search);
        stop(&child);
}

/* Three programs of this kind end after a look at each has found nothing. */
static void end_looked_at(Search *search, Member *children, uint64_t now_ns) {
        uint64_t next_ns;

        for (int i = 0; i < 3; i++) {
                children[i] = start("silent", NULL);
                add_kind(search, &children[i], KIND, now_ns);
                cr_assert_eq(search_work(search, now_ns + 30 * NS_PER_MS, found, &children[i].pid, &next_ns),
                             0);
                search_remove(search, children[i].pid, now_ns + 2 * NS_PER_SEC);
        }
        cr_assert_eq(n_found, 0);
}

/* How long after its begin a program of the kind is looked at, which publishes. */
static uint64_t look_ns(Search *search, Member *child, uint64_t now_ns) {
        uint64_t next_ns = now_ns, at_ns;

        add_kind(search, child, KIND, now_ns);
        n_found = 0;
        do {
                at_ns = next_ns;
                cr_assert_eq(search_work(search, at_ns, found, &child->pid, &next_ns), 0);
        } while (!n_found);
        return at_ns - now_ns;
}

Test(search, looks_later_at_a_program_whose_like_end_soon_and_publish_nothing) {
        Member child = start("late", body_publish), children[3];
        uint64_t now_ns = clock_monotonic_ns() + NS_PER_SEC, late_ns;
        Search *search;

        go_on(&child);
        search = search_of_kind(&child, now_ns);
        end_looked_at(search, children, now_ns);
        late_ns = look_ns(search, &child, now_ns);
        cr_assert_geq(late_ns, 300 * NS_PER_MS);
        cr_assert_lt(late_ns, NS_PER_SEC, "earlier than its like have ended");
        cr_assert_lt(look_ns(search, &child, now_ns), 100 * NS_PER_MS, "one of them publishes by now");
        search_free(search);
        stop(&child);
        for (int i = 0; i < 3; i++)
                stop(&children[i]);
}

/* Four programs of one file that end at once: how many of them are searched later. */
static uint64_t n_put_off(const Selector *selector) {
        Process *process;
        Member child;
        Bench bench;

        bench_init(&bench, selector, 0);
        work_for(&bench, NS_PER_SEC);   /* the start is over */
        for (int i = 0; i < 4; i++) {
                child = start("short", NULL);
                cr_assert_eq(admit(&bench, &child, clock_monotonic_ns(), &process), 0);
                post(&bench, &child, ABI_NOTICE_EXIT, 0);
                stop(&child);
        }
        bench_end(&bench);
        return stat_get(COUNTER_RING_SCANS_PUT_OFF);
}

Test(targets, searches_later_of_all_programs_alone_those_whose_like_have_ended) {
        const char *const comms[] = { "short" };
        Selector all = { .all = true }, by_comm = { .comms = comms, .n_comms = 1 };

        cr_assert_eq(n_put_off(&all), 1);
        cr_assert_eq(n_put_off(&by_comm), 0, "it was asked for");
}

Test(search, looks_seldom_at_a_program_that_is_searched_later) {
        Member child = start("late", body_publish);
        uint64_t now_ns = clock_monotonic_ns() + NS_PER_SEC, next_ns;
        Search *search;

        search = search_of_kind(&child, now_ns);
        add_kind(search, &child, KIND, now_ns);
        cr_assert_eq(search_work(search, now_ns + 30 * NS_PER_MS, found, &child.pid, &next_ns), 0);
        go_on(&child);
        cr_assert_eq(search_add(search, child.pid, child.start_time_ns - 1234567, now_ns + NS_PER_SEC), 0);
        cr_assert_eq(search_work(search, now_ns + NS_PER_SEC, found, &child.pid, &next_ns), 0);
        cr_assert_eq(n_found, 0);
        cr_assert_gt(next_ns, now_ns + NS_PER_SEC);
        cr_assert_lt(next_ns, now_ns + 4 * NS_PER_SEC, "a look, not a full search");
        cr_assert_eq(search_work(search, next_ns, found, &child.pid, &next_ns), 0);
        cr_assert_eq(n_found, 1);
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
        search_remove(search, 17, clock_monotonic_ns());
        cr_assert_eq(search_count(search), 32767);
        search_free(search);
}

Test(search, a_process_that_was_searched_gives_its_place_to_one_that_was_not) {
        Member sleeper = start("sleeper", body_publish), late = start("late", body_publish);
        uint64_t now_ns = clock_monotonic_ns(), next_ns = now_ns;
        Search *search;

        stat_reset();
        n_found = 0;
        cr_assert_eq(search_new(&search), 0);
        cr_assert_eq(search_add(search, sleeper.pid, sleeper.start_time_ns - 1234567, now_ns), 0);
        while (next_ns != UINT64_MAX)
                cr_assert_eq(search_work(search, next_ns, found, &late.pid, &next_ns), 0);
        go_on(&late);
        for (uint32_t i = 1; i < 32768; i++)
                cr_assert_eq(search_add(search, (1 << 22) + i, 1, now_ns), 0, "nobody has such a pid");
        cr_assert_eq(search_count(search), 32768);
        cr_assert_eq(search_add(search, late.pid, late.start_time_ns - 1234567, now_ns), 0);
        cr_assert_eq(stat_get(COUNTER_RING_SCANS_SKIPPED), 0);
        cr_assert_eq(search_add(search, 1 << 23, 1, now_ns), 0);
        cr_assert_eq(stat_get(COUNTER_RING_SCANS_SKIPPED), 1, "none of the others was searched");
        for (int i = 0; i < 100 && !n_found; i++)
                cr_assert_eq(search_work(search, now_ns += NS_PER_SEC, found, &late.pid, &next_ns), 0);
        cr_assert_eq(n_found, 1);
        search_free(search);
        stop(&sleeper);
        stop(&late);
}
