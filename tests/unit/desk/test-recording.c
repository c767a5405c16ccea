/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "desk/coro/engine/recording.h"
#include "station-writer.h"

/* When events become lines: a region of four stations, whose events this test writes itself. */

enum { STATIONS = 4 };

static char directory[] = "/tmp/spanprof-test-recording-XXXXXX", region_path[64], output[64];
static CoroOptions options;
static Recording recording;
static RegionScan scan;
static Region *region;
static StationWriter writers[STATIONS];

static void setup(void) {
        cr_assert(mkdtemp(directory));
        snprintf(region_path, sizeof(region_path), "%s/region", directory);
        snprintf(output, sizeof(output), "%s/t.jsonl", directory);
        options = (CoroOptions){ .output = output, .form = TRACE_JSONL,
                                 .trace = { .extra = true, .mode = 0600 } };
        cr_assert_eq(region_create(&region, region_path, STATIONS, 0600), 0);
        cr_assert_eq(region_scan_init(&scan, region, STATION_DIALECT_SEQLOCK, false), 0);
        cr_assert_eq(recording_open(&recording, &options, &scan, 1), 0);
        region->header->allocated_count = STATIONS;
        for (int i = 0; i < STATIONS; i++)
                writers[i] = (StationWriter){ .station = (struct spanprof_station *)&region->stations[i] };
}

static void teardown(void) {
        CoroSummary summary = { 0 };
        uint64_t n_written = 0;

        for (int i = 0; i < STATIONS; i++)
                n_written += writers[i].n_written;
        cr_expect_eq(recording_finish(&recording, &scan, 1, &summary), 0);
        cr_expect_eq(summary.totals.n_read + summary.totals.n_lost, n_written);
        recording_deinit(&recording);
        region_scan_deinit(&scan);
        region_free(region);
        unlink(region_path);
        unlink(output);
        rmdir(directory);
}

TestSuite(recording, .init = setup, .fini = teardown);

static void write_events(int station, int n) {
        for (int i = 0; i < n; i++)
                station_writer_write(&writers[station], clock_monotonic_ns(), 77, 0x1000, i % 2);
}

Test(recording, makes_lines_of_a_scan_at_once) {
        write_events(0, 2);
        write_events(1, 1);
        cr_assert(recording_scan(&recording, &scan, 1));
        cr_expect_not(recording_is_behind(&recording));
}

Test(recording, keeps_the_events_for_whose_lines_there_is_no_time) {
        recording.n_lines = 32;
        for (int i = 0; i < STATIONS; i++)
                write_events(i, 8);
        cr_assert(recording_scan(&recording, &scan, 1));
        cr_expect_eq(recording.n_lines, 16, "eight of a station at once: the next scan must come sooner");
        cr_assert(recording_is_behind(&recording));
        cr_expect_not(recording_scan(&recording, &scan, 1));
        cr_expect_eq(recording.n_lines, 32);
        cr_expect_not(recording_is_behind(&recording));
}

Test(recording, makes_fewer_lines_after_a_loss_and_more_when_there_is_time) {
        recording.n_lines = 100;
        write_events(0, 20);
        cr_assert(recording_scan(&recording, &scan, 1));
        cr_expect_eq(recording.n_lost, 12);
        cr_expect_eq(recording.n_lines, 50);
        write_events(0, 4);
        cr_assert(recording_scan(&recording, &scan, 1));
        cr_expect_eq(recording.n_lines, 50, "half of a ring: as before");
        for (int i = 0; i < 10; i++)
                recording_scan(&recording, &scan, 1);
        cr_expect_eq(recording.n_lines, 1024);
        for (int i = 0; i < 10; i++) {
                write_events(0, 8);
                cr_assert(recording_scan(&recording, &scan, 1));
        }
        cr_expect_eq(recording.n_lines, 16);
}
