/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writer Queue
 *
 * Hands events from the thread that scans, which must not wait for a disk, to a thread that writes them. It
 * holds 131,072 events, about a second of a large burst. When it is full the scan waits; events that stations
 * lose meanwhile are counted there.
 */

#include "desk/coro/trace/trace-writer.h"

typedef struct WriterQueue WriterQueue;

/* Takes @writer over. Return: 0, -errno. */
int writer_queue_new(WriterQueue **queuep, TraceWriter *writer);

/* Puts an event. Only the thread that scans may call it. */
void writer_queue_put(WriterQueue *queue, const CoroEvent *event);

/* Wakes the writer if it sleeps; to be called after a scan with events. */
void writer_queue_kick(WriterQueue *queue);

/* Number of times that the scan had to wait. */
uint64_t writer_queue_n_stalls(const WriterQueue *queue);

/* Waits until all events are written and ends the thread. Return: the writer, which is the caller's again. */
TraceWriter *writer_queue_finish(WriterQueue *queue);
WriterQueue *writer_queue_free(WriterQueue *queue);
DEFINE_CLEANUP(WriterQueue, writer_queue_free)
