/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "host/delivery/export/retry.h"

static const RetryPolicy policy = { .first_ns = 5 * NS_PER_SEC, .max_age_ns = 900 * NS_PER_SEC };

enum { MIDDLE = UINT32_MAX / 2 };       /* no jitter, up to rounding */

static RetryVerdict judge_status(int status) {
        uint64_t wait_ns;

        return retry_judge(&policy, &(RetryAttempt){ .status = status, .retry_after = "" }, &wait_ns);
}

static uint64_t wait_after(unsigned n_failures, const char *retry_after, uint32_t random) {
        uint64_t wait_ns = 0;
        RetryAttempt attempt = {
                .status = 503,
                .retry_after = retry_after,
                .now_s = 1000,
                .n_failures = n_failures,
                .random = random,
        };

        cr_assert_eq(retry_judge(&policy, &attempt, &wait_ns), RETRY_LATER);
        return wait_ns;
}

Test(retry_judge, follows_the_table_of_the_otlp_specification) {
        for (int status = 200; status < 600; status++) {
                RetryVerdict expected = status < 300 ? RETRY_ACCEPTED : RETRY_REFUSED;

                if (status == 429 || status == 502 || status == 503 || status == 504)
                        expected = RETRY_LATER;
                cr_assert_eq(judge_status(status), expected, "status %d", status);
        }
}

Test(retry_judge, tries_a_500_again_for_a_while_if_that_is_asked_for) {
        RetryPolicy starting = policy;
        RetryAttempt attempt = { .status = 500, .retry_after = "", .age_ns = 59 * NS_PER_SEC };
        uint64_t wait_ns;

        starting.starting_ns = 60 * NS_PER_SEC;
        cr_assert_eq(retry_judge(&starting, &attempt, &wait_ns), RETRY_LATER);
        attempt.age_ns = 60 * NS_PER_SEC;
        cr_assert_eq(retry_judge(&starting, &attempt, &wait_ns), RETRY_REFUSED);
        attempt.status = 501;
        attempt.age_ns = 0;
        cr_assert_eq(retry_judge(&starting, &attempt, &wait_ns), RETRY_REFUSED);
}

Test(retry_judge, tries_a_refusal_again_that_an_upgrade_would_end) {
        RetryAttempt attempt = { .retry_after = "", .wants_upgrade = true };
        uint64_t wait_ns = 0;

        attempt.status = 404;
        attempt.random = MIDDLE;
        cr_assert_eq(retry_judge(&policy, &attempt, &wait_ns), RETRY_LATER);
        cr_assert_eq((wait_ns + NS_PER_MS / 2) / NS_PER_MS, 5000);
        attempt.status = 200;
        cr_assert_eq(retry_judge(&policy, &attempt, &wait_ns), RETRY_ACCEPTED);
}

Test(retry_judge, tries_again_after_every_fault_without_an_answer) {
        uint64_t wait_ns;

        for (HttpFault fault = HTTP_FAULT_RESOLVE; fault <= HTTP_FAULT_INTERNAL; fault++) {
                RetryAttempt attempt = { .fault = fault, .retry_after = "" };

                cr_assert_eq(retry_judge(&policy, &attempt, &wait_ns), RETRY_LATER, "fault %d", fault);
        }
}

/* 5 s, ×1.5, cap: worked out by hand, in ms */
Test(retry_judge, waits_half_as_long_again_each_time_up_to_the_cap) {
        static const uint64_t expected_ms[] = { 5000, 7500, 11250, 16875, 25000, 25000 };

        for (unsigned i = 0; i < ARRAY_SIZE(expected_ms); i++)
                cr_assert_eq((wait_after(i, "", MIDDLE) + NS_PER_MS / 2) / NS_PER_MS, expected_ms[i],
                             "%u failures", i);
        cr_assert_eq((wait_after(4000000000u, "", MIDDLE) + NS_PER_MS / 2) / NS_PER_MS, 25000);
}

Test(retry_judge, spreads_waits_by_a_fifth_and_stays_under_thirty_seconds) {
        cr_assert_eq(wait_after(0, "", 0), 4 * NS_PER_SEC);
        cr_assert_eq(wait_after(0, "", UINT32_MAX), 6 * NS_PER_SEC);
        cr_assert_eq(wait_after(50, "", 0), 20 * NS_PER_SEC);
        cr_assert_eq(wait_after(50, "", UINT32_MAX), 30 * NS_PER_SEC);
}

