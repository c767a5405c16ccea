/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/util/clock.h"
#include "host/service/limits/volume.h"

static Volume make(uint64_t max_rate) {
        Volume volume;

        volume_init(&volume, 99, max_rate, 15 * NS_PER_SEC);
        return volume;
}

Test(volume, leaves_alone_what_has_no_limit) {
        Volume volume = make(0);

        for (int i = 0; i < 20; i++)
                cr_assert_eq(volume_window(&volume, 15 * NS_PER_SEC, UINT64_C(1) << 40), 0);
        cr_assert_eq(volume.frequency, 99);
}

Test(volume, falls_to_what_the_budget_allows) {
        Volume volume = make(1000);

        cr_assert_eq(volume_window(&volume, 15 * NS_PER_SEC, 15000), 0, "to the brim");
        cr_assert_eq(volume_window(&volume, 15 * NS_PER_SEC, 15 * 9000), VOLUME_E_LOWERED);
        cr_assert_eq(volume.frequency, 11);
}

Test(volume, never_falls_by_less_than_half_nor_below_one) {
        Volume volume = make(1000);

        cr_assert_eq(volume_window(&volume, 15 * NS_PER_SEC, 15 * 1001), VOLUME_E_LOWERED);
        cr_assert_eq(volume.frequency, 49);
        for (int i = 0; i < 5; i++)
                cr_assert_eq(volume_window(&volume, 15 * NS_PER_SEC, 15 * 10000),
                             i < 2 ? VOLUME_E_LOWERED : 0, "round %d, %u Hz", i, volume.frequency);
        cr_assert_eq(volume.frequency, 1);
}

Test(volume, judges_no_window_that_is_short) {
        Volume volume = make(1000);

        cr_assert_eq(volume_window(&volume, NS_PER_SEC / 2, 14000), 0,
                     "28,000 a second, but for half a second");
        cr_assert_eq(volume_window(&volume, 14 * NS_PER_SEC, 400), 0, "14,400 in 14.5 s");
        cr_assert_eq(volume.frequency, 99);
}

Test(volume, goes_back_when_it_is_calm_for_a_while) {
        Volume volume = make(1000);

        volume.frequency = 25;
        for (int i = 1; i < VOLUME_CALM_WINDOWS; i++)
                cr_assert_eq(volume_window(&volume, 15 * NS_PER_SEC, 3000), 0);
        cr_assert_eq(volume_window(&volume, 15 * NS_PER_SEC, 3000), VOLUME_E_RAISED);
        cr_assert_eq(volume.frequency, 50);
        cr_assert_eq(volume_window(&volume, 15 * NS_PER_SEC, 15 * 600), 0, "not calm: it stays");
        for (int i = 1; i < VOLUME_CALM_WINDOWS; i++)
                cr_assert_eq(volume_window(&volume, 15 * NS_PER_SEC, 3000), 0);
        cr_assert_eq(volume_window(&volume, 15 * NS_PER_SEC, 3000), VOLUME_E_RAISED);
        cr_assert_eq(volume.frequency, 99, "no more than was configured");
}
