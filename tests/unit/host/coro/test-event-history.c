/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "host/coro/event-history.h"

static EventHistory history;

static void setup(void) {
        cr_assert_eq(event_history_init(&history, 1000), 0);
}

static void cleanup(void) {
        event_history_deinit(&history);
}

TestSuite(event_history, .init = setup, .fini = cleanup);

static void add(uint32_t station, uint32_t tid, uint64_t time_ns, bool active, uint64_t n_lost) {
        CoroEvent event = {
                .station = station, .tid = tid, .time_ns = time_ns, .active = active, .n_lost = n_lost
        };

        cr_assert_eq(event_history_add(&history, &event), 0);
}

static int find(uint32_t tid, uint64_t time_ns) {
        uint32_t station = 999;
        int r = event_history_find(&history, tid, time_ns, NULL, NULL, &station);

        return r ? -r : (int)station;
}

Test(event_history, knows_who_ran_at_each_time) {
        add(5, 70, 100, true, 0);
        add(5, 70, 200, false, 0);
        add(6, 70, 300, true, 0);
        add(6, 71, 400, false, 0);              /* suspended by another thread */
        cr_expect_eq(find(70, 99), -EVENT_HISTORY_E_NONE);
        cr_expect_eq(find(70, 100), 5);
        cr_expect_eq(find(70, 199), 5);
        cr_expect_eq(find(70, 200), -EVENT_HISTORY_E_NONE);
        cr_expect_eq(find(70, 350), 6);
        cr_expect_eq(find(70, 400), -EVENT_HISTORY_E_NONE);
        cr_expect_eq(find(71, 350), -EVENT_HISTORY_E_NONE);
}

/*
 * A reader that starts late finds the last few events of each station. Here 7 ran inside 6, and the resume of
 * 6 is gone.
 */
Test(event_history, says_nothing_of_times_before_all_stations_are_known) {
        CoroEvent event = { .station = 6, .tid = 70, .time_ns = 300, .active = false, .number = 11 };

        add(7, 70, 100, true, 0);
        cr_assert_eq(event_history_add(&history, &event), 0);
        add(7, 70, 400, false, 0);
        cr_expect_eq(find(70, 200), -EVENT_HISTORY_E_LAPPED);
        cr_expect_eq(find(71, 200), -EVENT_HISTORY_E_LAPPED);
        cr_expect_eq(find(70, 300), 7);
        cr_expect_eq(find(70, 400), -EVENT_HISTORY_E_NONE);
}

Test(event_history, means_the_innermost) {
        add(1, 70, 100, true, 0);
        add(2, 70, 200, true, 0);
        add(2, 70, 300, false, 0);
        add(1, 70, 400, false, 0);
        cr_expect_eq(find(70, 150), 1);
        cr_expect_eq(find(70, 250), 2);
        cr_expect_eq(find(70, 350), 1);
        cr_expect_eq(find(70, 450), -EVENT_HISTORY_E_NONE);
}

/* 20,000 turns of one station, and those of another that lie between them and are read later. */
Test(event_history, has_a_place_for_each_of_many_that_come_late) {
        for (uint64_t i = 0; i < 20000; i++) {
                add(1, 70, 1000 + 100 * i, true, 0);
                add(1, 70, 1040 + 100 * i, false, 0);
        }
        for (uint64_t i = 0; i < 20000; i++) {
                add(2, 70, 1050 + 100 * i, true, 0);
                add(2, 70, 1090 + 100 * i, false, 0);
        }
        for (uint64_t i = 17000; i < 20000; i++) {
                cr_assert_eq(find(70, 1020 + 100 * i), 1);
                cr_assert_eq(find(70, 1070 + 100 * i), 2);
        }
}

