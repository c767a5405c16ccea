/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests with every outcome, for the runner that runs tests where criterion's own does not start
 * (plain-runner.c, test-tap.py). The suite `wrong` must fail, each of its tests.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <criterion/redirect.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static int n_init;

static void begin(void) {
        n_init = n_init * 10 + 1;
}

static void begin_test(void) {
        n_init = n_init * 10 + 2;
}

static void end_badly(void) {
        cr_expect_eq(n_init, 0, "fini was here");
}

TestSuite(right, .init = begin);

Test(right, has_the_init_of_its_suite) {
        cr_assert_eq(n_init, 1);
}

Test(right, has_its_own_after_that, .init = begin_test) {
        cr_assert_eq(n_init, 12);
}

Test(right, dies_as_it_says, .signal = SIGABRT) {
        abort();
}

Test(right, ends_as_it_says, .exit_code = 3) {
        exit(3);
}

Test(right, is_skipped) {
        cr_skip("machine: lacks %d", 7);
        cr_assert(false);
}

Test(right, is_off, .disabled = true) {
        cr_assert(false);
}

Test(right, reads_what_it_wrote, .init = cr_redirect_stdout) {
        printf("seven");
        fflush(stdout);
        cr_assert_stdout_eq_str("seven");
}

ParameterizedTestParameters(right, gets_each_parameter) {
        static int numbers[] = { 5, 6 };

        return cr_make_param_array(int, numbers, 2);
}

ParameterizedTest(int *number, right, gets_each_parameter) {
        cr_assert(*number == 5 || *number == 6);
}

Test(wrong, asserts) {
        cr_assert_eq(1, 2, "%s", "they differ");
}

Test(wrong, goes_on_after_an_expectation) {
        cr_expect(false);
        n_init = 0;
}

Test(wrong, has_a_fini_that_fails, .init = begin, .fini = end_badly) {
}

Test(wrong, dies) {
        abort();
}

Test(wrong, dies_otherwise_than_it_says, .signal = SIGSEGV) {
        abort();
}

Test(wrong, lives_on, .signal = SIGABRT) {
}

Test(wrong, ends_otherwise) {
        exit(3);
}

Test(wrong, reads_something_else, .init = cr_redirect_stderr) {
        fprintf(stderr, "seven");
        cr_assert_stderr_eq_str("eight");
}

ParameterizedTestParameters(wrong, has_one_bad_parameter) {
        static int numbers[] = { 5, 6 };

        return cr_make_param_array(int, numbers, 2);
}

ParameterizedTest(int *number, wrong, has_one_bad_parameter) {
        cr_assert_eq(*number, 5);
}
