/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/stat.h"
#include "host/service/control/nameless.h"
#include "stat-reset.h"

Test(nameless, is_a_share_of_samples_with_a_user_part) {
        Nameless nameless;

        stat_reset();
        nameless = nameless_count();
        cr_assert_float_eq(nameless_ratio(&nameless), 0, 1e-9, "there are no samples");
        stat_add(COUNTER_STACKS_COMPLETE, 70);
        stat_add(COUNTER_STACKS_NO_ROWS, 10);
        stat_add(COUNTER_STACKS_NO_USER, 100);
        stat_add(COUNTER_NAMELESS_LATE, 6);
        stat_add(COUNTER_NAMELESS_STRIPPED, 2);
        nameless = nameless_count();
        cr_assert_eq(nameless.n, 8);
        cr_assert_eq(nameless.n_samples, 80);
        cr_assert_float_eq(nameless_ratio(&nameless), 0.1, 1e-9);
        stat_reset();
}

Test(nameless, says_the_greatest_reason_first_and_what_helps) {
        Text text = { 0 };

        stat_reset();
        nameless_append_reasons(&text);
        cr_assert_null(text.data);
        stat_add(COUNTER_STACKS_COMPLETE, 1000);
        stat_add(COUNTER_NAMELESS_READER, 10);
        stat_add(COUNTER_NAMELESS_STRIPPED, 200);
        stat_add(COUNTER_NAMELESS_LATE, 10);
        nameless_append_reasons(&text);
        cr_assert_str_eq(text.data, " 20.0 % their file has no symbols there, 1.0 % their runtime was not read yet,"
                                    " 1.0 % symbols of their file were not read yet");
        cr_assert_not_null(strstr(nameless_fix_in(text.data), "debuginfod"));
        cr_assert_null(nameless_fix_in("0.0 % of 9 samples"));
        text_deinit(&text);
        stat_reset();
}

/* Each reason alone has words of its own, and a command of its own or none. */
Test(nameless, has_words_for_each_reason) {
        const char *fixes[11] = { NULL };
        char texts[11][80] = { "" };
        unsigned n = 0, n_fixes = 0;

        for (enum counter counter = 0; counter < COUNTER_N; counter++) {
                Text text = { 0 };

                if (strcmp(stat_metric(counter), "nameless_samples_total") != 0)
                        continue;
                stat_reset();
                stat_add(COUNTER_STACKS_COMPLETE, 10);
                stat_add(counter, 10);
                nameless_append_reasons(&text);
                cr_assert_eq(strncmp(text.data, " 100.0 % ", 9), 0);
                cr_assert_lt(n, 11);
                cr_assert_lt(snprintf(texts[n], sizeof(texts[n]), "%s", text.data + 9), (int)sizeof(texts[n]));
                fixes[n] = nameless_fix_in(text.data);
                cr_assert(!fixes[n] || strstr(fixes[n], "   # "), "a line for a shell, and what it is for");
                n_fixes += fixes[n] != NULL;
                cr_assert_float_eq(nameless_curable_in("100.0 %"), 100, 1e-9);
                cr_assert_float_eq(nameless_curable_in(text.data), fixes[n] ? 100 : 0, 1e-9);
                text_deinit(&text);
                n++;
        }
        cr_assert_eq(n, 11);
        cr_assert_eq(n_fixes, 8);
        for (unsigned i = 0; i < n; i++)
                for (unsigned j = 0; j < n; j++) {
                        if (i == j)
                                continue;
                        cr_assert_null(strstr(texts[i], texts[j]), "a line is searched for each: %s", texts[j]);
                        cr_assert(!fixes[i] || !fixes[j] || strcmp(fixes[i], fixes[j]) != 0, "%s", texts[i]);
                }
        stat_reset();
}