Test(retry_judge, takes_retry_after_as_a_minimum) {
        cr_assert_eq(wait_after(0, "17", MIDDLE), 17 * NS_PER_SEC);
        cr_assert_eq(wait_after(0, "1", 0), 4 * NS_PER_SEC, "our own wait is longer");
        cr_assert_eq(wait_after(0, "soon", 0), 4 * NS_PER_SEC);
        cr_assert_eq(wait_after(0, "99999999999999999999999999", 0), 3600 * NS_PER_SEC, "an hour at most");
        cr_assert_eq(wait_after(0, "Thu, 01 Jan 1970 00:17:40 GMT", 0), 60 * NS_PER_SEC, "1060 s - 1000 s");
}

Test(retry_judge, gives_up_a_batch_that_was_tried_for_too_long) {
        RetryAttempt attempt = { .status = 503, .retry_after = "", .age_ns = 900 * NS_PER_SEC, .random = 0 };
        uint64_t wait_ns = 0;

        cr_assert_eq(retry_judge(&policy, &attempt, &wait_ns), RETRY_LATER);
        attempt.age_ns++;
        cr_assert_eq(retry_judge(&policy, &attempt, &wait_ns), RETRY_TOO_OLD);
        cr_assert_eq(wait_ns, 4 * NS_PER_SEC, "the receiver is given time all the same");
        attempt.status = 200;
        cr_assert_eq(retry_judge(&policy, &attempt, &wait_ns), RETRY_ACCEPTED, "age does not undo a success");
}

/*
 * A batch a quarter of a minute, a receiver that is away for two hours, and a clock that only this test
 * turns.
 */
Test(retry_judge, comes_through_two_hours_without_a_receiver) {
        RetryPolicy patient = { .first_ns = 5 * NS_PER_SEC, .max_age_ns = 3600 * NS_PER_SEC };
        uint64_t first_try_ns = 0, n_attempts = 0, n_given_up = 0, wait_ns, longest_ns = 0;

        for (uint64_t now_ns = 0; now_ns < 7200 * NS_PER_SEC; now_ns += wait_ns) {
                RetryAttempt attempt = { .fault = HTTP_FAULT_CONNECT,
                                         .retry_after = "",
                                         .n_failures = (unsigned)n_attempts,
                                         .random = (uint32_t)(n_attempts * 2654435761u),
                                         .age_ns = now_ns - first_try_ns };
                RetryVerdict verdict = retry_judge(&patient, &attempt, &wait_ns);

                n_attempts++;
                cr_assert(verdict == RETRY_LATER || verdict == RETRY_TOO_OLD);
                if (verdict == RETRY_TOO_OLD) {         /* the next one is tried from now on */
                        n_given_up++;
                        first_try_ns = now_ns + wait_ns;
                }
                longest_ns = MAX(longest_ns, wait_ns);
        }
        cr_assert_leq(longest_ns, 30 * NS_PER_SEC, "so soon it is noticed that the receiver is back");
        cr_assert_gt(n_attempts, 7200 / 30);
        cr_assert_lt(n_attempts, 7200 / 20 + 10, "and it is not beaten while it is away");
        cr_assert_eq(n_given_up, 1, "one batch an hour, not all that wait behind it");
}

Test(retry_after_parse, reads_seconds_and_dates) {
        uint64_t seconds = 0;

        cr_assert_eq(retry_after_parse("120", 0, &seconds), 0);
        cr_assert_eq(seconds, 120);
        /* date -u -d 'Sun, 06 Nov 1994 08:49:37 GMT' +%s → 784111777 (the example of RFC 9110, 5.6.7) */
        cr_assert_eq(retry_after_parse("Sun, 06 Nov 1994 08:49:37 GMT", 784111700, &seconds), 0);
        cr_assert_eq(seconds, 77);
        cr_assert_eq(retry_after_parse("Sun, 06 Nov 1994 08:49:37 GMT", 784111800, &seconds), 0);
        cr_assert_eq(seconds, 0, "a date in the past is now");
        cr_assert_eq(retry_after_parse("Fri, 31 Dec 9999 23:59:59 GMT", 0, &seconds), 0);
        cr_assert_eq(seconds, 3600);
}

Test(retry_after_parse, refuses_everything_else) {
        static const char *const bad[] = {
                "",
                " ",
                "-1",
                "1.5",
                "1 s",
                "Sun, 06 Nov 1994 08:49:37",
                "Sun, 06 Nov 1994 08:49:37 CET",
                "Sun, 06 ovD 1994 08:49:37 GMT",
                "Sun, 40 Nov 1994 08:49:37 GMT",
                "Sun, 06 Nov 1994 25:49:37 GMT",
                "Sun, 06 Nov 1994 08:49:37 GMT, too",
                "06 Nov 1994 08:49:37 GMT",
                "Sun, 06 No 1994 08:49:37 GMT",
        };
        uint64_t seconds = 7;

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                cr_assert_eq(retry_after_parse(bad[i], 0, &seconds), 1, "\"%s\"", bad[i]);
        cr_assert_eq(seconds, 7);
}
