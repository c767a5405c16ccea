/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/data/arena.h"

Test(arena, keeps_objects_apart_and_aligned) {
        Arena arena = { 0 };
        uint8_t *objects[1000];

        for (int i = 0; i < 1000; i++) {
                objects[i] = arena_alloc(&arena, 1 + (size_t)i * 7 % 900);
                cr_assert_not_null(objects[i]);
                cr_assert_eq((uintptr_t)objects[i] % 8, 0);
                memset(objects[i], i, 1 + (size_t)i * 7 % 900);
        }
        for (int i = 0; i < 1000; i++)
                for (int j = 0; j < 1 + i * 7 % 900; j++)
                        cr_assert_eq(objects[i][j], (uint8_t)i);
        arena_deinit(&arena);
}

Test(arena, serves_objects_larger_than_a_block) {
        Arena arena = { 0 };
        char *large = arena_zero(&arena, 1, 3 << 20);

        cr_assert_not_null(large);
        cr_assert_eq(large[(3 << 20) - 1], 0);
        cr_assert_geq(arena.total, 3 << 20);
        arena_deinit(&arena);
        cr_assert_eq(arena.total, 0);
}

Test(arena, refuses_sizes_that_overflow) {
        Arena arena = { 0 };

        cr_assert_null(arena_zero(&arena, SIZE_MAX / 2, 3));
        cr_assert_null(arena_alloc(&arena, SIZE_MAX - 3));
        arena_deinit(&arena);
}

Test(arena, keeps_one_block_over_a_reset) {
        Arena arena = { 0 };

        for (int i = 0; i < 1000; i++)
                arena_alloc(&arena, 1000);
        arena_reset(&arena);
        cr_assert_leq(arena.total, 256 << 10);
        cr_assert_str_eq(arena_string(&arena, "text and more", 4), "text");
        arena_deinit(&arena);
}
