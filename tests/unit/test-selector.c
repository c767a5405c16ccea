/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "target/selector.h"

static const uint32_t pids[] = { 7, 9 }, self[] = { 100 };
static const char *const comms[] = { "nginx", "wor?er-*" };

Test(selector, takes_publishers_when_nothing_is_asked_for) {
        Selector selector = { .excluded = self, .n_excluded = 1 };

        cr_assert(selector_is_default(&selector) && !selector_is_by_name(&selector));
        cr_assert_eq(selector_decide(&selector, 5, "x", true), SELECTOR_PUBLISHER);
        cr_assert_eq(selector_decide(&selector, 5, "x", false), SELECTOR_SILENT);
        cr_assert_eq(selector_decide(&selector, 100, "x", true), SELECTOR_EXCLUDED);
}

Test(selector, replaces_the_default_by_any_selector) {
        Selector selector = { .pids = pids, .n_pids = 2 };

        cr_assert_eq(selector_decide(&selector, 9, "x", false), SELECTOR_PID);
        cr_assert_eq(selector_decide(&selector, 8, "x", true), SELECTOR_UNCHOSEN);
        cr_assert(!selector_is_by_name(&selector));
}

Test(selector, joins_selectors_by_or_and_lets_excludes_win) {
        Selector selector = { .pids = pids, .n_pids = 2, .comms = comms, .n_comms = 2,
                              .excluded = (uint32_t[]){ 9, 100 }, .n_excluded = 2 };

        cr_assert(selector_is_by_name(&selector));
        cr_assert_eq(selector_decide(&selector, 7, "nginx", false), SELECTOR_PID);
        cr_assert_eq(selector_decide(&selector, 8, "nginx", false), SELECTOR_COMM);
        cr_assert_eq(selector_decide(&selector, 8, "worker-12", false), SELECTOR_COMM);
        cr_assert_eq(selector_decide(&selector, 8, "xnginx", false), SELECTOR_UNCHOSEN);
        cr_assert_eq(selector_decide(&selector, 9, "nginx", true), SELECTOR_EXCLUDED);
        selector.all = true;
        cr_assert_eq(selector_decide(&selector, 8, "xnginx", false), SELECTOR_ALL);
        cr_assert_eq(selector_decide(&selector, 100, "nginx", false), SELECTOR_EXCLUDED);
}

Test(selector, has_words_for_every_reason) {
        for (SelectorReason reason = SELECTOR_UNCHOSEN; reason <= SELECTOR_PUBLISHER; reason++)
                cr_assert_not_null(selector_reason_text(reason));
        cr_assert(!selector_is_chosen(SELECTOR_EXCLUDED) && selector_is_chosen(SELECTOR_PID));
}