/* Stations are read one after the other, so events of an earlier one come late. */
Test(event_history, puts_events_in_the_order_of_time) {
        add(1, 70, 100, true, 0);
        add(1, 70, 400, false, 0);
        add(1, 70, 500, true, 0);
        add(2, 70, 410, true, 0);
        add(2, 70, 490, false, 0);
        cr_expect_eq(find(70, 300), 1);
        cr_expect_eq(find(70, 450), 2);
        cr_expect_eq(find(70, 495), -EVENT_HISTORY_E_NONE);
        cr_expect_eq(find(70, 600), 1);
}

Test(event_history, follows_a_coroutine_from_thread_to_thread) {
        add(1, 70, 100, true, 0);
        add(1, 70, 200, false, 0);
        add(1, 71, 300, true, 0);
        cr_expect_eq(find(70, 350), -EVENT_HISTORY_E_NONE);
        cr_expect_eq(find(71, 350), 1);
        cr_expect_eq(find(71, 250), -EVENT_HISTORY_E_NONE);
        cr_expect_eq(find(70, 150), 1);
}

Test(event_history, does_not_guess_what_was_lost) {
        add(1, 70, 100, true, 0);
        add(1, 70, 900, false, 4);
        cr_expect_eq(find(70, 50), -EVENT_HISTORY_E_NONE);
        cr_expect_eq(find(70, 500), -EVENT_HISTORY_E_LAPPED);
        cr_expect_eq(find(70, 950), -EVENT_HISTORY_E_NONE);
        add(1, 70, 1000, true, 0);
        cr_expect_eq(find(70, 1500), 1);
}

static bool is_five(void *userdata, uint32_t station) {
        return station == 5;
}

Test(event_history, passes_over_who_is_out) {
        uint32_t station = 999;

        add(4, 70, 100, true, 0);
        add(5, 70, 200, true, 0);
        cr_assert_eq(event_history_find(&history, 70, 300, is_five, NULL, &station), 0);
        cr_expect_eq(station, 4);
}

Test(event_history, remembers_who_has_been_running_for_long) {
        add(7, 70, 100, true, 0);
        add(8, 71, 100, false, 0);
        for (uint32_t i = 0; i < 2 * EVENT_HISTORY_EVENTS; i++)
                add(9, 72, 1000 + i, i % 2, 0);
        cr_expect_eq(find(70, 5000), 7);
        cr_expect_eq(find(70, 50), -EVENT_HISTORY_E_NONE);
        cr_expect_eq(find(71, 5000), -EVENT_HISTORY_E_NONE);
        add(7, 70, 900000, false, 0);
        cr_expect_eq(find(70, 899999), 7);
        cr_expect_eq(find(70, 900000), -EVENT_HISTORY_E_NONE);
}

/* Compares with the definition itself, on random events of 20 coroutines and 3 threads. */
Test(event_history, agrees_with_the_definition) {
        enum { N = 5000 };
        static struct { uint64_t time_ns; uint32_t station, tid; bool active; } all[N];

        srandom(7);
        for (int i = 0; i < N; i++) {
                all[i].time_ns = 1000 + 10 * (uint64_t)i;
                all[i].station = (uint32_t)random() % 20;
                all[i].tid = 70 + (uint32_t)random() % 3;
                all[i].active = random() % 2;
                add(all[i].station, all[i].tid, all[i].time_ns, all[i].active, 0);
        }
        for (int k = 0; k < 3000; k++) {
                uint64_t t = 1000 + (uint64_t)random() % (10 * N), best = 0;
                uint32_t tid = 70 + (uint32_t)random() % 3;
                int expected = -EVENT_HISTORY_E_NONE, newest[20];

                memset(newest, -1, sizeof(newest));
                for (int i = 0; i < N && all[i].time_ns <= t; i++)
                        newest[all[i].station] = i;
                for (int s = 0; s < 20; s++)
                        if (newest[s] >= 0 && all[newest[s]].active && all[newest[s]].tid == tid &&
                            all[newest[s]].time_ns >= best) {
                                best = all[newest[s]].time_ns;
                                expected = s;
                        }
                cr_assert_eq(find(tid, t), expected, "%d", k);
        }
}
