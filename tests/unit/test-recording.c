/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util/clock.h"
#include "coro/engine/recording.h"
#include "station-writer.h"

/* When events become lines: a region of two stations, whose events this test writes itself. */

static char directory[] = "/tmp/spanprof-test-recording-XXXXXX", region_path[64], output[64];
static CoroOptions options;
static Recording recording;
static RegionScan scan;
static Region *region;
static StationWriter writers[2];

static void setup(void) {
        cr_assert(mkdtemp(directory));
        snprintf(region_path, sizeof(region_path), "%s/region", directory);
        snprintf(output, sizeof(output), "%s/t.jsonl", directory);
        options = (CoroOptions){ .output = output, .form = TRACE_JSONL,
                                 .trace = { .extra = true, .mode = 0600 } };
        cr_assert_eq(region_create(&region, region_path, 2, 0600), 0);
        cr_assert_eq(region_scan_init(&scan, region, STATION_DIALECT_SEQLOCK, false), 0);
        cr_assert_eq(recording_open(&recording, &options), 0);
        region->header->allocated_count = 2;
        for (int i = 0; i < 2; i++)
                writers[i] = (StationWriter){ .station = (struct spanprof_station *)&region->stations[i] };
}

static void teardown(void) {
        CoroSummary summary = { 0 };

        cr_expect_eq(recording_finish(&recording, &scan, 1, &summary), 0);
        cr_expect_eq(summary.totals.n_read + summary.totals.n_lost,
                     writers[0].n_written + writers[1].n_written);
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

/* A busy machine may take longer than lines may wait between two lines of this test, so it tries again. */
Test(recording, keeps_events_of_a_burst_until_a_scan_finds_nothing) {
        for (int i = 0; i < 1000 && !recording_is_behind(&recording); i++) {
                write_events(0, 2);
                recording.rest_ns = clock_monotonic_ns();
                cr_assert(recording_scan(&recording, &scan, 1));
        }
        cr_expect(recording_is_behind(&recording));
        cr_expect_not(recording_scan(&recording, &scan, 1));
        cr_expect_not(recording_is_behind(&recording));
}

Test(recording, makes_lines_in_a_burst_when_they_are_late) {
        write_events(0, 2);
        write_events(1, 1);
        recording.rest_ns = 0;
        cr_assert(recording_scan(&recording, &scan, 1));
        cr_expect_not(recording_is_behind(&recording));
}

Test(recording, makes_no_lines_after_a_loss_even_late_ones) {
        write_events(0, 20);
        recording.rest_ns = 0;
        cr_assert(recording_scan(&recording, &scan, 1));
        cr_expect_eq(recording.n_lost, 12);
        cr_expect(recording_is_behind(&recording));
        write_events(1, 1);
        cr_assert(recording_scan(&recording, &scan, 1));
        cr_expect_not(recording_is_behind(&recording));
}
