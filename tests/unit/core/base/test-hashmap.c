/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/data/hashmap.h"

static char values[4096];

Test(hashmap, finds_what_was_put_and_nothing_else) {
        Hashmap map = { 0 };

        cr_assert_null(hashmap_get(&map, 1));
        cr_assert_null(hashmap_remove(&map, 1));
        cr_assert_eq(hashmap_put(&map, 1, &values[1]), 0);
        cr_assert_eq(hashmap_put(&map, 0, &values[0]), 0);
        cr_assert_eq(hashmap_get(&map, 1), &values[1]);
        cr_assert_eq(hashmap_get(&map, 0), &values[0]);
        cr_assert_null(hashmap_get(&map, 2));
        cr_assert_eq(hashmap_put(&map, 1, &values[9]), 0);
        cr_assert_eq(hashmap_get(&map, 1), &values[9]);
        cr_assert_eq(map.n_entries, 2);
        hashmap_deinit(&map);
}

Test(hashmap, survives_many_puts_and_removes_in_any_order) {
        Hashmap map = { 0 };
        bool there[4096] = { 0 };
        uint32_t state = 1, n = 0, at = 0, walked = 0;

        for (int round = 0; round < 200000; round++) {
                uint32_t key;

                state = state * 1664525 + 1013904223;
                key = (state >> 8) & 4095;
                if (state >> 31) {
                        cr_assert_eq(hashmap_put(&map, key, &values[key]), 0);
                        n += !there[key];
                        there[key] = true;
                } else {
                        cr_assert_eq(hashmap_remove(&map, key), there[key] ? &values[key] : NULL);
                        n -= there[key];
                        there[key] = false;
                }
        }
        cr_assert_eq(map.n_entries, n);
        for (uint32_t key = 0; key < 4096; key++)
                cr_assert_eq(hashmap_get(&map, key), there[key] ? &values[key] : NULL);
        while (hashmap_next(&map, &at))
                walked++;
        cr_assert_eq(walked, n);
        hashmap_deinit(&map);
}
