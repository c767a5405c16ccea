/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "sample/pulse.h"
#include "util/clock.h"

#define PERIOD_NS (NS_PER_SEC / 100)

Test(pulse, that_goes_on_has_not_stopped) {
        Pulse pulse = { 0 };

        for (uint64_t i = 1; i <= 100; i++)
                cr_assert(!pulse_has_stopped(&pulse, i, i * 10 * NS_PER_SEC, PERIOD_NS), "one entry between two looks is enough");
}

Test(pulse, has_stopped_after_two_seconds_of_silence) {
        Pulse pulse = { 0 };

        cr_assert(!pulse_has_stopped(&pulse, 7, 100 * NS_PER_SEC, PERIOD_NS));
        cr_assert(!pulse_has_stopped(&pulse, 7, 101 * NS_PER_SEC, PERIOD_NS));
        cr_assert(!pulse_has_stopped(&pulse, 7, 102 * NS_PER_SEC - 1, PERIOD_NS));
        cr_assert(pulse_has_stopped(&pulse, 7, 102 * NS_PER_SEC, PERIOD_NS));
        cr_assert(!pulse_has_stopped(&pulse, 8, 102 * NS_PER_SEC, PERIOD_NS), "it has ticked after all");
}

Test(pulse, of_a_slow_timer_is_waited_for) {
        Pulse pulse = { 0 };

        cr_assert(!pulse_has_stopped(&pulse, 0, NS_PER_SEC, NS_PER_SEC));
        cr_assert(!pulse_has_stopped(&pulse, 0, 20 * NS_PER_SEC, NS_PER_SEC), "at 1 Hz two seconds say nothing");
        cr_assert(pulse_has_stopped(&pulse, 0, 21 * NS_PER_SEC, NS_PER_SEC));
}

Test(pulse, of_a_new_event_begins_with_the_first_look) {
        Pulse pulse = { 0 };

        cr_assert(!pulse_has_stopped(&pulse, 7, NS_PER_SEC, PERIOD_NS));
        pulse_reset(&pulse);
        cr_assert(!pulse_has_stopped(&pulse, 7, 10 * NS_PER_SEC, PERIOD_NS));
        cr_assert(pulse_has_stopped(&pulse, 7, 12 * NS_PER_SEC, PERIOD_NS));
}
