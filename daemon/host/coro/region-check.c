/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The reader of stations counts what it refuses; each count stands for a rule. A write that has begun counts
 * as one that never ends when its number is still the same a moment later.
 */
#include "host/coro/region-check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "host/coro/region-find.h"
#include "host/coro/region-scan.h"
#include "host/coro/region.h"

enum { MAX_REGIONS = 16, MOMENT_MS = 100 };

struct RegionCheck {
        WriterRules *rules;
        Region *regions[MAX_REGIONS];
        RegionScan scans[MAX_REGIONS];
        size_t n;
};

static int on_region(void *userdata, int fd, const char *path) {
        _cleanup_(region_freep) Region *region = NULL;
        RegionCheck *check = userdata;
        RegionHeader header = REGION_HEADER_VALID;
        int r;

        if (check->n == MAX_REGIONS)
                return 0;
        r = region_open(&region, fd, &header);
        if (r == REGION_E_INVALID)
                writer_rules_violate(check->rules, WRITER_RULE_STATION_HEADER, "%s: %s", path,
                                     region_header_text(header));
        if (r)
                return MIN(r, 0);
        for (size_t i = 0; i < check->n; i++)
                if (region_is_same(check->regions[i], region))
                        return 0;
        writer_rules_pass(check->rules, WRITER_RULE_STATION_HEADER);
        r = region_scan_init(&check->scans[check->n], region, STATION_DIALECT_UNKNOWN, true);
        if (!r)
                check->regions[check->n++] = take(region);
        return r;
}

int region_check_new(RegionCheck **checkp, pid_t pid, WriterRules *rules) {
        _cleanup_(region_check_freep) RegionCheck *check = calloc(1, sizeof(*check));
        int r;

        if (!check)
                return error_origin(-ENOMEM);
        check->rules = rules;
        r = find_regions(pid, on_region, check);
        if (r < 0)
                return error_fold(r);
        *checkp = take(check);
        return 0;
}

RegionCheck *region_check_free(RegionCheck *check) {
        if (!check)
                return NULL;
        for (size_t i = 0; i < check->n; i++) {
                region_scan_deinit(&check->scans[i]);
                region_free(check->regions[i]);
        }
        free(check);
        return NULL;
}

static int pass_over(void *userdata, const CoroEvent *event) {
        return 0;
}

int region_check_look(RegionCheck *check) {
        uint64_t now_ns = clock_read_ns(CLOCK_MONOTONIC);
        RegionScanFound found;
        int r = 0;

        for (size_t i = 0; i < check->n && !r; i++)
                r = region_scan_run(&check->scans[i], now_ns, pass_over, NULL, &found);
        return r;
}

static void read_numbers(const struct spanprof_station *station, uint64_t numbers[SPANPROF_STATION_EPOCHS]) {
        for (size_t i = 0; i < SPANPROF_STATION_EPOCHS; i++)
                numbers[i] = __atomic_load_n(&station->epochs[i].seq, __ATOMIC_ACQUIRE);
}

/* Whether an odd number of @station stays: the write that it stands for does not end. */
static bool is_stuck(const struct spanprof_station *station) {
        uint64_t before[SPANPROF_STATION_EPOCHS], after[SPANPROF_STATION_EPOCHS];

        read_numbers(station, before);
        nanosleep(&(struct timespec){ .tv_nsec = MOMENT_MS * (long)NS_PER_MS }, NULL);
        read_numbers(station, after);
        for (size_t i = 0; i < SPANPROF_STATION_EPOCHS; i++)
                if (before[i] % 2 && before[i] == after[i])
                        return true;
        return false;
}

/* Stations of the document dialect have no number that says so. */
static void check_ends(RegionCheck *check, const RegionScan *scan) {
        for (uint32_t i = 0; i < scan->n_seen && scan->dialect == STATION_DIALECT_SEQLOCK; i++)
                if (scan->states[i].torn && is_stuck(&scan->region->stations[i])) {
                        writer_rules_violate(check->rules, WRITER_RULE_STATION_FINISHED,
                                             "an event of station %" PRIu32 " is being written all the time", i);
                        return;
                }
}

static void check_totals(RegionCheck *check, const RegionScanTotals *totals) {
        if (totals->n_without)
                writer_rules_violate(check->rules, WRITER_RULE_STATION_COUNT,
                                     "%" PRIu64 " coroutines found none", totals->n_without);
        if (totals->n_rejected)
                writer_rules_violate(check->rules, WRITER_RULE_STATION_EVENTS,
                                     "%" PRIu64 " of %" PRIu64 " events were refused", totals->n_rejected,
                                     totals->n_rejected + totals->n_read);
        if (totals->n_corrupt)
                writer_rules_violate(check->rules, WRITER_RULE_STATION_NUMBERS,
                                     "those of %" PRIu64 " stations are of no writer", totals->n_corrupt);
        writer_rules_pass(check->rules, WRITER_RULE_STATION_COUNT);
        if (!totals->n_read)
                return;
        writer_rules_pass(check->rules, WRITER_RULE_STATION_EVENTS);
        writer_rules_pass(check->rules, WRITER_RULE_STATION_NUMBERS);
}

static int finish_one(RegionCheck *check, size_t i) {
        RegionScan *scan = &check->scans[i];
        RegionScanTotals totals = { 0 };
        RegionScanFound found;
        int r;

        if (region_is_damaged(check->regions[i]))
                writer_rules_violate(check->rules, WRITER_RULE_STATION_HEADER, "it was changed later");
        r = region_scan_finish(scan, clock_read_ns(CLOCK_MONOTONIC), pass_over, NULL, &found);
        if (!r)
                r = region_scan_totals(scan, &totals);
        if (r)
                return error_fold(r);
        check_totals(check, &totals);
        check_ends(check, scan);
        if (totals.n_read)
                writer_rules_pass(check->rules, WRITER_RULE_STATION_FINISHED);
        return 0;
}

int region_check_finish(RegionCheck *check) {
        int r = 0;

        for (size_t i = 0; i < check->n && !r; i++)
                r = finish_one(check, i);
        return r;
}
