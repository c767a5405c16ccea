/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A ring of 32-byte places. An event takes one, and one more for each thing that few events have:
 *
 *      place   63                            0
 *          0   active │ time in ns, 63 bits
 *          1   address
 *          2   lost? │ payload? │ number, 62 bits
 *          3   scan, 9 bits │ tid, 23 bits │ station, 32 bits
 *
 *      ‥ events lost before it, if there were any
 *      ‥ its 31 bytes of payload, if they are not all zero
 *
 * What is left out follows from the rest: seq from the number, probe and birth from the state of the station.
 * A station writes no number and no time that is too large for its bits: station-read.c refuses them.
 *
 * A page that is touched for the first time costs as much as twenty events, so the first 4 MiB are touched at
 * the start, and an empty queue begins again at place 0. Behind them large pages are asked for.
 */

#include "coro/engine/event-queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util/error.h"
#include "base/util/file.h"

typedef union Place {
        struct {
                uint64_t time_active, address, number_more, where;
        };
        uint64_t n_lost;
        uint8_t payload[SPANPROF_STATION_PAYLOAD];
        uint8_t size[32];
} Place;

enum {
        TOUCHED = 4 << 20,              /* bytes at the start */
        MAX_PLACES = 3,                 /* of one event */
        TID_BITS = 23,
};

#define ACTIVE (UINT64_C(1) << 63)
#define LOST (UINT64_C(1) << 63)
#define PAYLOAD (UINT64_C(1) << 62)

struct EventQueue {
        Place *places;
        uint64_t n_places;              /* a power of two */
        uint64_t head, tail;            /* places put and taken since it was empty; modulo n_places */
};

_Static_assert(sizeof(Place) == 32, "a place is half a cache line");

int event_queue_new(EventQueue **queuep, uint64_t max_bytes) {
        _cleanup_(event_queue_freep) EventQueue *queue = calloc(1, sizeof(*queue));
        size_t size = TOUCHED;

        if (!queue)
                return error_origin(-ENOMEM);
        while (size <= max_bytes / 2)
                size *= 2;
        queue->n_places = size / sizeof(Place);
        queue->places = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                             -1, 0);
        if (queue->places == MAP_FAILED) {
                queue->places = NULL;
                return error_origin(-ENOMEM);
        }
        (void)madvise(queue->places, size, MADV_HUGEPAGE);
        memset(queue->places, 0, TOUCHED);
        *queuep = take(queue);
        return 0;
}

EventQueue *event_queue_free(EventQueue *queue) {
        if (!queue)
                return NULL;
        if (queue->places)
                munmap(queue->places, queue->n_places * sizeof(Place));
        free(queue);
        return NULL;
}

static Place *place(EventQueue *queue, uint64_t at) {
        return &queue->places[at % queue->n_places];
}

bool event_queue_put(EventQueue *queue, uint32_t scan, const CoroEvent *event) {
        Place *to = place(queue, queue->head);

        if (queue->head - queue->tail + MAX_PLACES > queue->n_places)
                return false;
        queue->head++;
        to->time_active = event->time_ns | (event->active ? ACTIVE : 0);
        to->address = event->address;
        to->number_more = event->number | (event->n_lost ? LOST : 0) | (event->has_payload ? PAYLOAD : 0);
        to->where = event->station | event->tid << 32 | (uint64_t)scan << (32 + TID_BITS);
        if (event->n_lost)
                place(queue, queue->head++)->n_lost = event->n_lost;
        if (event->has_payload)
                memcpy(place(queue, queue->head++)->payload, event->payload, sizeof(event->payload));
        return true;
}

/* Begins again at the start, with the memory that was touched first. */
static void begin_again(EventQueue *queue) {
        uint64_t size = MIN(queue->head, queue->n_places) * sizeof(Place);

        if (size > TOUCHED)
                (void)madvise((char *)queue->places + TOUCHED, size - TOUCHED, MADV_DONTNEED);
        queue->head = queue->tail = 0;
}

bool event_queue_take(EventQueue *queue, const RegionScan *scans, CoroEvent *event) {
        const Place *from = place(queue, queue->tail);
        const RegionScan *scan;
        const StationState *state;
        bool has_lost;

        if (event_queue_is_empty(queue))
                return false;
        queue->tail++;
        scan = &scans[from->where >> (32 + TID_BITS)];
        event->station = (uint32_t)from->where;
        state = &scan->states[event->station];
        event->pid = scan->pid;
        event->probe_id = state->probe_id;
        event->birth_ns = state->birth_ns;
        event->number = from->number_more & ~(LOST | PAYLOAD);
        event->seq = station_seq_of(scan->dialect, event->number);
        event->time_ns = from->time_active & ~ACTIVE;
        event->tid = from->where >> 32 & ((1u << TID_BITS) - 1);
        event->address = from->address;
        event->active = from->time_active & ACTIVE;
        has_lost = from->number_more & LOST;
        event->has_payload = from->number_more & PAYLOAD;
        event->n_lost = has_lost ? place(queue, queue->tail++)->n_lost : 0;
        if (event->has_payload)
                memcpy(event->payload, place(queue, queue->tail++)->payload, sizeof(event->payload));
        if (event_queue_is_empty(queue))
                begin_again(queue);
        return true;
}

bool event_queue_is_empty(const EventQueue *queue) {
        return queue->head == queue->tail;
}

/* The number behind @key in a small file, 0 = there is none. */
static uint64_t number_in(const char *path, const char *key) {
        _cleanup_(freep) char *text = NULL;
        const char *at;
        size_t size;

        if (file_read(path, 1 << 16, &text, &size))
                return 0;
        at = strstr(text, key);
        return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* What our cgroup leaves of its limit; UINT64_MAX = it has none. */
static uint64_t cgroup_room(void) {
        _cleanup_(freep) char *text = NULL;
        char path[4096 + 64];
        uint64_t max, used;
        const char *own;
        size_t size;

        if (file_read("/proc/self/cgroup", 1 << 16, &text, &size) || !(own = strstr(text, "0::/")))
                return UINT64_MAX;
        own += strlen("0::/");
        snprintf(path, sizeof(path), "/sys/fs/cgroup/%.*s/memory.max", (int)strcspn(own, "\n"), own);
        max = number_in(path, "");
        snprintf(path, sizeof(path), "/sys/fs/cgroup/%.*s/memory.current", (int)strcspn(own, "\n"), own);
        used = number_in(path, "");
        return !max ? UINT64_MAX : max > used ? max - used : 0;
}

uint64_t event_queue_room(void) {
        uint64_t left = number_in("/proc/meminfo", "MemAvailable:") * 1024;

        return MIN(left, cgroup_room()) / 8;
}
