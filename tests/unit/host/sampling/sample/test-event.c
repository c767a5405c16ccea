/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>

#include "core/base/util/clock.h"
#include "host/sampling/sample/event.h"

#define PERIOD_NS (NS_PER_SEC / 100)

Test(pulse, that_goes_on_is_not_silent) {
        EventPulse pulse = { 0 };

        for (uint64_t i = 1; i <= 100; i++)
                cr_assert(!event_is_silent(&pulse, i, i * 10 * NS_PER_SEC, PERIOD_NS),
                          "one entry between two looks is enough");
}

Test(pulse, is_silent_after_two_seconds) {
        EventPulse pulse = { 0 };

        cr_assert(!event_is_silent(&pulse, 7, 100 * NS_PER_SEC, PERIOD_NS));
        cr_assert(!event_is_silent(&pulse, 7, 101 * NS_PER_SEC, PERIOD_NS));
        cr_assert(!event_is_silent(&pulse, 7, 102 * NS_PER_SEC - 1, PERIOD_NS));
        cr_assert(event_is_silent(&pulse, 7, 102 * NS_PER_SEC, PERIOD_NS));
        cr_assert(!event_is_silent(&pulse, 8, 102 * NS_PER_SEC, PERIOD_NS), "it has ticked after all");
}

Test(pulse, of_a_slow_timer_is_waited_for) {
        EventPulse pulse = { 0 };

        cr_assert(!event_is_silent(&pulse, 0, NS_PER_SEC, NS_PER_SEC));
        cr_assert(!event_is_silent(&pulse, 0, 20 * NS_PER_SEC, NS_PER_SEC),
                  "at 1 Hz two seconds say nothing");
        cr_assert(event_is_silent(&pulse, 0, 21 * NS_PER_SEC, NS_PER_SEC));
}

Test(pulse, of_a_new_event_begins_with_the_first_look) {
        EventPulse pulse = { 0 };

        cr_assert(!event_is_silent(&pulse, 7, NS_PER_SEC, PERIOD_NS));
        event_pulse_reset(&pulse);
        cr_assert(!event_is_silent(&pulse, 7, 10 * NS_PER_SEC, PERIOD_NS));
        cr_assert(event_is_silent(&pulse, 7, 12 * NS_PER_SEC, PERIOD_NS));
}

Test(pulse, has_stopped_when_the_silent_event_is_enabled_no_longer) {
        EventPulse pulse = { 0 };

        event_is_silent(&pulse, 7, NS_PER_SEC, PERIOD_NS);
        cr_assert(event_is_silent(&pulse, 7, 3 * NS_PER_SEC, PERIOD_NS));
        cr_assert(!event_has_stopped(&pulse, 12345), "one answer says nothing");
        cr_assert(event_is_silent(&pulse, 7, 4 * NS_PER_SEC, PERIOD_NS));
        cr_assert(event_has_stopped(&pulse, 12345));
}

Test(pulse, of_an_idle_cpu_that_does_not_tick_has_not_stopped) {
        EventPulse pulse = { 0 };

        for (uint64_t t = 1; t < 100; t++)
                if (event_is_silent(&pulse, 7, t * NS_PER_SEC, PERIOD_NS))
                        cr_assert(!event_has_stopped(&pulse, t * NS_PER_SEC),
                                  "it is enabled for as long as time goes on");
}

Test(pulse, that_was_silent_for_a_while_is_judged_anew) {
        EventPulse pulse = { 0 };

        event_is_silent(&pulse, 7, NS_PER_SEC, PERIOD_NS);
        cr_assert(!event_has_stopped(&pulse, 100));
        cr_assert(!event_is_silent(&pulse, 8, 4 * NS_PER_SEC, PERIOD_NS));
        cr_assert(event_is_silent(&pulse, 8, 7 * NS_PER_SEC, PERIOD_NS));
        cr_assert(!event_has_stopped(&pulse, 100), "an answer of an earlier silence does not count");
}

/*
 * A period that is in force for a second gives 1 s ÷ period ticks, less the half of one, on average, that had
 * begun when it was replaced. The mean of that over many draws is what was asked for.
 */
Test(event_draw_period, is_the_nominal_rate_on_average) {
        static const uint32_t frequencies[] = { 19, 99, 499, 4999, 10000 };

        for (size_t i = 0; i < sizeof(frequencies) / sizeof(*frequencies); i++) {
                enum { N = 1000 };
                for (size_t j = 0; j < 2; j++) {
                        const EventJitter jitter = j ? EVENT_JITTER_NARROW : EVENT_JITTER_WIDE;
                        uint64_t nominal_ns = NS_PER_SEC / frequencies[i];
                        uint32_t draw = 0;
                        double ticks = 0;

                        for (int k = 0; k < N; k++)
                                ticks += (double)NS_PER_SEC /
                                                (double)event_draw_period(nominal_ns, jitter, &draw) -
                                        0.5;
                        cr_assert_float_eq(ticks / N / frequencies[i], 1, 0.005, "%u Hz became %f",
                                           frequencies[i], ticks / N);
                }
        }
}

Test(event_draw_period, leaves_no_part_of_its_range_out) {
        unsigned n[10] = { 0 };
        uint32_t draw = 0;
        const uint64_t nominal_ns = 10101010;

        for (int i = 0; i < 1000; i++) {
                double period_ns = (double)event_draw_period(nominal_ns, EVENT_JITTER_WIDE, &draw);
                double part = (period_ns / (double)nominal_ns - 0.75) / 0.5;

                cr_assert(part > -0.05 && part < 1.1, "%f", part);
                n[part < 0 ? 0 : part >= 1 ? 9 : (int)(part * 10)]++;
        }
        for (int i = 0; i < 10; i++)
                cr_assert_gt(n[i], 50);
}

/* 200 ms at 990 Hz are 180 ticks or more, whatever is drawn. */
Test(event_draw_period, is_never_far_off_where_it_is_narrow) {
        const uint64_t nominal_ns = NS_PER_SEC / 990;
        uint64_t least_ns = UINT64_MAX, most_ns = 0;
        uint32_t draw = 0;

        for (int i = 0; i < 1000; i++) {
                uint64_t period_ns = event_draw_period(nominal_ns, EVENT_JITTER_NARROW, &draw);

                least_ns = least_ns < period_ns ? least_ns : period_ns;
                most_ns = most_ns > period_ns ? most_ns : period_ns;
        }
        cr_assert_lt(most_ns, 200 * NS_PER_MS / 181);
        cr_assert_gt(most_ns - least_ns, nominal_ns * 15 / 100, "it is drawn");
}

Test(event_draw_period, begins_elsewhere_on_each_cpu) {
        uint32_t draws[16] = { 0 };
        unsigned n_same = 0;

        for (int i = 0; i < 16; i++)
                event_draw_period(10101010, EVENT_JITTER_WIDE, &draws[i]);
        for (int i = 1; i < 16; i++)
                n_same += draws[i] == draws[0];
        cr_assert_lt(n_same, 3);
}
