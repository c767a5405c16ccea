/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What coroutine stations cost, the best of many short rounds, so that other work on the machine hardly shows:
 * an event for the program (sdk), a look at an idle station, an event for the reader, a line of a trace.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "coro/harvest.h"
#include "coro/trace.h"
#include "spanprof/coroutine.h"
#include "util/clock.h"

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

static void write_all(Region *region, uint32_t n, uint64_t lap) {
        struct spanprof_station *stations = (struct spanprof_station *)region->header + 1;
        uint64_t now = clock_monotonic_ns();

        for (uint32_t i = 0; i < n; i++)
                for (unsigned k = 0; k < SPANPROF_STATION_EPOCHS; k++) {
                        struct spanprof_epoch *epoch = &stations[i].epochs[k];

                        *epoch = (struct spanprof_epoch){ .time_ns = now, .tid = 7, .address = 1, .seq = 2 * (lap + 1), .is_active = k & 1 };
                }
}

static void bench_harvest(uint32_t n) {
        uint64_t now = clock_monotonic_ns(), idle = UINT64_MAX, busy = UINT64_MAX, n_events = 0;
        Region *region = NULL;
        HarvestFound found;
        Harvest harvest;

        if (region_create(&region, path, n, 0600) || harvest_init(&harvest, region, STATION_DIALECT_SEQLOCK, false))
                abort();
        region->header->allocated_count = n;
        for (uint64_t round = 0; round < (n > 100000 ? 5 : ROUNDS); round++) {
                uint64_t begin;

                write_all(region, n, round);
                begin = clock_monotonic_ns();
                harvest_scan(&harvest, now + NS_PER_SEC, count, &n_events, &found);
                busy = least(busy, clock_monotonic_ns() - begin);
                for (int i = 0; i < 10; i++) {
                        begin = clock_monotonic_ns();
                        harvest_scan(&harvest, now, count, &n_events, &found);
                        idle = least(idle, clock_monotonic_ns() - begin);
                }
        }
        printf("%9" PRIu32 " stations: a look at an idle one  %8.2f ns, all %.3f ms; an event %6.1f ns\n", n, (double)idle / n, (double)idle / 1e6,
               (double)busy / n / 8);
        harvest_deinit(&harvest);
        region_free(region);
}

static void bench_print(void) {
        CoroEvent event = { .probe_id = 140737488346032, .tid = 4711, .address = 0x7F0055D0ABC0, .seq = 6, .time_ns = 987654321012345 };
        uint64_t json = UINT64_MAX, csv = UINT64_MAX;
        static char line[TRACE_LINE_MAX];

        for (int round = 0; round < 10 * ROUNDS; round++) {
                uint64_t begin = clock_monotonic_ns(), middle;

                for (int i = 0; i < 1000; i++)
                        trace_print_jsonl(line, &event, false);
                middle = clock_monotonic_ns();
                for (int i = 0; i < 1000; i++)
                        trace_print_csv(line, &event, false, false);
                csv = least(csv, clock_monotonic_ns() - middle);
                json = least(json, middle - begin);
        }
        printf("%-40s %8.1f ns\n%-40s %8.1f ns\n", "a line of JSON", (double)json / 1000, "a line of CSV", (double)csv / 1000);
}

int main(void) {
        Region *region = NULL;

        if (mkstemp(path) < 0 || unlink(path) || region_create(&region, path, 16, 0600))
                return 77;
        bench_sdk();
        region_free(region);
        bench_print();
        bench_harvest(1000);
        bench_harvest(10000);
        bench_harvest(100000);
        bench_harvest(1000000);
        unlink(path);
        return 0;
}
