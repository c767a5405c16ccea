/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "child.h"
#include "core/base/util/stat.h"
#include "host/sampling/context/ring-slots.h"
#include "host/sampling/context/ring.h"
#include "oracle.h"
#include "spanprof/ring.h"
#include "stat-reset.h"

static const struct spanprof_ring_header good = { .magic = SPANPROF_RING_MAGIC, .version = 1, .capacity = 100,
                                                  .slot_size = 32 };

Test(ring_check_header, accepts_only_what_is_right_in_every_field) {
        struct spanprof_ring_header header;
        uint32_t capacity = 77;
        uint64_t end = 0x1000 + 32 + 100 * 32;

        cr_assert_eq(ring_check_header(&good, 0x1000, end, &capacity), RING_HEADER_VALID);
        cr_assert_eq(capacity, 100);
        cr_assert_eq(ring_check_header("LETO\1\0\0\0\144\0\0\0\40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
                                       0x1000, end, &capacity),
                     RING_HEADER_VALID);

        capacity = 77;
#define REFUSES(_change, _verdict) \
        do { \
                header = good; \
                _change; \
                cr_expect_eq(ring_check_header(&header, 0x1000, end, &capacity), _verdict, "%s", #_change); \
                cr_expect_eq(capacity, 77); \
        } while (0)
        REFUSES(header.magic++, RING_HEADER_ABSENT);
        REFUSES(header.magic = __builtin_bswap32(header.magic), RING_HEADER_ABSENT);
        REFUSES(header.version = 0, RING_HEADER_UNFINISHED);
        REFUSES(header.version = 2, RING_HEADER_INVALID);
        REFUSES(header.capacity = 0, RING_HEADER_INVALID);
        REFUSES(header.capacity = 101, RING_HEADER_INVALID);            /* one slot beyond its region */
        REFUSES(header.capacity = SPANPROF_RING_MAX_CAPACITY + 1, RING_HEADER_INVALID);
        REFUSES(header.capacity = UINT32_MAX, RING_HEADER_INVALID);
        REFUSES(header.slot_size = 0, RING_HEADER_INVALID);
        REFUSES(header.slot_size = 64, RING_HEADER_INVALID);
        for (int i = 0; i < 16; i++)
                REFUSES(header.reserved[i] = 1, RING_HEADER_INVALID);
#undef REFUSES
        cr_expect_eq(ring_check_header(&good, 0x1000, 0x1000, &capacity), RING_HEADER_INVALID);
        cr_expect_eq(ring_check_header(&good, UINT64_MAX - 8, UINT64_MAX, &capacity), RING_HEADER_INVALID);
        header = good;
        header.capacity = SPANPROF_RING_MAX_CAPACITY;
        cr_expect_eq(ring_check_header(&header, 0x1000, 0x1000 + 32 + (UINT64_C(1) << 29), &capacity),
                     RING_HEADER_VALID);
}

Test(ring_fault_text, has_words_for_each_fault_but_another_magic) {
        for (unsigned bit = RING_FAULT_VERSION; bit <= RING_FAULT_ROOM; bit <<= 1)
                cr_expect_not_null(ring_fault_text(bit), "%u", bit);
        cr_expect_str_eq(ring_fault_text(RING_FAULT_SLOT_SIZE), "its slot size is not 32");
        cr_expect_null(ring_fault_text(RING_FAULT_MAGIC));
        cr_expect_null(ring_fault_text(RING_FAULT_VERSION | RING_FAULT_ROOM));
}

enum { RING_SIZE = 64 << 10 };

static char *anonymous(size_t size) {
        char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED)
                _exit(1);
        return p;
}

/* Where a child put its ring: the same address in the parent, which has the page shared. */
static volatile uint64_t *shared_address;

static bool by_entry;

static int find(const Child *child, bool quick, uint64_t *addressp, uint32_t *capacityp) {
        RingBudget budget = { .n_entries = 1 << 30, .n_reads = 1 << 30, .by_entry = by_entry };
        RingSearch search = { 0 };

        return ring_find(child->pid, 0, quick, &search, &budget, addressp, capacityp);
}

