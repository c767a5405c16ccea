/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "core/base/data/intern.h"

Test(intern, gives_equal_bytes_equal_indexes) {
        Intern intern;
        uint32_t a = 99, b = 99, c = 99;

        intern_init(&intern, 10);
        cr_assert_eq(intern_add(&intern, "one", 3, &a), 0);
        cr_assert_eq(intern_add(&intern, "two", 3, &b), 0);
        cr_assert_eq(intern_add(&intern, "one", 3, &c), INTERN_E_FOUND);
        cr_assert_eq(a, 0);
        cr_assert_eq(b, 1);
        cr_assert_eq(c, 0);
        intern_deinit(&intern);
}

Test(intern, tells_the_empty_string_from_a_nul_byte) {
        Intern intern;
        uint32_t a, b;

        intern_init(&intern, 10);
        cr_assert_eq(intern_add(&intern, "", 0, &a), 0);
        cr_assert_eq(intern_add(&intern, "", 1, &b), 0);
        cr_assert_neq(a, b);
        intern_deinit(&intern);
}

Test(intern, keeps_its_bytes_while_it_grows) {
        Intern intern;
        char key[32];
        uint32_t index;

        intern_init(&intern, 100000);
        for (uint32_t i = 0; i < 50000; i++) {
                cr_assert_eq(
                        intern_add(&intern, key, (size_t)snprintf(key, sizeof(key), "key %u", i), &index), 0);
                cr_assert_eq(index, i);
        }
        for (uint32_t i = 0; i < 50000; i++) {
                size_t size = (size_t)snprintf(key, sizeof(key), "key %u", i);

                cr_assert_eq(intern_find(&intern, key, size, &index), 0);
                cr_assert_eq(index, i);
                cr_assert_eq(intern_get(&intern, i)->size, size);
                cr_assert_arr_eq(intern_get(&intern, i)->data, key, size);
        }
        intern_deinit(&intern);
}

Test(intern, refuses_the_new_and_still_finds_the_old_at_its_cap) {
        Intern intern;
        uint32_t index = 7;

        intern_init(&intern, 1);
        cr_assert_eq(intern_add(&intern, "a", 1, &index), 0);
        index = 7;
        cr_assert_eq(intern_add(&intern, "b", 1, &index), INTERN_E_FULL);
        cr_assert_eq(index, 7, "an output is written on success only");
        cr_assert_eq(intern_add(&intern, "a", 1, &index), INTERN_E_FOUND);
        cr_assert_eq(index, 0);
        intern_deinit(&intern);
}

Test(intern, starts_anew_after_a_reset) {
        Intern intern;
        uint32_t index;

        intern_init(&intern, 10);
        intern_add(&intern, "a", 1, &index);
        intern_reset(&intern);
        cr_assert_eq(intern_find(&intern, "a", 1, &index), 1);
        cr_assert_eq(intern_add(&intern, "b", 1, &index), 0);
        cr_assert_eq(index, 0);
        intern_deinit(&intern);
}
