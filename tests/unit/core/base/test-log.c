/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>

#include "core/base/util/log.h"

Test(log, writes_one_line_whatever_a_target_calls_itself, .init = cr_redirect_stderr) {
        log_write_target(LOG_LEVEL_INFO, 7, "%s is a target", "a\nspanprof: b\x1b[31m\r\t\x7f\xc3\xbc");
        fflush(stderr);
        cr_assert_stderr_eq_str("spanprof: [pid 7] a?spanprof: b?[31m???\xc3\xbc is a target\n");
}

Test(log, masks_what_turns_writing_around_or_is_not_seen, .init = cr_redirect_stderr) {
        log_info("%s", "evil\xE2\x80\xAEgnp.exe\xC2\x9B" "31m\xE2\x80\x8B\xE2\x80\xA8\x9B");
        fflush(stderr);
        cr_assert_stderr_eq_str("spanprof: evil?gnp.exe?31m???\n");
}

Test(log, lets_one_message_pass_and_counts_the_others) {
        LogLimit limit = { 0 };
        uint64_t n_skipped = 7;

        cr_assert_eq(log_limit(&limit, UINT64_C(3600000000000), &n_skipped), 1);
        cr_assert_eq(n_skipped, 0);
        for (int i = 0; i < 5; i++)
                cr_assert_eq(log_limit(&limit, UINT64_C(3600000000000), &n_skipped), 0);
        limit.next_ns = 1;              /* the hour is over */
        cr_assert_eq(log_limit(&limit, 1, &n_skipped), 1);
        cr_assert_eq(n_skipped, 5);
}

Test(log, leaves_out_what_is_below_the_level, .init = cr_redirect_stderr) {
        log_debug("unseen");
        log_set_level(LOG_LEVEL_ERROR);
        log_warning("unseen");
        log_error("seen");
        fflush(stderr);
        cr_assert_stderr_eq_str("spanprof: seen\n");
}
