/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/util/clock.h"
#include "host/sampling/sample/pulse.h"

#define PERIOD_NS (NS_PER_SEC / 100)

Test(pulse, that_goes_on_is_not_silent) {
        Pulse pulse = { 0 };

        for (uint64_t i = 1; i <= 100; i++)
                cr_assert(!pulse_is_silent(&pulse, i, i * 10 * NS_PER_SEC, PERIOD_NS),
                          "one entry between two looks is enough");
}

Test(pulse, is_silent_after_two_seconds) {
        Pulse pulse = { 0 };

        cr_assert(!pulse_is_silent(&pulse, 7, 100 * NS_PER_SEC, PERIOD_NS));
        cr_assert(!pulse_is_silent(&pulse, 7, 101 * NS_PER_SEC, PERIOD_NS));
        cr_assert(!pulse_is_silent(&pulse, 7, 102 * NS_PER_SEC - 1, PERIOD_NS));
        cr_assert(pulse_is_silent(&pulse, 7, 102 * NS_PER_SEC, PERIOD_NS));
        cr_assert(!pulse_is_silent(&pulse, 8, 102 * NS_PER_SEC, PERIOD_NS), "it has ticked after all");
}

Test(pulse, of_a_slow_timer_is_waited_for) {
        Pulse pulse = { 0 };

        cr_assert(!pulse_is_silent(&pulse, 0, NS_PER_SEC, NS_PER_SEC));
        cr_assert(!pulse_is_silent(&pulse, 0, 20 * NS_PER_SEC, NS_PER_SEC),
                  "at 1 Hz two seconds say nothing");
        cr_assert(pulse_is_silent(&pulse, 0, 21 * NS_PER_SEC, NS_PER_SEC));
}

Test(pulse, of_a_new_event_begins_with_the_first_look) {
        Pulse pulse = { 0 };

        cr_assert(!pulse_is_silent(&pulse, 7, NS_PER_SEC, PERIOD_NS));
        pulse_reset(&pulse);
        cr_assert(!pulse_is_silent(&pulse, 7, 10 * NS_PER_SEC, PERIOD_NS));
        cr_assert(pulse_is_silent(&pulse, 7, 12 * NS_PER_SEC, PERIOD_NS));
}

Test(pulse, has_stopped_when_the_silent_event_is_enabled_no_longer) {
        Pulse pulse = { 0 };

        pulse_is_silent(&pulse, 7, NS_PER_SEC, PERIOD_NS);
        cr_assert(pulse_is_silent(&pulse, 7, 3 * NS_PER_SEC, PERIOD_NS));
        cr_assert(!pulse_has_stopped(&pulse, 12345), "one answer says nothing");
        cr_assert(pulse_is_silent(&pulse, 7, 4 * NS_PER_SEC, PERIOD_NS));
        cr_assert(pulse_has_stopped(&pulse, 12345));
}

Test(pulse, of_an_idle_cpu_that_does_not_tick_has_not_stopped) {
        Pulse pulse = { 0 };

        for (uint64_t t = 1; t < 100; t++)
                if (pulse_is_silent(&pulse, 7, t * NS_PER_SEC, PERIOD_NS))
                        cr_assert(!pulse_has_stopped(&pulse, t * NS_PER_SEC),
                                  "it is enabled for as long as time goes on");
}

Test(pulse, that_was_silent_for_a_while_is_judged_anew) {
        Pulse pulse = { 0 };

        pulse_is_silent(&pulse, 7, NS_PER_SEC, PERIOD_NS);
        cr_assert(!pulse_has_stopped(&pulse, 100));
        cr_assert(!pulse_is_silent(&pulse, 8, 4 * NS_PER_SEC, PERIOD_NS));
        cr_assert(pulse_is_silent(&pulse, 8, 7 * NS_PER_SEC, PERIOD_NS));
        cr_assert(!pulse_has_stopped(&pulse, 100), "an answer of an earlier silence does not count");
}
