/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/base/util/array.h"

/* AddressSanitizer's allocator ends the program instead of returning NULL for what no memory can hold. */
const char *__asan_default_options(void);

const char *__asan_default_options(void) {
        return "allocator_may_return_null=1";
}

Test(array, the_room_begins_with_the_least_and_doubles_until_it_is_enough) {
        cr_assert_eq(array_room(0, 1, 64, SIZE_MAX), 64);
        cr_assert_eq(array_room(64, 65, 64, SIZE_MAX), 128);
        cr_assert_eq(array_room(64, 1000, 64, SIZE_MAX), 1024);
        cr_assert_eq(array_room(3, 4, 64, SIZE_MAX), 6);
        cr_assert_eq(array_room(0, 5, 0, SIZE_MAX), 8);
}

Test(array, the_room_ends_at_what_its_type_can_say) {
        cr_assert_eq(array_room(UINT8_MAX - 1, UINT8_MAX, 16, UINT8_MAX), UINT8_MAX);
        cr_assert_eq(array_room(0, 1, 1024, UINT8_MAX), UINT8_MAX);
        cr_assert_eq(array_room(UINT8_MAX, UINT8_MAX + 1, 16, UINT8_MAX), 0);
        cr_assert_eq(array_room(SIZE_MAX / 2 + 1, SIZE_MAX, 1, SIZE_MAX), SIZE_MAX);
}

Test(array, items_stay_and_new_ones_are_zeros_where_that_is_asked_for) {
        uint64_t *items = NULL;
        uint32_t room = 0;

        for (uint32_t i = 0; i < 100; i++) {
                cr_assert_eq(array_reserve_zero(&items, &room, i + 1u, 4), 0);
                cr_assert_eq(items[i], 0);
                items[i] = ~(uint64_t)i;
        }
        cr_assert_eq(room, 128);
        for (uint32_t i = 0; i < room; i++)
                cr_assert_eq(items[i], i < 100 ? ~(uint64_t)i : 0);
        free(items);
}

Test(array, an_array_that_has_room_is_left_alone) {
        int *items = NULL, *before;
        size_t room = 0;

        cr_assert_eq(array_reserve(&items, &room, 0, 8), 0);
        cr_assert_null(items);
        cr_assert_eq(array_reserve(&items, &room, 8, 8), 0);
        before = items;
        cr_assert_eq(array_reserve(&items, &room, 8, 8), 0);
        cr_assert_eq(items, before);
        cr_assert_eq(room, 8);
        free(items);
}

/* Neither the allocator nor a multiplication by the size of an item can give this. */
Test(array, what_no_memory_can_hold_is_refused_and_changes_nothing) {
        uint64_t *items = NULL, *before;
        size_t room = 0;

        cr_assert_eq(array_reserve(&items, &room, 2, 2), 0);
        items[0] = 7;
        before = items;
        cr_assert_eq(array_reserve(&items, &room, SIZE_MAX / 2, 2), -ENOMEM);
        cr_assert_eq(array_reserve_zero(&items, &room, SIZE_MAX / 2, 2), -ENOMEM);
        cr_assert_eq(array_reserve(&items, &room, SIZE_MAX / sizeof(*items) / 2, 2), -ENOMEM);
        cr_assert_eq(items, before);
        cr_assert_eq(items[0], 7);
        cr_assert_eq(room, 2);
        free(items);
}

/* A size beyond 255 must not come out as a small one. */
Test(array, a_narrow_room_never_wraps) {
        char *items = NULL;
        uint8_t room = 0;

        cr_assert_eq(array_reserve(&items, &room, UINT8_MAX, 16), 0);
        cr_assert_eq(room, UINT8_MAX);
        cr_assert_eq(array_reserve(&items, &room, UINT8_MAX + 1, 16), -ENOMEM);
        cr_assert_eq(room, UINT8_MAX);
        free(items);
}
