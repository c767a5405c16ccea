/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/data/list.h"

typedef struct Item {
        struct Item *next, *previous;
} Item;

typedef struct Items {
        Item *first, *last;
} Items;

/* Both ways through the list, with the ends where they belong. */
static void assert_items(const Items *items, Item *const *expected, size_t n) {
        Item *item = items->first, *before = NULL;

        for (size_t i = 0; i < n; i++) {
                cr_assert_eq(item, expected[i]);
                cr_assert_eq(item->previous, before);
                before = item;
                item = item->next;
        }
        cr_assert_null(item);
        cr_assert_eq(items->last, before);
}

Test(list, an_item_leaves_from_either_end_and_from_the_middle) {
        Item a, b, c, d;
        Items items = { 0 };

        list_append(&items, &a);
        list_append(&items, &b);
        list_append(&items, &c);
        list_append(&items, &d);
        assert_items(&items, (Item *[]){ &a, &b, &c, &d }, 4);
        list_remove(&items, &c);
        assert_items(&items, (Item *[]){ &a, &b, &d }, 3);
        list_remove(&items, &a);
        list_remove(&items, &d);
        assert_items(&items, (Item *[]){ &b }, 1);
        list_remove(&items, &b);
        assert_items(&items, NULL, 0);
        list_append(&items, &c);
        assert_items(&items, (Item *[]){ &c }, 1);
}

Test(list, a_fifo_gives_in_the_order_of_arrival_and_can_be_filled_again) {
        Item a, b, c;
        Items items = { 0 };

        cr_assert_null(fifo_pop(&items));
        fifo_push(&items, &a);
        fifo_push(&items, &b);
        cr_assert_eq(fifo_pop(&items), &a);
        fifo_push(&items, &c);
        cr_assert_eq(fifo_pop(&items), &b);
        cr_assert_eq(fifo_pop(&items), &c);
        cr_assert_null(fifo_pop(&items));
        cr_assert_null(items.last);
        fifo_push(&items, &a);
        cr_assert_eq(fifo_pop(&items), &a);
        cr_assert_null(a.next);
}
