/* SPDX-License-Identifier: Apache-2.0 */

/* A search as one job of the thread that makes bounded calls, and what such a job leaves over. */

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "child.h"
#include "core/base/thread/bounded-call.h"
#include "core/base/util/stat.h"
#include "host/sampling/context/ring.h"
#include "spanprof/ring.h"
#include "spanprof/station.h"
#include "stat-reset.h"

enum { PAGE = 4096, RING_SIZE = 64 << 10, BIG = 64 << 20 };

static const struct spanprof_ring_header good = { .magic = SPANPROF_RING_MAGIC, .version = 1, .capacity = 100,
                                                  .slot_size = 32 };
static volatile uint64_t *shared_address;       /* what a child says */

static void share(void) {
        shared_address = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static char *anonymous(size_t size) {
        char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED)
                _exit(1);
        return p;
}

static int find(pid_t pid, bool quick, RingSearch *search, uint64_t *addressp) {
        RingBudget budget = { .n_entries = 1 << 30, .n_reads = 1 << 30 };
        uint32_t capacity;

        return ring_find(pid, 0, quick, search, &budget, addressp, &capacity);
}

/* Hand-overs: each time this thread waits for the other one, on the CPU that both run on. */
static long n_waits(void) {
        struct rusage usage;

        getrusage(RUSAGE_THREAD, &usage);
        return usage.ru_nvcsw;
}

/* Eight regions far from each other, none of them with a ring. */
static void regions_apart(int ready, int go) {
        for (int i = 0; i < 8; i++) {
                char *p = anonymous(BIG);

                mprotect(p, BIG, PROT_NONE);
                mprotect(p + BIG / 2, PAGE, PROT_READ | PROT_WRITE);
                p[BIG / 2] = 1;
        }
}

static void one_wait(bool quick) {
        const Child child = child_start(regions_apart);
        RingSearch search = { 0 };
        uint64_t address = 0;
        long before;

        cr_assert_eq(find(child.pid, quick, &search, &address), RING_E_NONE, "the thread is there from now on");
        stat_reset();
        before = n_waits();
        cr_assert_eq(find(child.pid, quick, &search, &address), RING_E_NONE);
        cr_assert_leq(n_waits() - before, 2, "%ld", n_waits() - before);
        cr_assert_geq(stat_get(COUNTER_RING_PAGES_READ), 8);
        child_stop(&child);
}

#ifndef __SANITIZE_ADDRESS__            /* it has more mappings, and shadow */
Test(ring_job, looks_at_a_small_process_by_one_bounded_call) {
        one_wait(true);
}

Test(ring_job, searches_a_small_process_by_one_bounded_call) {
        one_wait(false);
}
#endif

/* More pages than a job reads, and none of them twice. */
static void ring_behind_many_pages(int ready, int go) {
        char *p = anonymous(BIG);

        memset(p, 1, BIG);
        memcpy(p + BIG - RING_SIZE, &good, sizeof(good));
        *shared_address = (uintptr_t)p + BIG - RING_SIZE;
}

Test(ring_job, leaves_over_what_is_more_than_its_share) {
        RingSearch search = { 0 };
        uint64_t address = 0;
        Child child;

        share();
        stat_reset();
        child = child_start(ring_behind_many_pages);
        cr_assert_eq(find(child.pid, false, &search, &address), 0);
        cr_assert_eq(address, *shared_address);
        cr_assert_geq(stat_get(COUNTER_RING_PAGES_READ), (BIG - RING_SIZE) / PAGE);
        cr_assert_leq(stat_get(COUNTER_RING_PAGES_READ), BIG / PAGE + 6000, "others, of a sanitizer");
        child_stop(&child);
}

/* The budget of the caller ends within the job, and after it. */
static void budget_ends(uint64_t n_reads) {
        RingBudget budget = { .n_entries = 1 << 30, .n_reads = n_reads };
        RingSearch search = { 0 };
        uint64_t address = 0;
        uint32_t capacity;
        Child child;

        share();
        stat_reset();
        child = child_start(ring_behind_many_pages);
        cr_assert_eq(ring_find(child.pid, 0, false, &search, &budget, &address, &capacity), RING_E_MORE);
        cr_assert_eq(budget.n_reads, 0);
        cr_assert_lt(stat_get(COUNTER_RING_PAGES_READ), n_reads + 1024);
        cr_assert_neq(search.next, 0);
        cr_assert_eq(find(child.pid, false, &search, &address), 0, "it goes on there");
        cr_assert_eq(address, *shared_address);
        child_stop(&child);
}

Test(ring_job, ends_with_the_budget_of_its_caller) {
        budget_ends(600);
        budget_ends(1024);
        budget_ends(3000);
}

