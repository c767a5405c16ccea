/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps batches in a list with sums of bytes and samples, and drops from its old end until a new one fits.
 */

#include "host/delivery/export/queue.h"

#include "core/base/data/list.h"

static void drop(Batch *batch, QueueDropped *dropped) {
        dropped->n_batches++;
        dropped->n_events += batch->n_events;
        batch_free(batch);
}

static void account(Queue *queue, const Batch *batch) {
        queue->n_batches++;
        queue->bytes += batch->size;
        queue->n_events += batch->n_events;
}

void queue_push(Queue *queue, Batch *batch, QueueDropped *dropped) {
        if (batch->size > queue->max_bytes) {
                drop(batch, dropped);
                return;
        }
        while (batch->size > queue->max_bytes - queue->bytes)
                drop(queue_pop(queue), dropped);
        fifo_push(queue, batch);
        account(queue, batch);
}

void queue_return(Queue *queue, Batch *batch, QueueDropped *dropped) {
        if (batch->size > queue->max_bytes - queue->bytes) {
                drop(batch, dropped);
                return;
        }
        batch->next = queue->first;
        queue->first = batch;
        if (!queue->last)
                queue->last = batch;
        account(queue, batch);
}

Batch *queue_pop(Queue *queue) {
        Batch *batch = fifo_pop(queue);

        if (!batch)
                return NULL;
        queue->n_batches--;
        queue->bytes -= batch->size;
        queue->n_events -= batch->n_events;
        return batch;
}

void queue_clear(Queue *queue, QueueDropped *dropped) {
        Batch *batch;

        while ((batch = queue_pop(queue)))
                drop(batch, dropped);
}
