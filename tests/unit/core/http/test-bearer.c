/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/http/bearer.h"

static Bearer bearer;

static void teardown(void) {
        bearer_deinit(&bearer);
}

TestSuite(bearer, .fini = teardown);

/* Headers: RFC 6750, section 2.1; the name of a scheme is of either case (RFC 9110, 11.1). */
Test(bearer, takes_each_line_for_a_token) {
        cr_assert_eq(bearer_parse(&bearer, "mF_9.B5f-4.1JqM\r\n\nold~+/==\n"), 0);
        cr_expect_eq(bearer.n, 2);
        cr_expect(bearer_accepts(&bearer, "Bearer mF_9.B5f-4.1JqM"));
        cr_expect(bearer_accepts(&bearer, "bearer  old~+/== "));
}

Test(bearer, refuses_all_else) {
        static const char *const others[] = {
                "", "Bearer", "Bearer ", "mF_9", "Basic mF_9", "Bearer mF_", "Bearer mF_9mF_9", "Bearer mF_9x",
                "Bearer mF_8", "Bearer MF_9", "Bearer mF_9 x", "Bearer x mF_9", "BearermF_9", "Bearer \tmF_9",
        };

        cr_assert_eq(bearer_parse(&bearer, "mF_9"), 0);
        for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
                cr_expect_not(bearer_accepts(&bearer, others[i]), "%s", others[i]);
        cr_expect(bearer_accepts(&bearer, "Bearer mF_9"));
}

Test(bearer, says_why_a_text_has_no_tokens) {
        char many[17 * 2 + 1] = "";

        for (int i = 0; i < 17; i++)
                strcat(many, "x\n");
        cr_expect_eq(bearer_parse(&bearer, ""), BEARER_E_NONE);
        cr_expect_eq(bearer_parse(&bearer, "\r\n\n"), BEARER_E_NONE);
        cr_expect_eq(bearer_parse(&bearer, "two words\n"), BEARER_E_CHARACTER);
        cr_expect_eq(bearer_parse(&bearer, "good\n\xC3\xA4\n"), BEARER_E_CHARACTER);
        cr_expect_eq(bearer_parse(&bearer, many), BEARER_E_MANY);
        many[16 * 2] = 0;
        cr_expect_eq(bearer_parse(&bearer, many), 0);
        cr_expect_eq(bearer.n, 16);
}