/* Maps that are longer than what a job reads; the ring is behind them. */
static void ring_behind_long_maps(int ready, int go) {
        enum { N = 600 };
        char *p = anonymous(2 * N * PAGE + RING_SIZE);

        for (int i = 0; i < N; i++)
                mprotect(p + 2 * i * PAGE, PAGE, PROT_READ);
        p += 2 * N * PAGE;
        mprotect(p - PAGE, PAGE, PROT_NONE);
        memcpy(p, &good, sizeof(good));
        *shared_address = (uintptr_t)p;
}

Test(ring_job, goes_on_where_the_first_piece_of_maps_ends) {
        uint64_t address = 0;
        Child child;

        share();
        stat_reset();
        child = child_start(ring_behind_long_maps);
        for (int quick = 0; quick < 2; quick++) {
                RingSearch search = { 0 };

                cr_assert_eq(find(child.pid, quick, &search, &address), 0);
                cr_assert_eq(address, *shared_address);
                address = 0;
        }
        cr_assert_eq(stat_get(COUNTER_MAPS_PAUSED), 0);
        child_stop(&child);
}

/* A page that is there and that no other process may read, in front of a ring that lies higher. */
static void secret_before_ring(int ready, int go) {
        int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
        char *ring = anonymous(RING_SIZE), *secret;

        memcpy(ring, &good, sizeof(good));
        if (fd < 0 || ftruncate(fd, 2 * SPANPROF_STATION_SIZE))
                return;
        secret = mmap(ring - RING_SIZE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
        if (secret == MAP_FAILED)
                return;
        secret[0] = 1;
        *shared_address = (uintptr_t)ring;
}

Test(ring_job, passes_over_a_header_that_cannot_be_read) {
        RingSearch search = { 0 };
        uint64_t address = 0;
        Child child;

        share();
        stat_reset();
        child = child_start(secret_before_ring);
        if (*shared_address) {
                cr_assert_eq(find(child.pid, true, &search, &address), 0);
                cr_assert_eq(address, *shared_address);
                cr_assert_eq(stat_get(COUNTER_READS_STUCK), 0);
        }
        child_stop(&child);
        if (!*shared_address)
                cr_skip_test("kernel: no secret memory here");
}

/* Processes that end at any moment of a look: whatever is seen of them, no ring is made up. */
Test(ring_job, ends_with_a_process_that_ends_in_the_middle) {
        unsigned n_gone = 0, n_none = 0;

        for (unsigned i = 0; i < 400; i++) {
                RingSearch search = { 0 };
                uint64_t address = 0;
                pid_t pid = fork();
                int r;

                if (!pid) {
                        for (volatile unsigned spin = 0; spin < i % 40 * 500; spin++)
                                ;
                        _exit(0);
                }
                do {
                        r = find(pid, i % 2, &search, &address);
                        cr_assert(r == RING_E_NONE || r == RING_E_GONE, "%d", r);
                        n_none += r == RING_E_NONE;
                } while (r == RING_E_NONE);
                n_gone++;
                cr_assert_eq(address, 0);
                cr_assert_null(search.paused);
                waitpid(pid, NULL, 0);
        }
        cr_assert_eq(n_gone, 400);
        cr_assert_gt(n_none, 0, "some were seen alive");
}

/* Nothing of a process is read while a call for it hangs, and nothing that was seen of it is lost. */
Test(ring_job, leaves_alone_who_holds_us_up, .timeout = 60) {
        SeenPages seen = { 0 };
        RingSearch search = { .seen = &seen };
        uint64_t address = 0, n_first;
        int silent[2];
        Child child;
        char byte;

        share();
        stat_reset();
        child = child_start(regions_apart);
        cr_assert_eq(pipe2(silent, O_CLOEXEC), 0);
        cr_assert_eq(find(child.pid, false, &search, &address), RING_E_NONE);
        n_first = stat_get(COUNTER_RING_PAGES_READ);
        cr_assert_gt(seen.n, 0);
        cr_assert_eq(bounded_read(child.pid, silent[0], &byte, 1, -1), -ETIMEDOUT);
        cr_assert_eq(find(child.pid, false, &search, &address), RING_E_DENIED);
        cr_assert_eq(stat_get(COUNTER_RING_PAGES_READ), n_first);
        cr_assert_eq(search.seen, &seen);
        close(silent[1]);
        while (bounded_n_stuck())
                usleep(1000);
        cr_assert_eq(find(child.pid, false, &search, &address), RING_E_NONE);
        seen_pages_deinit(&seen);
        child_stop(&child);
}