static void share(void) {
        shared_address = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void ring_of_its_own(int ready, int go) {
        char *p = anonymous(RING_SIZE);

        memcpy(p, &good, sizeof(good));
        *shared_address = (uintptr_t)p;
}

Test(ring_find, finds_a_ring_and_sees_it_go) {
        uint64_t address = 0;
        uint32_t capacity = 0;
        Child child;

        share();
        child = child_start(ring_of_its_own);
        cr_assert_eq(find(&child, false, &address, &capacity), 0);
        cr_assert_eq(address, *shared_address);
        cr_assert_eq(capacity, 100);
        cr_assert_eq(ring_check(child.pid, address, 100), 0);
        cr_assert_eq(ring_check(child.pid, address, 101), RING_E_NONE);         /* another ring by now */
        cr_assert_eq(ring_check(child.pid, address + 4096, 100), RING_E_NONE);
        cr_assert_eq(ring_check(child.pid, 0x1000, 100), RING_E_NONE);          /* unmapped */
        child_stop(&child);
        cr_assert_eq(ring_check(child.pid, address, 100), RING_E_GONE);
        cr_assert_eq(find(&child, false, &address, &capacity), RING_E_GONE);
}

/* After "go" the page is empty, and who reads it waits until this process answers, which it never does. */
static void ring_that_traps(int ready, int go) {
        int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
        struct uffdio_api api = { .api = UFFD_API };
        struct uffdio_register trap = { .mode = UFFDIO_REGISTER_MODE_MISSING };
        char *p = anonymous(RING_SIZE);

        memcpy(p, &good, sizeof(good));
        *shared_address = (uintptr_t)p;
        say(ready);
        hear(go);
        trap.range = (struct uffdio_range){ (uintptr_t)p, RING_SIZE };
        *shared_address = fd >= 0 && !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &trap);
        madvise(p, RING_SIZE, MADV_DONTNEED);
}

Test(ring_check, waits_for_no_target_that_took_the_page_away, .timeout = 10) {
        uint64_t address;
        Child child;

        share();
        child = child_start(ring_that_traps);
        address = *shared_address;
        cr_assert_eq(ring_check(child.pid, address, 100), 0);
        child_go_on(&child);
        if (*shared_address)
                cr_assert_eq(ring_check(child.pid, address, 100), RING_E_NONE);
        child_stop(&child);
        if (!*shared_address)
                cr_skip_test("no userfaultfd here that stops the kernel's own reads");
}

/*
 * In the middle of a larger region, as the kernel joins neighbours: a search from region to region would miss
 * it.
 */
static void ring_inside(int ready, int go) {
        char *p = anonymous(8 << 20);

        memcpy(p + (5 << 20) + 4096, &good, sizeof(good));
        memcpy(p + (3 << 20) + 32, &good, sizeof(good));                /* not at a page: no ring */
        *shared_address = (uintptr_t)p + (5 << 20) + 4096;
}

Test(ring_find, finds_a_ring_inside_of_a_joined_region_in_the_full_search) {
        uint64_t address = 0;
        uint32_t capacity;
        Child child;

        share();
        child = child_start(ring_inside);
        cr_assert_eq(find(&child, true, &address, &capacity), RING_E_NONE);
        cr_assert_eq(find(&child, false, &address, &capacity), 0);
        cr_assert_eq(address, *shared_address);
        child_stop(&child);
}

/* ---- memory of a guest ---- */

enum { GUEST_SIZE = 128 << 20, GUEST_CAPACITY = 65536 };

static const struct spanprof_ring_header usual = {
        .magic = SPANPROF_RING_MAGIC, .version = 1, .capacity = GUEST_CAPACITY, .slot_size = 32
};

static void put_slot(char *ring, uint32_t tid, uint64_t span_id) {
        struct spanprof_ring_slot *slots = (void *)(ring + sizeof(usual));

        slots[tid % GUEST_CAPACITY].span_id = span_id;
}

/* A guest's pages lie in any order: behind the first page of its ring there is what other programs have. */
static void guest_of_small_pages(int ready, int go) {
        char *p = anonymous(GUEST_SIZE), *ring = p + GUEST_SIZE / 2;

        for (size_t i = 0; i < 2 << 20; i++)
                ring[4096 + i] = (char)(i * 2654435761u >> 13);
        memcpy(ring, &usual, sizeof(usual));
        *shared_address = (uintptr_t)ring;
}

