/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "desk/coro/engine/event-queue.h"

enum { STATIONS = 3, SMALLEST = 4 << 20 };      /* bytes of the smallest queue */

static StationState states[2][STATIONS];
static Region regions[2];
static RegionScan scans[2];
static EventQueue *queue;

static void make_queue(uint64_t max_bytes) {
        memset(states, 0, sizeof(states));
        for (uint32_t k = 0; k < 2; k++) {
                regions[k].n_stations = STATIONS;
                scans[k] = (RegionScan){ .region = &regions[k],
                                         .states = states[k],
                                         .pid = 700 + k,
                                         .dialect = k ? STATION_DIALECT_DOCUMENT : STATION_DIALECT_SEQLOCK };
                for (uint32_t i = 0; i < STATIONS; i++)
                        states[k][i] = (StationState){ .probe_id = 1000 * (k + 1) + i, .birth_ns = 5 + i };
        }
        cr_assert_eq(event_queue_new(&queue, max_bytes, scans, 2), 0);
}

static void free_queue(void) {
        queue = event_queue_free(queue);
}

TestSuite(event_queue, .fini = free_queue);

static CoroEvent plain(uint64_t number) {
        return (CoroEvent){ .number = number, .time_ns = 10 + number, .tid = 77, .address = 0x1000 };
}

Test(event_queue, gives_events_back_whole) {
        CoroEvent largest = { .number = UINT64_MAX - 1,
                              .time_ns = UINT64_MAX,
                              .tid = UINT32_MAX,
                              .address = UINT64_MAX,
                              .n_lost = UINT64_MAX,
                              .station = 2,
                              .active = true,
                              .has_payload = true };
        CoroEvent event, small = plain(8);

        memset(largest.payload, 0xab, sizeof(largest.payload));
        make_queue(0);
        cr_assert(event_queue_is_empty(queue));
        cr_assert(event_queue_put(queue, 1, &largest));
        cr_assert(event_queue_put(queue, 0, &small));
        cr_assert_not(event_queue_is_empty(queue));

        cr_assert(event_queue_take(queue, scans, &event));
        cr_expect_eq(event.pid, 701);
        cr_expect_eq(event.probe_id, 2002);
        cr_expect_eq(event.birth_ns, 7);
        cr_expect_eq(event.number, largest.number);
        cr_expect_eq(event.seq, largest.number + 1);
        cr_expect_eq(event.time_ns, largest.time_ns);
        cr_expect_eq(event.tid, largest.tid);
        cr_expect_eq(event.address, largest.address);
        cr_expect_eq(event.n_lost, largest.n_lost);
        cr_expect_eq(event.station, 2);
        cr_expect(event.active);
        cr_assert(event.has_payload);
        cr_expect_arr_eq(event.payload, largest.payload, sizeof(largest.payload));

        cr_assert(event_queue_take(queue, scans, &event));
        cr_expect_eq(event.pid, 700);
        cr_expect_eq(event.probe_id, 1000);
        cr_expect_eq(event.number, 8);
        cr_expect_eq(event.seq, 4);             /* the second lap of the seqlock dialect */
        cr_expect_eq(event.n_lost, 0);
        cr_expect_not(event.active);
        cr_expect_not(event.has_payload);
        cr_expect_not(event_queue_take(queue, scans, &event));
}

/* Events of many sizes, so that the end of the ring is near in many ways. */
Test(event_queue, keeps_the_order_around_its_end) {
        uint64_t put = 0, taken = 0;
        CoroEvent event;

        make_queue(0);
        event = plain(put++);
        cr_assert(event_queue_put(queue, 0, &event));
        while (put < SMALLEST) {            /* 16 bytes each, with their parts */
                for (int i = 0; i < 2; i++) {
                        event = plain(put);
                        event.n_lost = put % 3;
                        event.has_payload = put % 5 == 0;
                        memset(event.payload, (int)(put % 251) + 1, sizeof(event.payload));
                        put += event_queue_put(queue, 0, &event);
                }
                for (int i = 0; i < 2 && put - taken > SMALLEST / 64; i++, taken++) {
                        cr_assert(event_queue_take(queue, scans, &event));
                        cr_assert_eq(event.number, taken);
                        cr_assert_eq(event.n_lost, taken ? taken % 3 : 0);
                        cr_assert_eq(event.has_payload, taken && taken % 5 == 0);
                        if (event.has_payload)
                                cr_assert_eq(event.payload[30], (uint8_t)(taken % 251 + 1));
                }
        }
        for (; event_queue_take(queue, scans, &event); taken++)
                cr_assert_eq(event.number, taken);
        cr_expect_eq(taken, put);
}

Test(event_queue, refuses_what_it_has_no_room_for) {
        CoroEvent event;
        uint64_t n = 0;

        make_queue(0);
        for (event = plain(0); event_queue_put(queue, 0, &event); event = plain(n))
                n++;
        cr_expect_gt(n, SMALLEST / 4 - 64);
        cr_expect_leq(n, SMALLEST / 4);
        for (uint64_t i = 0; i < n; i++) {
                cr_assert(event_queue_take(queue, scans, &event));
                cr_assert_eq(event.number, i);
        }
        cr_expect(event_queue_is_empty(queue));
        cr_expect(event_queue_put(queue, 0, &event));
}

/* Pages of this process that are in memory, in KiB. */
static long resident_kib(void) {
        FILE *file = fopen("/proc/self/smaps_rollup", "r");
        char line[256];
        long kib = -1;

        cr_assert(file);
        while (kib < 0 && fgets(line, sizeof(line), file))
                sscanf(line, "Anonymous: %ld", &kib);
        fclose(file);
        return kib;
}

Test(event_queue, gives_memory_back_when_it_is_empty) {
        long before, full, after;
        CoroEvent event = plain(0);

        make_queue(64 << 20);
        before = resident_kib();
        for (int i = 0; i < 5 << 20; i++)                 /* 12 bytes each: the number is always 0 */
                cr_assert(event_queue_put(queue, 0, &event));
        full = resident_kib();
        while (event_queue_take(queue, scans, &event))
                ;
        after = resident_kib();
        cr_expect_geq(full - before, 27 << 10, "%ld KiB more", full - before);
        cr_expect_leq(after - before, 4 << 10, "%ld KiB stay", after - before);
}

Test(event_queue, room_is_part_of_what_is_left) {
        FILE *file = fopen("/proc/meminfo", "r");
        char line[256];
        uint64_t kib = 0;

        cr_assert(file);
        while (fgets(line, sizeof(line), file) && sscanf(line, "MemTotal: %lu kB", &kib) != 1)
                ;
        fclose(file);
        cr_expect_gt(event_queue_room(), 0);
        cr_expect_leq(event_queue_room(), kib * 1024 / 8);
}
