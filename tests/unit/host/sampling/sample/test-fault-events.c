/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/util/clock.h"
#include "host/sampling/sample/fault-events.h"

enum { HZ = 100, FIRST = 997, LEAST = 97 };

static bool is_prime(uint64_t n) {
        for (uint64_t i = 2; i * i <= n; i++)
                if (n % i == 0)
                        return false;
        return true;
}

Test(fault_events, draws_primes_in_a_range) {
        const uint32_t asked[] = { 1, 2, 97, 997, 4444, 1 << 20 };

        for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
                uint32_t draw = 0;
                uint64_t before = 0, n_equal = 0;

                for (int j = 0; j < 200; j++) {
                        uint64_t period = fault_period_draw(asked[i], &draw);

                        cr_assert(is_prime(period), "%lu", (unsigned long)period);
                        cr_assert_geq(period, asked[i]);
                        cr_assert_leq(period, asked[i] + asked[i] / 4 + 40);    /* gaps between primes */
                        n_equal += period == before;
                        before = period;
                }
                cr_assert(asked[i] < 97 || n_equal == 0, "%u: another one each time", asked[i]);
        }
}

Test(fault_events, goes_up_at_once_and_down_by_steps) {
        uint32_t asked = fault_period_next(FIRST, false, 400000, HZ);

        cr_assert_eq(asked, 4444, "%u", asked);
        cr_assert_eq(fault_period_next(asked, false, 20000, HZ), 3556);
        for (int i = 0; i < 100; i++)
                asked = fault_period_next(asked, false, 20000, HZ);
        cr_assert_eq(asked, 222);
        for (int i = 0; i < 100; i++)
                asked = fault_period_next(asked, false, 1, HZ);
        cr_assert_eq(asked, LEAST, "a storm must not have each of its faults sampled");
}

Test(fault_events, never_samples_more_than_the_clock_at_a_steady_rate) {
        for (double rate = 1; rate < 1e8; rate *= 1.7) {
                uint32_t asked = FIRST;

                for (int i = 0; i < 100; i++)
                        asked = fault_period_next(asked, false, rate, HZ);
                cr_assert_lt(rate / asked, HZ, "%g", rate);
        }
}

Test(fault_events, begins_with_each_major_fault) {
        FaultPeriod period = { .draw = 12345 };

        fault_period_begin(&period, true, 0);
        cr_assert_eq(period.period, 1);
        cr_assert_eq(fault_period_next(1, true, 50, HZ), 1);
        cr_assert_eq(fault_period_next(1, true, 9000, HZ), 100);
}

/* One look at the end of second @s, with @n faults in it. */
static uint64_t look(FaultPeriod *period, uint64_t s, uint64_t n) {
        return fault_period_adapt(period, false, period->counted + n, s * NS_PER_SEC, HZ);
}

Test(fault_events, lets_a_period_have_its_samples) {
        FaultPeriod period = { 0 };
        uint64_t set, s = 1, n = 0;

        fault_period_begin(&period, false, 0);
        cr_assert_geq(period.period, FIRST);
        set = look(&period, s++, 85);
        cr_assert(set >= LEAST && set < 2 * LEAST, "the first second says how many there are: %lu",
                  (unsigned long)set);
        cr_assert_eq(look(&period, s++, 85), set, "set again: the first one would run before it");
        for (; n + 85 < 64 * LEAST; n += 85)
                cr_assert_eq(look(&period, s++, 85), 0);
        cr_assert_neq(look(&period, s++, 85), 0);
        cr_assert_neq(period.period, set);
        cr_assert_eq(look(&period, s++, 85), 0, "periods of one size follow each other");
}

Test(fault_events, sees_a_storm_behind_a_pause) {
        FaultPeriod period = { 0 };

        fault_period_begin(&period, false, 0);
        look(&period, 1, 100);
        for (uint64_t s = 2; s < 100; s++)
                fault_period_idle(&period, s * NS_PER_SEC);
        cr_assert_eq(look(&period, 100, 0), 0);
        cr_assert_geq(look(&period, 101, 400000), 4444);
}

/* An event as the kernel has it (perf_swevent_event()), and a program that takes what comes by count. */
typedef struct Counting {
        uint64_t period, last_period;
        int64_t left;
        uint64_t count, sampled, due;
} Counting;

/* Return: weight of the fault, 0 = it is no sample. */
static uint64_t fault(Counting *event) {
        uint64_t due = event->due, before = event->sampled;
        int64_t last = (int64_t)event->last_period;

        event->count++;
        if (++event->left < 0)
                return 0;
        event->left -= (last + event->left) / last * last;
        event->last_period = event->period;
        event->due = event->count + (uint64_t)last - 1;
        if (event->count < due)
                return 0;
        event->sampled = event->count;
        return event->count - before;
}

static uint32_t draw(uint64_t *state, uint32_t n) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)(*state >> 33) % n;
}

/* A faults 80 times in a row, B once, or the daemon looks, by chance: 1, 5 and 1 of them a second. */
Test(fault_events, gives_each_its_share_of_few_faults) {
        enum { SECONDS = 5000, ROW = 80, SINGLE = 5, HAPPENINGS = SINGLE + 2 };
        uint64_t weights[2] = { 0 }, state = 1, n_samples = 0;
        FaultPeriod period = { 0 };
        Counting event;
        double share;

        fault_period_begin(&period, false, 0);
        event = (Counting){ period.period, period.period, -(int64_t)period.period, 0, 0, 0 };
        for (uint64_t i = 0; i < SECONDS * HAPPENINGS; i++) {
                uint32_t happening = draw(&state, HAPPENINGS), n = happening ? 1 : ROW;
                uint64_t set = 0;

                if (happening == SINGLE + 1) {
                        set = fault_period_adapt(&period, false, event.count,
                                                 i * NS_PER_SEC / HAPPENINGS, HZ);
                        n = 0;
                }
                if (set) {
                        event.period = set;
                        event.left = 0;
                }
                for (; n; n--) {
                        uint64_t weight = fault(&event);

                        weights[happening > 0] += weight;
                        n_samples += weight > 0;
                }
        }
        cr_assert_leq(weights[0] + weights[1], event.count);
        cr_assert_gt(weights[0] + weights[1], event.count - 4 * LEAST);
        cr_assert_gt(n_samples, 3000);
        share = (double)weights[1] / (double)(weights[0] + weights[1]);
        cr_assert_float_eq(share, (double)SINGLE / (ROW + SINGLE), 0.01, "%g", share);
}
