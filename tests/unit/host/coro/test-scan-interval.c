/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "host/coro/scan-interval.h"

Test(interval, comes_sooner_when_stations_fill) {
        ScanInterval interval = { .wait_ns = 1000000, .event_ns = 1 };
        RegionScanFound full = { .n_events = 100, .n_most = 6 };
        uint64_t now = NS_PER_SEC, before = interval.wait_ns;

        for (int i = 0; i < 20 && interval.wait_ns; i++) {
                scan_interval_update(&interval, &full, 1000, now += 1000);
                cr_assert_lt(interval.wait_ns, before);
                before = interval.wait_ns;
        }
        cr_expect_eq(interval.wait_ns, 0);
        cr_expect_not(interval.idle);
}

Test(interval, takes_its_time_when_there_is_little) {
        ScanInterval interval = { 0 };
        RegionScanFound few = { .n_events = 5, .n_most = 1 };
        uint64_t now = NS_PER_SEC;

        for (int i = 0; i < 1000; i++)
                scan_interval_update(&interval, &few, 1000, now += NS_PER_MS);
        cr_expect_eq(interval.wait_ns, SCAN_INTERVAL_MAX_WAIT_NS);
        cr_expect_not(interval.idle);
}

/* Between two scans it may have made lines for a while, which says nothing of a longer wait. */
Test(interval, grows_no_wait_that_was_not_made) {
        ScanInterval interval = { 0 };
        RegionScanFound few = { .n_events = 1000, .n_most = 1 };
        uint64_t now = NS_PER_SEC, wait;

        for (int i = 0; i < 1000; i++)
                scan_interval_update(&interval, &few, 40000, now += 130000);
        cr_expect_leq(interval.wait_ns, 110000);
        wait = interval.wait_ns;
        scan_interval_update(&interval, &few, 40000, now += 40000 + wait);
        cr_expect_gt(interval.wait_ns, wait);
}

Test(interval, does_not_wait_after_a_loss_for_a_while) {
        ScanInterval interval = { .wait_ns = SCAN_INTERVAL_MAX_WAIT_NS, .event_ns = 1 };
        RegionScanFound loss = { .n_events = 8, .n_lost = 3, .n_most = 11 }, nothing = { 0 };
        uint64_t now = NS_PER_SEC;

        scan_interval_update(&interval, &loss, 1000, now);
        cr_expect_eq(interval.wait_ns, 0);
        scan_interval_update(&interval, &nothing, 1000, now + SCAN_INTERVAL_HUNGRY_NS - 1);
        cr_expect_eq(interval.wait_ns, 0);
        scan_interval_update(&interval, &nothing, 1000, now + SCAN_INTERVAL_HUNGRY_NS + 1000);
        cr_expect_gt(interval.wait_ns, 0);
}

/* More than a ring in one scan, and no loss: a scan that had waited would have lost events. */
Test(interval, stays_awake_while_bursts_are_caught) {
        ScanInterval interval = { .wait_ns = SCAN_INTERVAL_MAX_WAIT_NS, .event_ns = 1 };
        RegionScanFound burst = { .n_events = 128, .n_most = 128 }, ring = { .n_events = 8, .n_most = 8 };

        scan_interval_update(&interval, &ring, 1000, NS_PER_SEC);
        cr_expect_not(interval.hungry);
        scan_interval_update(&interval, &burst, 1000, 2 * NS_PER_SEC);
        cr_expect(interval.hungry);
        cr_expect_eq(interval.wait_ns, 0);
        scan_interval_update(&interval, &ring, 1000, 2 * NS_PER_SEC + SCAN_INTERVAL_HUNGRY_NS);
        cr_expect_not(interval.hungry);
}

/* Follows while that loses less, tries the other way now and then, and changes when it becomes better. */
Test(interval, keeps_to_the_way_that_loses_less) {
        RegionScanFound good = { .n_events = 1024, .n_most = 128 },
                        bad = { .n_events = 512, .n_lost = 512, .n_most = 128 };
        uint64_t now = NS_PER_SEC;
        ScanInterval interval = { 0 };

        for (int best = N_SCAN_WAYS; best-- > 0;) {
                unsigned n[N_SCAN_WAYS] = { 0 };

                for (int i = 0; i < 200; i++) {
                        n[interval.way] += i >= 100;
                        scan_interval_update(&interval, (int)interval.way == best ? &good : &bad, 1000,
                                             now += 1000);
                        cr_assert(interval.hungry);
                }
                cr_expect_geq(n[best], 85);
                cr_expect_geq(n[1 - best], 10);
        }
}

Test(interval, is_idle_only_after_some_time) {
        ScanInterval interval = { 0 };
        RegionScanFound some = { .n_events = 1, .n_most = 1 }, nothing = { 0 };
        uint64_t now = NS_PER_SEC;

        scan_interval_update(&interval, &nothing, 1000, now); /* the first look: the program has just begun */
        cr_expect_not(interval.idle);
        scan_interval_update(&interval, &some, 1000, now += NS_PER_SEC);
        cr_expect_not(interval.idle);
        scan_interval_update(&interval, &nothing, 1000, now + SCAN_INTERVAL_IDLE_NS - 1);
        cr_expect_not(interval.idle);
        scan_interval_update(&interval, &nothing, 1000, now + SCAN_INTERVAL_IDLE_NS);
        cr_expect(interval.idle);
        cr_expect_eq(interval.deadline_ns, SCAN_INTERVAL_MIN_DEADLINE_NS);
}

Test(interval, keeps_the_cost_of_an_idle_region_small) {
        ScanInterval interval = { 0 };
        RegionScanFound nothing = { 0 };

        scan_interval_update(&interval, &nothing, NS_PER_MS, NS_PER_SEC);
        cr_expect_eq(interval.deadline_ns, 500 * NS_PER_MS);        /* 1 ms in half a second: 0.2 % */
        scan_interval_update(&interval, &nothing, 10 * NS_PER_MS, NS_PER_SEC);
        cr_expect_eq(interval.deadline_ns, NS_PER_SEC);             /* 1 % */
        scan_interval_update(&interval, &nothing, 100 * NS_PER_MS, NS_PER_SEC);
        cr_expect_eq(interval.deadline_ns, 8 * NS_PER_SEC);         /* 1.25 % */
}
