/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "host/service/limits/memory-hold.h"

static MemoryHold make(void) {
        return (MemoryHold){ .max_bytes = 800, .nominal = 99, .frequency = 99 };
}

Test(memory_hold, takes_a_step_for_each_look_above_the_limit) {
        MemoryHold hold = make();

        cr_assert_eq(memory_hold_judge(&hold, 800), 0);
        cr_assert_eq(hold.step, MEMORY_STEP_NONE);
        cr_assert_eq(memory_hold_judge(&hold, 801), MEMORY_HOLD_E_MORE);
        cr_assert_eq(hold.step, MEMORY_STEP_TABLES);
        cr_assert_eq(memory_hold_judge(&hold, 801), MEMORY_HOLD_E_MORE);
        cr_assert_eq(hold.step, MEMORY_STEP_WINDOWS);
        cr_assert_eq(hold.frequency, 99);
        cr_assert_eq(memory_hold_judge(&hold, 801), MEMORY_HOLD_E_MORE);
        cr_assert_eq(hold.step, MEMORY_STEP_FREQUENCY);
        cr_assert_eq(hold.frequency, 49);
        cr_assert_eq(memory_hold_judge(&hold, 801), MEMORY_HOLD_E_MORE);
        cr_assert_eq(hold.frequency, 24);
}

Test(memory_hold, ends_at_a_quarter_of_the_frequency) {
        MemoryHold hold = make();

        for (int i = 0; i < 20; i++)
                memory_hold_judge(&hold, 801);
        cr_assert_eq(hold.frequency, 24);
        cr_assert_eq(memory_hold_judge(&hold, 801), 0);
}

Test(memory_hold, samples_nothing_from_nine_tenths_of_the_group_s_limit_down_to_eight) {
        MemoryHold hold = make();

        memory_hold_judge(&hold, 900);
        cr_assert(!hold.is_full);
        memory_hold_judge(&hold, 901);
        cr_assert(hold.is_full);
        memory_hold_judge(&hold, 801);
        cr_assert(hold.is_full);
        memory_hold_judge(&hold, 800);
        cr_assert(!hold.is_full);
}

/* Ten calm looks for each step: 24 Hz, 48, and 99 again, which is also the end of that step. */
Test(memory_hold, goes_back_step_by_step_once_memory_is_far_below_the_limit) {
        static const struct {
                uint32_t frequency;
                enum memory_step step;
        } expected[] = { { 48, MEMORY_STEP_FREQUENCY },
                         { 99, MEMORY_STEP_WINDOWS },
                         { 99, MEMORY_STEP_TABLES },
                         { 99, MEMORY_STEP_NONE } };
        MemoryHold hold = make();

        for (int i = 0; i < 4; i++)
                memory_hold_judge(&hold, 801);
        for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
                for (int look = 1; look < MEMORY_HOLD_CALM; look++)
                        cr_assert_eq(memory_hold_judge(&hold, 699), 0);
                cr_assert_eq(memory_hold_judge(&hold, 699), MEMORY_HOLD_E_LESS);
                cr_assert_eq(hold.frequency, expected[i].frequency);
                cr_assert_eq(hold.step, expected[i].step);
        }
        for (int look = 0; look < 2 * MEMORY_HOLD_CALM; look++)
                cr_assert_eq(memory_hold_judge(&hold, 699), 0);
}

Test(memory_hold, stays_where_memory_is_near_the_limit) {
        MemoryHold hold = make();

        memory_hold_judge(&hold, 801);
        for (int look = 0; look < 3 * MEMORY_HOLD_CALM; look++)
                cr_assert_eq(memory_hold_judge(&hold, look % MEMORY_HOLD_CALM ? 699 : 700), 0);
        cr_assert_eq(hold.step, MEMORY_STEP_TABLES);
}

Test(memory_hold, does_nothing_without_a_limit_or_a_number) {
        MemoryHold hold = make();

        cr_assert_eq(memory_hold_judge(&hold, 0), 0);
        hold.max_bytes = 0;
        cr_assert_eq(memory_hold_judge(&hold, UINT64_MAX), 0);
        cr_assert_eq(hold.step, MEMORY_STEP_NONE);
}
