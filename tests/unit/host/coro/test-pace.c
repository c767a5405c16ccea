/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "host/coro/pace.h"

Test(pace, comes_sooner_when_stations_fill) {
        Pace pace = { .wait_ns = 1000000, .event_ns = 1 };
        RegionScanFound full = { .n_events = 100, .n_most = 6 };
        uint64_t now = NS_PER_SEC, before = pace.wait_ns;

        for (int i = 0; i < 20 && pace.wait_ns; i++) {
                pace_update(&pace, &full, 1000, now += 1000);
                cr_assert_lt(pace.wait_ns, before);
                before = pace.wait_ns;
        }
        cr_expect_eq(pace.wait_ns, 0);
        cr_expect_not(pace.idle);
}

Test(pace, takes_its_time_when_there_is_little) {
        Pace pace = { 0 };
        RegionScanFound few = { .n_events = 5, .n_most = 1 };
        uint64_t now = NS_PER_SEC;

        for (int i = 0; i < 1000; i++)
                pace_update(&pace, &few, 1000, now += NS_PER_MS);
        cr_expect_eq(pace.wait_ns, PACE_MAX_WAIT_NS);
        cr_expect_not(pace.idle);
}

/* Between two scans it may have made lines for a while, which says nothing of a longer wait. */
Test(pace, grows_no_wait_that_was_not_made) {
        Pace pace = { 0 };
        RegionScanFound few = { .n_events = 1000, .n_most = 1 };
        uint64_t now = NS_PER_SEC, wait;

        for (int i = 0; i < 1000; i++)
                pace_update(&pace, &few, 40000, now += 130000);
        cr_expect_leq(pace.wait_ns, 110000);
        wait = pace.wait_ns;
        pace_update(&pace, &few, 40000, now += 40000 + wait);
        cr_expect_gt(pace.wait_ns, wait);
}

Test(pace, does_not_wait_after_a_loss_for_a_while) {
        Pace pace = { .wait_ns = PACE_MAX_WAIT_NS, .event_ns = 1 };
        RegionScanFound loss = { .n_events = 8, .n_lost = 3, .n_most = 11 }, nothing = { 0 };
        uint64_t now = NS_PER_SEC;

        pace_update(&pace, &loss, 1000, now);
        cr_expect_eq(pace.wait_ns, 0);
        pace_update(&pace, &nothing, 1000, now + PACE_HUNGRY_NS - 1);
        cr_expect_eq(pace.wait_ns, 0);
        pace_update(&pace, &nothing, 1000, now + PACE_HUNGRY_NS + 1000);
        cr_expect_gt(pace.wait_ns, 0);
}

/* More than a ring in one scan, and no loss: a scan that had waited would have lost events. */
Test(pace, stays_awake_while_bursts_are_caught) {
        Pace pace = { .wait_ns = PACE_MAX_WAIT_NS, .event_ns = 1 };
        RegionScanFound burst = { .n_events = 128, .n_most = 128 }, ring = { .n_events = 8, .n_most = 8 };

        pace_update(&pace, &ring, 1000, NS_PER_SEC);
        cr_expect_not(pace.hungry);
        pace_update(&pace, &burst, 1000, 2 * NS_PER_SEC);
        cr_expect(pace.hungry);
        cr_expect_eq(pace.wait_ns, 0);
        pace_update(&pace, &ring, 1000, 2 * NS_PER_SEC + PACE_HUNGRY_NS);
        cr_expect_not(pace.hungry);
}

/* Follows while that loses less, tries the other way now and then, and changes when it becomes better. */
Test(pace, keeps_to_the_way_that_loses_less) {
        RegionScanFound good = { .n_events = 1024, .n_most = 128 },
                        bad = { .n_events = 512, .n_lost = 512, .n_most = 128 };
        uint64_t now = NS_PER_SEC;
        Pace pace = { 0 };

        for (int best = N_PACE_WAYS; best-- > 0;) {
                unsigned n[N_PACE_WAYS] = { 0 };

                for (int i = 0; i < 200; i++) {
                        n[pace.way] += i >= 100;
                        pace_update(&pace, (int)pace.way == best ? &good : &bad, 1000, now += 1000);
                        cr_assert(pace.hungry);
                }
                cr_expect_geq(n[best], 85);
                cr_expect_geq(n[1 - best], 10);
        }
}

Test(pace, is_idle_only_after_some_time) {
        Pace pace = { 0 };
        RegionScanFound some = { .n_events = 1, .n_most = 1 }, nothing = { 0 };
        uint64_t now = NS_PER_SEC;

        pace_update(&pace, &nothing, 1000, now);        /* the first look: the program has just begun */
        cr_expect_not(pace.idle);
        pace_update(&pace, &some, 1000, now += NS_PER_SEC);
        cr_expect_not(pace.idle);
        pace_update(&pace, &nothing, 1000, now + PACE_IDLE_NS - 1);
        cr_expect_not(pace.idle);
        pace_update(&pace, &nothing, 1000, now + PACE_IDLE_NS);
        cr_expect(pace.idle);
        cr_expect_eq(pace.deadline_ns, PACE_MIN_DEADLINE_NS);
}

Test(pace, keeps_the_cost_of_an_idle_region_small) {
        Pace pace = { 0 };
        RegionScanFound nothing = { 0 };

        pace_update(&pace, &nothing, NS_PER_MS, NS_PER_SEC);
        cr_expect_eq(pace.deadline_ns, 500 * NS_PER_MS);        /* 1 ms in half a second: 0.2 % */
        pace_update(&pace, &nothing, 10 * NS_PER_MS, NS_PER_SEC);
        cr_expect_eq(pace.deadline_ns, NS_PER_SEC);             /* 1 % */
        pace_update(&pace, &nothing, 100 * NS_PER_MS, NS_PER_SEC);
        cr_expect_eq(pace.deadline_ns, 8 * NS_PER_SEC);         /* 1.25 % */
}