/* Nor at the start of a region, nor in a small one. */
static void copy_of_a_first_page(int ready, int go) {
        char *ring = anonymous(4 << 20);

        memset(ring + 4096, '*', 1 << 20);
        memcpy(ring, &usual, sizeof(usual));
        *shared_address = (uintptr_t)ring;
}

static void check_none(void (*child_main)(int ready, int go)) {
        uint64_t address = 0;
        uint32_t capacity;
        Child child;

        share();
        stat_reset();
        child = child_start(child_main);
        cr_expect_eq(find(&child, false, &address, &capacity), RING_E_NONE);
        cr_expect_geq(stat_get(COUNTER_RING_INVALID), 1);
        child_stop(&child);
}

Test(ring_find, takes_no_header_whose_slots_are_none) {
        check_none(guest_of_small_pages);
        check_none(copy_of_a_first_page);
}

/* In a huge page all of it is in one piece. Its threads have other ids; then the process has a span, too. */
static void guest_of_huge_pages(int ready, int go) {
        char *p = anonymous(GUEST_SIZE), *ring = p + GUEST_SIZE / 2;

        memcpy(ring, &usual, sizeof(usual));
        for (uint32_t i = 1; i < 200; i++)
                put_slot(ring, (uint32_t)getpid() + i, 0x1234);
        *shared_address = (uintptr_t)ring;
        say(ready);
        hear(go);
        put_slot(ring, (uint32_t)getpid(), 0x1234);
}

Test(ring_find, waits_for_a_thread_of_the_process_in_a_ring_amid_much_memory) {
        uint64_t address = 0;
        uint32_t capacity;
        Child child;

        share();
        stat_reset();
        child = child_start(guest_of_huge_pages);
        cr_assert_eq(find(&child, false, &address, &capacity), RING_E_FOREIGN);
        cr_assert_eq(find(&child, true, &address, &capacity), RING_E_NONE, "a quick look does not get there");
        cr_assert_eq(stat_get(COUNTER_RING_FOREIGN), 1);
        child_go_on(&child);
        cr_assert_eq(find(&child, false, &address, &capacity), 0);
        cr_assert_eq(address, *shared_address);
        cr_assert_eq(capacity, GUEST_CAPACITY);
        child_stop(&child);
}

Test(ring_slots, are_sound_whatever_their_ids_and_padding) {
        struct spanprof_ring_slot slots[3] = { { 0 },
                                               { UINT64_MAX, UINT64_MAX, UINT64_MAX, 1, { 7, 7 } },
                                               { .span_id = 1 } };

        cr_expect(ring_slots_are_sound(slots, 3));
        slots[2].in_use = 2;
        cr_expect_not(ring_slots_are_sound(slots, 3));
        cr_expect(ring_slots_are_sound(slots, 2));
}

static void many_pages(int ready, int go) {
        char *p = anonymous(64 << 20);

        memset(p, 1, 64 << 20);
        memcpy(p + (60 << 20), &good, sizeof(good));
        *shared_address = (uintptr_t)p + (60 << 20);
}

Test(ring_find, goes_on_where_the_budget_ended) {
        RingSearch search = { 0 };
        unsigned n_calls = 0;
        uint64_t address = 0;
        uint32_t capacity;
        Child child;
        int r;

        share();
        child = child_start(many_pages);
        do {
                RingBudget budget = { .n_entries = 1024, .n_reads = 1024 };

                r = ring_find(child.pid, 0, false, &search, &budget, &address, &capacity);
                n_calls++;
        } while (r == RING_E_MORE && n_calls < 1000);
        cr_assert_eq(r, 0);
        cr_assert_eq(address, *shared_address);
        cr_assert_gt(n_calls, 10);              /* 15,360 pages lie before it */
        child_stop(&child);
}

/* ---- the same process again ---- */

static int find_again(const Child *child, SeenPages *seen, uint64_t *addressp) {
        RingBudget budget = { .n_entries = 1 << 30, .n_reads = 1 << 30, .by_entry = by_entry };
        RingSearch search = { .seen = seen };
        uint32_t capacity;

        return ring_find(child->pid, 0, false, &search, &budget, addressp, &capacity);
}

