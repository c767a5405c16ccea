/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Queue
 *
 * Batches that wait, oldest first, up to a number of bytes. Over it the oldest are dropped, since the newest
 * tell what a machine does now. The caller counts them.
 */

#include <stddef.h>
#include <stdint.h>

#include "host/delivery/export/batch.h"

typedef struct Queue {
        Batch *first, *last;
        size_t n_batches;
        size_t bytes, max_bytes;
        uint64_t n_events;
} Queue;

typedef struct QueueDropped {
        uint64_t n_batches, n_events;
} QueueDropped;

/* Appends @batch and takes it over. Adds dropped ones to @dropped, @batch too if it is over max_bytes. */
void queue_push(Queue *queue, Batch *batch, QueueDropped *dropped);

/* Puts a batch back as the oldest. It is dropped at once if younger ones took its room. */
void queue_return(Queue *queue, Batch *batch, QueueDropped *dropped);

/* The oldest batch, now the caller's; NULL = empty. */
Batch *queue_pop(Queue *queue);

/* Drops all batches, and adds them to @dropped. */
void queue_clear(Queue *queue, QueueDropped *dropped);
