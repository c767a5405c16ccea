/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/digits.h"

static void expect_as_printf_has_it(uint64_t value) {
        char expected[32], got[32];
        char *end;

        snprintf(expected, sizeof(expected), "%" PRIu64, value);
        memset(got, '?', sizeof(got));
        end = digits_put(got, value);
        cr_expect_eq(end[DIGITS_SLACK], '?', "%s: writes too far behind itself", expected);
        *end = 0;
        cr_assert_str_eq(got, expected);

        snprintf(expected, sizeof(expected), "%016" PRIx64, value);
        memset(got, '?', sizeof(got));
        end = digits_put_hex_16(got, value);
        cr_expect_eq(*end, '?');
        *end = 0;
        cr_assert_str_eq(got, expected);
}

/* Each length of a number, from both sides, and each digit at each place. */
Test(digits, are_those_of_printf) {
        uint64_t power = 1;

        for (int i = 0; i < DIGITS_MAX; i++, power *= 10) {
                expect_as_printf_has_it(power - 1);
                expect_as_printf_has_it(power);
                expect_as_printf_has_it(power + 1);
                for (uint64_t digit = 2; digit < 10 && digit * power / power == digit; digit++)
                        expect_as_printf_has_it(digit * power);
        }
        for (int i = 0; i < 64; i++)
                expect_as_printf_has_it(UINT64_C(1) << i);
        expect_as_printf_has_it(UINT64_MAX);
        expect_as_printf_has_it(UINT64_C(0x0123456789ABCDEF));
}

/* All that four digits can be: the halves of eight are made side by side. */
Test(digits, do_not_carry_into_each_other) {
        for (uint64_t i = 0; i < 10000; i++) {
                expect_as_printf_has_it(i);
                expect_as_printf_has_it(i * 10000 + 9999 - i);
                expect_as_printf_has_it(i * 1000000000001);
        }
}
