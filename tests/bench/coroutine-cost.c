/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What coroutine stations cost, the best of many short rounds, so that other work on the machine hardly
 * shows: an event for the program (sdk), a look at an idle station, an event for the reader, a line of a
 * trace.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/util/clock.h"
#include "coro/station/region-scan.h"
#include "coro/trace/trace-line.h"
#include "coro/trace/trace-writer.h"
#include "spanprof/coroutine.h"

enum { ROUNDS = 40 };

static char path[] = "/dev/shm/spanprof-bench-XXXXXX";

static uint64_t least(uint64_t a, uint64_t b) {
        return MIN(a, b);
}

static void bench_sdk(void) {
        struct spanprof_coroutine c;
        uint64_t best = UINT64_MAX;

        setenv(SPANPROF_STATION_ENV_REGION, path, 1);
        if (spanprof_coroutine_start())
                abort();
        spanprof_coroutine_begin(&c, 1);
        for (int round = 0; round < 10 * ROUNDS; round++) {
                uint64_t begin = clock_monotonic_ns();

                for (int i = 0; i < 500; i++) {
                        spanprof_coroutine_suspend(&c, &c);
                        spanprof_coroutine_resume(&c);
                }
                best = least(best, clock_monotonic_ns() - begin);
        }
        printf("%-40s %8.1f ns\n", "sdk: one event", (double)best / 1000);
}

static int count(void *userdata, const CoroEvent *event) {
        ++*(uint64_t *)userdata;
        return 0;
}

/* One event of each of @n stations. */
static void write_one(Region *region, uint32_t n, uint64_t number) {
        struct spanprof_station *stations = (struct spanprof_station *)region->header + 1;
        uint64_t now = clock_monotonic_ns();

        for (uint32_t i = 0; i < n; i++) {
                stations[i].probe_id = 0x7000 + 16 * i;
                stations[i].birth_ns = now - now % NS_PER_SEC;
                stations[i].epochs[station_epoch_of(STATION_DIALECT_SEQLOCK, number)] =
                        (struct spanprof_epoch){ .time_ns = now + i,
                                                 .tid = 4711,
                                                 .address = number % 2 ? 0 : 0x7F0055D0ABC0 + 64 * i,
                                                 .seq = station_seq_of(STATION_DIALECT_SEQLOCK, number),
                                                 .is_active = number % 2 };
        }
}

static void write_all(Region *region, uint32_t n, uint64_t lap) {
        struct spanprof_station *stations = (struct spanprof_station *)region->header + 1;
        uint64_t now = clock_monotonic_ns();

        for (uint32_t i = 0; i < n; i++)
                for (unsigned k = 0; k < SPANPROF_STATION_EPOCHS; k++) {
                        struct spanprof_epoch *epoch = &stations[i].epochs[k];

                        *epoch = (struct spanprof_epoch){ .time_ns = now,
                                                          .tid = 7,
                                                          .address = 1,
                                                          .seq = 2 * (lap + 1),
                                                          .is_active = k & 1 };
                }
}

static void bench_harvest(uint32_t n) {
        uint64_t now = clock_monotonic_ns(), idle = UINT64_MAX, busy = UINT64_MAX, n_events = 0;
        Region *region = NULL;
        RegionScanFound found;
        RegionScan scan;

        if (region_create(&region, path, n, 0600) ||
            region_scan_init(&scan, region, STATION_DIALECT_SEQLOCK, false))
                abort();
        region->header->allocated_count = n;
        for (uint64_t round = 0; round < (n > 100000 ? 5 : ROUNDS); round++) {
                uint64_t begin;

                write_all(region, n, round);
                begin = clock_monotonic_ns();
                region_scan_run(&scan, now + NS_PER_SEC, count, &n_events, &found);
                busy = least(busy, clock_monotonic_ns() - begin);
                for (int i = 0; i < 10; i++) {
                        begin = clock_monotonic_ns();
                        region_scan_run(&scan, now, count, &n_events, &found);
                        idle = least(idle, clock_monotonic_ns() - begin);
                }
        }
        printf("%9" PRIu32 " stations: a look at an idle one  %8.2f ns, all %.3f ms; an event %6.1f ns\n", n,
               (double)idle / n, (double)idle / 1e6, (double)busy / n / 8);
        region_scan_deinit(&scan);
        region_free(region);
}

static int queue(void *userdata, const CoroEvent *event) {
        CoroEvent **at = userdata;

        *(*at)++ = *event;
        return 0;
}

/* What an evenly loaded engine does: a suspend and a resume of each station at each scan, and their lines. */
static void bench_even(uint32_t n) {
        static CoroEvent events[8192];
        TraceOptions options = { .extra = true, .mode = 0600 };
        uint64_t read = UINT64_MAX, print = UINT64_MAX;
        _cleanup_(trace_writer_freep) TraceWriter *writer = NULL;
        Region *region = NULL;
        RegionScanFound found;
        RegionScan scan;

        if (region_create(&region, path, n, 0600) ||
            region_scan_init(&scan, region, STATION_DIALECT_SEQLOCK, false) ||
            trace_writer_new(&writer, "/dev/null", TRACE_JSONL, &options))
                abort();
        region->header->allocated_count = n;
        scan.follow = true;
        for (uint64_t turn = 0; turn < 50 * ROUNDS; turn++) {
                CoroEvent *end = events;
                uint64_t begin, middle;

                write_one(region, n, 2 * turn);
                write_one(region, n, 2 * turn + 1);
                usleep(10);
                begin = clock_monotonic_ns();
                region_scan_run(&scan, begin, queue, &end, &found);
                middle = clock_monotonic_ns();
                for (CoroEvent *event = events; event < end; event++)
                        trace_writer_event(writer, event);
                print = least(print, clock_monotonic_ns() - middle);
                read = least(read, middle - begin);
        }
        printf("%9" PRIu32 " stations, two events each: read %.1f ns, made a line %.1f ns an event\n", n,
               (double)read / n / 2, (double)print / n / 2);
        region_scan_deinit(&scan);
        region_free(region);
}

static void bench_print(void) {
        CoroEvent event = { .probe_id = 140737488346032,
                            .tid = 4711,
                            .address = 0x7F0055D0ABC0,
                            .seq = 6,
                            .time_ns = 987654321012345 };
        uint64_t json = UINT64_MAX, csv = UINT64_MAX;
        TraceParts json_parts = { 0 }, csv_parts = { 0 };
        static char line[TRACE_LINE_MAX];

        for (int round = 0; round < 10 * ROUNDS; round++) {
                uint64_t begin = clock_monotonic_ns(), middle;

                for (int i = 0; i < 1000; i++)
                        trace_print_jsonl(line, &event, true, &json_parts);
                middle = clock_monotonic_ns();
                for (int i = 0; i < 1000; i++)
                        trace_print_csv(line, &event, true, &csv_parts);
                csv = least(csv, clock_monotonic_ns() - middle);
                json = least(json, middle - begin);
        }
        printf("%-40s %8.1f ns\n%-40s %8.1f ns\n", "a line of JSON", (double)json / 1000, "a line of CSV",
               (double)csv / 1000);
}

int main(void) {
        Region *region = NULL;

        if (mkstemp(path) < 0 || unlink(path) || region_create(&region, path, 16, 0600))
                return 77;
        bench_sdk();
        region_free(region);
        bench_print();
        bench_even(1024);
        bench_harvest(1000);
        bench_harvest(10000);
        bench_harvest(100000);
        bench_harvest(1000000);
        unlink(path);
        return 0;
}
