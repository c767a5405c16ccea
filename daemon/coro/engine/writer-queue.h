/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * WriterQueue
 *
 * Hands events from the thread that scans, which must not wait for a disk, to one that
 * writes. The queue between them is as long as a second of a large burst; when
 * it is full the scan waits, and what the stations lose meanwhile is counted there.
 */

#include "coro/trace/trace-writer.h"

typedef struct WriterQueue WriterQueue;

/* Takes @writer over. Return: 0, -errno. */
int writer_queue_new(WriterQueue **queuep, TraceWriter *writer);

/* To be called by the scan alone. */
void writer_queue_put(WriterQueue *queue, const CoroEvent *event);

/* After a scan with events: wakes the writer if it sleeps. */
void writer_queue_kick(WriterQueue *queue);

/* Times that the scan had to wait. */
uint64_t writer_queue_n_stalls(const WriterQueue *queue);

/* Waits until all is written and ends the thread; the writer is back in the caller's hands. Return: it. */
TraceWriter *writer_queue_finish(WriterQueue *queue);
WriterQueue *writer_queue_free(WriterQueue *queue);
DEFINE_CLEANUP(WriterQueue, writer_queue_free)
