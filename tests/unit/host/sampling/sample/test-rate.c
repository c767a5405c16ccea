/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>

#include "core/base/util/clock.h"
#include "host/sampling/sample/rate.h"

/*
 * A period that is in force for a second gives 1 s ÷ period ticks, less the half of one, on average, that had
 * begun when it was replaced. The mean of that over many draws is what was asked for.
 */
Test(rate_draw_period, is_the_nominal_rate_on_average) {
        static const uint32_t frequencies[] = { 19, 99, 499, 4999, 10000 };

        for (size_t i = 0; i < sizeof(frequencies) / sizeof(*frequencies); i++) {
                enum { N = 1000 };
                uint32_t draw = 0;
                double ticks = 0;

                for (int j = 0; j < N; j++)
                        ticks += (double)NS_PER_SEC /
                                        (double)rate_draw_period(NS_PER_SEC / frequencies[i], &draw) -
                                0.5;
                cr_assert_float_eq(ticks / N / frequencies[i], 1, 0.005, "%u Hz became %f", frequencies[i],
                                   ticks / N);
        }
}

Test(rate_draw_period, leaves_no_part_of_its_range_out) {
        unsigned n[10] = { 0 };
        uint32_t draw = 0;
        const uint64_t nominal_ns = 10101010;

        for (int i = 0; i < 1000; i++) {
                double part = ((double)rate_draw_period(nominal_ns, &draw) / (double)nominal_ns - 0.75) / 0.5;

                cr_assert(part > -0.05 && part < 1.1, "%f", part);
                n[part < 0 ? 0 : part >= 1 ? 9 : (int)(part * 10)]++;
        }
        for (int i = 0; i < 10; i++)
                cr_assert_gt(n[i], 50);
}

Test(rate_draw_period, begins_elsewhere_on_each_cpu) {
        uint32_t draws[16] = { 0 };
        unsigned n_same = 0;

        for (int i = 0; i < 16; i++)
                rate_draw_period(10101010, &draws[i]);
        for (int i = 1; i < 16; i++)
                n_same += draws[i] == draws[0];
        cr_assert_lt(n_same, 3);
}