/* A buffer in the middle of much memory; then a ring where it was, and maps look as before. */
static void ring_in_place_of_a_buffer(int ready, int go) {
        enum { SIZE = 64 << 20, BUFFER = 2 << 20 };
        char *p = anonymous(SIZE), *buffer = p + SIZE / 2;

        memset(p, 1, SIZE);
        say(ready);
        hear(go);
        munmap(buffer, BUFFER);
        buffer = mmap(buffer, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        say(ready);
        hear(go);
        memcpy(buffer, &good, sizeof(good));
        *shared_address = (uintptr_t)buffer;
}

static void check_again(void) {
        SeenPages seen = { 0 };
        uint64_t address = 0, n_first;
        Child child;

        share();
        stat_reset();
        child = child_start(ring_in_place_of_a_buffer);
        cr_assert_eq(find_again(&child, &seen, &address), RING_E_NONE);
        n_first = stat_get(COUNTER_RING_PAGES_READ);
        cr_assert_geq(n_first, 16384);
        cr_assert_eq(find_again(&child, &seen, &address), RING_E_NONE);
        /* the 16,384 pages are not empty; under ASan many others are */
        cr_assert_leq(stat_get(COUNTER_RING_PAGES_READ), 2 * n_first - 16384, "only what was empty");
        cr_assert_geq(stat_get(COUNTER_RING_PAGES_KNOWN), 16384);
        child_go_on(&child);
        cr_assert_eq(find_again(&child, &seen, &address), RING_E_NONE, "an absent page");
        child_go_on(&child);
        cr_assert_eq(find_again(&child, &seen, &address), 0);
        cr_assert_eq(address, *shared_address);
        cr_assert_leq(stat_get(COUNTER_RING_PAGES_READ), 2 * n_first - 16384 + 3000);
        seen_pages_deinit(&seen);
        child_stop(&child);
}

Test(ring_find, reads_a_page_once_and_finds_a_ring_that_came_later) {
        check_again();
}

Test(ring_find, reads_a_page_once_on_kernels_before_6_7) {
        by_entry = true;
        check_again();
}

/* All between two searches: the ring's first page was known, the next ones have gone. */
static void ring_at_once_in_place_of_a_buffer(int ready, int go) {
        enum { SIZE = 64 << 20, BUFFER = 2 << 20 };
        char *p = anonymous(SIZE), *buffer = p + SIZE / 2;

        memset(p, 1, SIZE);
        say(ready);
        hear(go);
        munmap(buffer, BUFFER);
        buffer = mmap(buffer, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        memcpy(buffer, &good, sizeof(good));
        *shared_address = (uintptr_t)buffer;
}

Test(ring_find, finds_a_ring_at_an_address_that_was_read_before) {
        SeenPages seen = { 0 };
        uint64_t address = 0;
        Child child;

        share();
        child = child_start(ring_at_once_in_place_of_a_buffer);
        cr_assert_eq(find_again(&child, &seen, &address), RING_E_NONE);
        child_go_on(&child);
        cr_assert_eq(find_again(&child, &seen, &address), 0);
        cr_assert_eq(address, *shared_address);
        seen_pages_deinit(&seen);
        child_stop(&child);
}

/* A header whose magic is written last is an empty page until then. */
static void magic_comes_last(int ready, int go) {
        struct spanprof_ring_header *header = (void *)(anonymous(64 << 20) + (32 << 20));

        *header = good;
        header->magic = 0;
        say(ready);
        hear(go);
        header->magic = SPANPROF_RING_MAGIC;
        *shared_address = (uintptr_t)header;
}

Test(ring_find, finds_a_ring_whose_magic_came_last) {
        SeenPages seen = { 0 };
        uint64_t address = 0;
        Child child;

        share();
        child = child_start(magic_comes_last);
        cr_assert_eq(find_again(&child, &seen, &address), RING_E_NONE);
        child_go_on(&child);
        cr_assert_eq(find_again(&child, &seen, &address), 0);
        cr_assert_eq(address, *shared_address);
        seen_pages_deinit(&seen);
        child_stop(&child);
}

/*
 * The ring lies behind so many mappings that it takes turns to get there, in front of them for who goes
 * upwards.
 */
static void ring_behind_a_crowd(int ready, int go) {
        enum { N = 5000 };
        char *p = anonymous(2 * N * 4096 + RING_SIZE);

        for (int i = 0; i < N; i++)
                mprotect(p + 2 * i * 4096, 4096, PROT_READ);
        p += 2 * N * 4096;
        mprotect(p - 4096, 4096, PROT_NONE);    /* not one region with it */
        memcpy(p, &good, sizeof(good));
        *shared_address = (uintptr_t)p;
}

Test(ring_find, goes_on_in_the_middle_of_maps) {
        RingSearch search = { 0 };
        unsigned n_turns = 0;
        uint64_t address = 0;
        uint32_t capacity;
        Child child;
        int r;

        share();
        stat_reset();
        child = child_start(ring_behind_a_crowd);
        do {
                size_t left = 0;
                RingBudget budget = { .n_entries = 1 << 30, .n_reads = 1 << 30, .text_leftp = &left };

                r = ring_find(child.pid, 0, true, &search, &budget, &address, &capacity);
                cr_assert_eq(!search.paused, r != RING_E_MORE);
                n_turns++;
        } while (r == RING_E_MORE && n_turns < 1000);
        cr_assert_eq(r, 0);
        cr_assert_eq(address, *shared_address);
        cr_assert_gt(n_turns, 3);
        cr_assert_eq(stat_get(COUNTER_MAPS_PAUSED), n_turns - 1);
        child_stop(&child);
}

/* Its descriptors are those of a process that is gone: another one with its id is nobody it knows. */
Test(ring_find, ends_with_a_process_that_goes_between_two_turns) {
        RingSearch search = { 0 };
        size_t left = 0;
        RingBudget budget = { .n_entries = 1 << 30, .n_reads = 1 << 30, .text_leftp = &left };
        uint64_t address;
        uint32_t capacity;
        Child child;

        share();
        child = child_start(ring_behind_a_crowd);
        cr_assert_eq(ring_find(child.pid, 0, true, &search, &budget, &address, &capacity), RING_E_MORE);
        child_stop(&child);
        cr_assert_eq(ring_find(child.pid, 0, true, &search, &budget, &address, &capacity), RING_E_GONE);
        cr_assert_null(search.paused);
        ring_search_stop(&search);
}

static void half_written(int ready, int go) {
        char *p = anonymous(RING_SIZE);

        memcpy(p, &good.magic, 4);
        say(ready);
        hear(go);
        memcpy(p, &good, sizeof(good));
}

Test(ring_find, comes_back_for_a_header_that_is_being_written) {
        uint64_t address = 0;
        uint32_t capacity;
        Child child = child_start(half_written);

        cr_assert_eq(find(&child, true, &address, &capacity), RING_E_UNFINISHED);
        cr_assert_eq(find(&child, false, &address, &capacity), RING_E_UNFINISHED);
        cr_assert_eq(address, 0);
        child_go_on(&child);
        cr_assert_eq(find(&child, true, &address, &capacity), 0);
        child_stop(&child);
}

/* Every field wrong once, in a region each (a page between them keeps the kernel from joining them). */
static void wrong_rings(int ready, int go) {
        char *p = anonymous(64 * 4096);

        for (int i = 0; i < 5; i++) {
                struct spanprof_ring_header header = good;

                header.version += i == 0;
                /* 128 slots and the header: 32 bytes too long */
                header.capacity = i == 1 ? 0 : i == 2 ? 128 : 10;
                header.slot_size += i == 3;
                header.reserved[15] = i == 4;
                memcpy(p + 2 * i * 4096, &header, sizeof(header));
                mprotect(p + (2 * i + 1) * 4096, 4096, PROT_NONE);
        }
}

Test(ring_find, counts_wrong_headers_and_takes_none) {
        uint64_t address = 0;
        uint32_t capacity = 7;
        Child child = child_start(wrong_rings);

        stat_reset();
        cr_assert_eq(find(&child, true, &address, &capacity), RING_E_NONE);
        cr_assert_eq(address, 0);
        cr_assert_eq(capacity, 7);
        cr_assert_eq(stat_get(COUNTER_RING_INVALID), 5);
        child_stop(&child);
}

static void memfd_ring(int ready, int go) {
        int fd = memfd_create(SPANPROF_RING_NAME, 0);
        char *p;

        if (ftruncate(fd, RING_SIZE))
                _exit(1);
        p = mmap(NULL, RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        memcpy(p, &good, sizeof(good));
        *shared_address = (uintptr_t)p;
        memcpy(anonymous(RING_SIZE), &good, sizeof(good));      /* a nameless one: the name comes first */
}

Test(ring_find, prefers_a_region_with_the_name) {
        uint64_t address = 0;
        uint32_t capacity;
        Child child;

        share();
        child = child_start(memfd_ring);
        cr_assert_eq(find(&child, true, &address, &capacity), 0);
        cr_assert_eq(address, *shared_address);
        child_stop(&child);
}

static unsigned long status_field(pid_t pid, const char *name) {
        char command[128], line[128];

        snprintf(command, sizeof(command), "awk '/^%s:/ {print $2}' /proc/%d/status", name, (int)pid);
        return oracle_line(command, line, sizeof(line)) ? strtoul(line, NULL, 10) : 0;
}

/* A child that has said that it is ready still runs to where it waits, and touches pages on its way. */
static void wait_until_asleep(pid_t pid) {
        char command[64], line[8];

        snprintf(command, sizeof(command), "awk '/^State:/ {print $2}' /proc/%d/status", (int)pid);
        do
                cr_assert(oracle_line(command, line, sizeof(line)));
        while (line[0] != 'S');
}

static void reserves_much(int ready, int go) {
        char *p = mmap(NULL, UINT64_C(8) << 30, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (p == MAP_FAILED)
                _exit(1);
        p[UINT64_C(4) << 30] = 1;
        memcpy(p + (UINT64_C(6) << 30), &good, sizeof(good));
        /* its own thread's slot: without one it could be a guest's */
        ((struct spanprof_ring_slot *)(p + (UINT64_C(6) << 30) + sizeof(good)))[getpid() % 100].span_id = 1;
        *shared_address = (uintptr_t)p + (UINT64_C(6) << 30);
}

static void check_untouched(void) {
        unsigned long rss, tables;
        uint64_t address = 0;
        uint32_t capacity;
        Child child;

        share();
        child = child_start(reserves_much);
        wait_until_asleep(child.pid);
        rss = status_field(child.pid, "VmRSS");
        tables = status_field(child.pid, "VmPTE");
        cr_assert_gt(rss, 0);
        cr_assert_gt(tables, 0);
        cr_assert_eq(find(&child, false, &address, &capacity), 0);
        cr_assert_eq(address, *shared_address);
        cr_assert_eq(status_field(child.pid, "VmRSS"), rss);
        cr_assert_eq(status_field(child.pid, "VmPTE"), tables);
        child_stop(&child);
}

Test(ring_find, leaves_untouched_memory_untouched) {
        check_untouched();
}

Test(ring_find, leaves_untouched_memory_untouched_on_kernels_before_6_7) {
        by_entry = true;
        check_untouched();
}

/* As a program with AddressSanitizer: the search meets the shadow first. The budget is that of 4 GiB. */
static void has_a_shadow(int ready, int go) {
        char *p = anonymous(8 << 20);
        char *shadow = mmap(NULL, UINT64_C(1) << 40, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (shadow == MAP_FAILED || shadow > p)
                _exit(1);
        memcpy(p + (4 << 20), &good, sizeof(good));
        *shared_address = (uintptr_t)p + (4 << 20);
}

Test(ring_find, gets_past_reserved_terabytes_on_kernels_before_6_7) {
        RingBudget budget = { .n_entries = 1 << 20, .n_reads = 1 << 20, .by_entry = true };
        RingSearch search = { 0 };
        uint64_t address = 0;
        uint32_t capacity;
        Child child;

        share();
        child = child_start(has_a_shadow);
        cr_assert_eq(ring_find(child.pid, 0, false, &search, &budget, &address, &capacity), 0);
        cr_assert_eq(address, *shared_address);
        child_stop(&child);
}

Test(ring_find, knows_a_process_by_its_start) {
        RingBudget budget = { .n_entries = 1 << 20, .n_reads = 1 << 20 };
        RingSearch search = { 0 };
        uint64_t address;
        uint32_t capacity;
        Child child;

        share();
        child = child_start(ring_of_its_own);
        cr_assert_eq(ring_find(child.pid, 10000000, true, &search, &budget, &address, &capacity),
                     RING_E_GONE);
        child_stop(&child);
}
