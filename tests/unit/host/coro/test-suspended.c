/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "host/coro/suspended.h"

enum { STATIONS = 20000, BEGIN_NS = 1000 };

static Suspended suspended;
static uint64_t numbers[STATIONS];      /* number of the next event of each station */

static void setup(void) {
        cr_assert_eq(suspended_init(&suspended, STATIONS, BEGIN_NS), 0);
}

static void cleanup(void) {
        suspended_deinit(&suspended);
}

TestSuite(suspended, .init = setup, .fini = cleanup);

static void event(uint32_t station, uint64_t time_ns, uint64_t address, uint64_t n_lost) {
        CoroEvent event = { .station = station,
                            .time_ns = time_ns,
                            .address = address,
                            .active = !address,
                            .n_lost = n_lost };

        numbers[station] += n_lost;
        event.number = numbers[station]++;
        cr_assert_eq(suspended_event(&suspended, &event), 0);
}

static SuspendedSum taken[STATIONS];
static size_t n_taken;

static int on_sum(void *userdata, const SuspendedSum *sum) {
        taken[n_taken++] = *sum;
        return 0;
}

static uint64_t take(uint32_t station, uint64_t address) {
        uint64_t value_ns = 0;

        for (size_t i = 0; i < n_taken; i++)
                value_ns += taken[i].station == station && taken[i].address == address ? taken[i].value_ns
                                                                                       : 0;
        return value_ns;
}

static void take_all(void) {
        n_taken = 0;
        cr_assert_eq(suspended_take(&suspended, on_sum, NULL), 0);
}

Test(suspended, adds_up_by_station_and_place) {
        event(3, 2000, 0xa, 0);
        event(4, 2100, 0xa, 0);
        event(3, 2500, 0, 0);
        event(4, 2200, 0, 0);
        event(3, 3000, 0xb, 0);
        event(3, 3001, 0, 0);
        event(3, 4000, 0xa, 0);
        event(3, 4010, 0, 0);
        take_all();
        cr_expect_eq(n_taken, 3);
        cr_expect_eq(take(3, 0xa), 510);
        cr_expect_eq(take(3, 0xb), 1);
        cr_expect_eq(take(4, 0xa), 100);
        cr_expect_eq(taken[0].time_ns, 4010);
        cr_expect_eq(suspended.n_whole, 4);
        take_all();
        cr_expect_eq(n_taken, 0, "told once");
}

Test(suspended, carries_on_what_has_not_ended) {
        event(3, 2000, 0xa, 0);
        cr_assert_eq(suspended_count_open(&suspended, 3, 2600), 0);
        take_all();
        cr_expect_eq(take(3, 0xa), 600);
        cr_assert_eq(suspended_count_open(&suspended, 3, 2700), 0);
        cr_assert_eq(suspended_count_open(&suspended, 3, 2650), 0, "an older time adds nothing");
        event(3, 2900, 0, 0);
        cr_assert_eq(suspended_count_open(&suspended, 3, 9999), 0, "it is not suspended any more");
        take_all();
        cr_expect_eq(take(3, 0xa), 300);
        cr_expect_eq(suspended.n_whole, 1);
}

Test(suspended, pays_back_what_a_slow_writer_made_it_tell) {
        event(3, 2000, 0xa, 0);
        cr_assert_eq(suspended_count_open(&suspended, 3, 2600), 0);
        event(3, 2550, 0, 0);                   /* it was resumed before, and its writer was held up */
        event(3, 3000, 0xa, 0);
        event(3, 3030, 0, 0);
        event(3, 4000, 0xa, 0);
        event(3, 4100, 0, 0);
        take_all();
        cr_expect_eq(take(3, 0xa), 550 + 30 + 100);
}

Test(suspended, knows_nothing_of_what_was_lost) {
        event(3, 2000, 0xa, 0);
        event(3, 2500, 0, 2);                   /* a resume and a suspend between them */
        event(3, 3000, 0xa, 0);
        event(3, 3100, 0xb, 1);                 /* a resume */
        event(3, 3107, 0, 0);
        take_all();
        cr_expect_eq(take(3, 0xa), 0);
        cr_expect_eq(take(3, 0xb), 7);
        cr_expect_eq(suspended.n_unknown, 2);
}

/* A rejected event has a number, and leaves nothing else. */
Test(suspended, takes_a_missing_number_for_a_loss) {
        event(3, 2000, 0xa, 0);
        numbers[3]++;
        event(3, 2500, 0, 0);
        take_all();
        cr_expect_eq(n_taken, 0);
        cr_expect_eq(suspended.n_unknown, 1);
}

Test(suspended, keeps_what_was_told_before_a_loss_or_a_death) {
        event(3, 2000, 0xa, 0);
        event(4, 2000, 0xa, 0);
        cr_assert_eq(suspended_count_open(&suspended, 3, 2600), 0);
        cr_assert_eq(suspended_count_open(&suspended, 4, 2600), 0);
        event(3, 9000, 0, 4);
        suspended_died(&suspended, 4);
        suspended_died(&suspended, 4);
        cr_assert_eq(suspended_count_open(&suspended, 4, 9000), 0);
        take_all();
        cr_expect_eq(take(3, 0xa), 600);
        cr_expect_eq(take(4, 0xa), 600);
        cr_expect_eq(suspended.n_unknown, 2);
}

Test(suspended, counts_nothing_before_the_region_was_found) {
        event(3, 10, 0xa, 0);
        event(3, 900, 0, 0);
        event(4, 900, 0xa, 0);
        event(4, 1020, 0, 0);
        event(3, 2000, 0xa, 0);
        event(3, 2005, 0, 0);
        take_all();
        cr_expect_eq(take(3, 0xa), 5);
        cr_expect_eq(take(4, 0xa), 20);
}

Test(suspended, leaves_no_time_out_when_coroutines_are_too_many) {
        uint64_t sum_ns = 0, any_ns = 0;
        size_t n_any = 0;

        for (uint32_t i = 0; i < STATIONS; i++) {
                event(i, 2000, 0x1000 + i % 3000, 0);
                event(i, 2000 + i, 0, 0);
        }
        take_all();
        cr_expect_eq(n_taken, SUSPENDED_MAX_NAMED + SUSPENDED_MAX_ADDRESSES + 1);
        for (size_t i = 0; i < n_taken; i++) {
                sum_ns += taken[i].value_ns;
                any_ns += taken[i].station == SUSPENDED_ANY_STATION && !taken[i].address ? taken[i].value_ns
                                                                                         : 0;
                n_any += taken[i].station == SUSPENDED_ANY_STATION;
        }
        cr_expect_eq(sum_ns, (uint64_t)STATIONS * (STATIONS - 1) / 2);
        cr_expect_eq(n_any, SUSPENDED_MAX_ADDRESSES + 1);
        cr_expect_gt(any_ns, 0);
        cr_expect_eq(suspended.n_whole, STATIONS);
        cr_expect_geq(suspended.n_folded, STATIONS - SUSPENDED_MAX_NAMED - 1);
}

Test(suspended, minds_no_station_that_is_none) {
        CoroEvent none = { .station = STATIONS, .time_ns = 2000, .address = 1 };

        cr_assert_eq(suspended_event(&suspended, &none), 0);
        take_all();
        cr_expect_eq(n_taken, 0);
}
