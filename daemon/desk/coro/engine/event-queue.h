/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Event Queue
 *
 * Keeps events, most in 5 bytes, between the scan that reads them and the same thread when it has time to
 * make lines of them. Memory: 4 MiB, which are touched at the start, and 80 bytes a station that was used;
 * more, up to a cap, only while events come faster than lines are made. It is given back when the queue is
 * empty again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/coro/region-scan.h"

typedef struct EventQueue EventQueue;

enum {
        EVENT_QUEUE_MAX_SCANS = 1 << 16,        /* regions whose events a queue keeps apart */
};

/*
 * @max_bytes: rounded down to a power of two; at least 4 MiB are taken. @scans: the regions that events will
 * be of. Return: 0, -ENOMEM.
 */
int event_queue_new(EventQueue **queuep, uint64_t max_bytes, const RegionScan *scans, size_t n_scans);
EventQueue *event_queue_free(EventQueue *queue);

/* @scan: index of the region that the event is of. Return: whether there was room. */
bool event_queue_put(EventQueue *queue, uint32_t scan, const CoroEvent *event);

/*
 * Takes the oldest event out. @scans: the regions by index, whose states say probe and birth of the event's
 * station. Return: whether there was one.
 */
bool event_queue_take(EventQueue *queue, const RegionScan *scans, CoroEvent *event);

bool event_queue_is_empty(const EventQueue *queue);

/* Bytes that a queue may take: an eighth of the memory that the machine and our cgroup have left. */
uint64_t event_queue_room(void);

DEFINE_CLEANUP(EventQueue, event_queue_free)
