/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "host/delivery/export/queue.h"

static Batch *batch_of(size_t size, uint64_t n_events) {
        Batch *batch = calloc(1, sizeof(*batch));

        batch->data = calloc(1, size);
        batch->size = size;
        batch->n_events = n_events;
        return batch;
}

static uint64_t pop_events(Queue *queue) {
        Batch *batch = queue_pop(queue);
        uint64_t n = batch ? batch->n_events : 0;

        batch_free(batch);
        return n;
}

Test(queue, gives_batches_back_in_order_and_keeps_its_sums) {
        Queue queue = { .max_bytes = 100 };
        QueueDropped dropped = { 0 };

        queue_push(&queue, batch_of(30, 1), &dropped);
        queue_push(&queue, batch_of(30, 2), &dropped);
        queue_push(&queue, batch_of(40, 3), &dropped);
        cr_assert_eq(queue.bytes, 100);
        cr_assert_eq(queue.n_events, 6);
        cr_assert_eq(pop_events(&queue), 1);
        cr_assert_eq(pop_events(&queue), 2);
        cr_assert_eq(pop_events(&queue), 3);
        cr_assert_null(queue_pop(&queue));
        cr_assert_eq(queue.bytes + queue.n_events + queue.n_batches, 0);
        cr_assert_eq(dropped.n_batches, 0);
}

Test(queue, drops_the_oldest_until_the_new_one_fits) {
        Queue queue = { .max_bytes = 100 };
        QueueDropped dropped = { 0 };

        queue_push(&queue, batch_of(50, 1), &dropped);
        queue_push(&queue, batch_of(50, 20), &dropped);
        queue_push(&queue, batch_of(51, 300), &dropped);
        cr_assert_eq(dropped.n_batches, 2);
        cr_assert_eq(dropped.n_events, 21);
        cr_assert_eq(queue.n_events, 300);
        queue_clear(&queue, &dropped);
        cr_assert_eq(dropped.n_events, 321);
        cr_assert_null(queue.last);
}

Test(queue, drops_a_batch_that_could_never_fit_and_keeps_the_others) {
        Queue queue = { .max_bytes = 100 };
        QueueDropped dropped = { 0 };

        queue_push(&queue, batch_of(50, 1), &dropped);
        queue_push(&queue, batch_of(101, 20), &dropped);
        cr_assert_eq(dropped.n_events, 20);
        cr_assert_eq(pop_events(&queue), 1);
}

Test(queue, takes_a_returned_batch_back_as_the_oldest_if_there_is_room) {
        Queue queue = { .max_bytes = 100 };
        QueueDropped dropped = { 0 };
        Batch *batch;

        queue_push(&queue, batch_of(50, 1), &dropped);
        queue_push(&queue, batch_of(50, 2), &dropped);
        batch = queue_pop(&queue);
        queue_return(&queue, batch, &dropped);
        cr_assert_eq(dropped.n_batches, 0);
        batch = queue_pop(&queue);
        cr_assert_eq(batch->n_events, 1);
        queue_push(&queue, batch_of(50, 3), &dropped);
        queue_return(&queue, batch, &dropped);
        cr_assert_eq(dropped.n_events, 1, "younger ones took its room, and it is the oldest");
        cr_assert_eq(queue.n_events, 5);
        queue_clear(&queue, &dropped);
}

Test(queue, takes_a_returned_batch_into_an_empty_queue) {
        Queue queue = { .max_bytes = 100 };
        QueueDropped dropped = { 0 };

        queue_return(&queue, batch_of(100, 4), &dropped);
        cr_assert_not_null(queue.last);
        cr_assert_eq(pop_events(&queue), 4);
        cr_assert_null(queue.last);
}
