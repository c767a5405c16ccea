/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A ring of bytes. An event of a coroutine mostly follows from the one before it: the number is the next,
 * the thread and the address are those of its last resume or suspend. So it takes five bytes, where all is:
 *
 *      what is in it, 6 bits │ bytes of the time, 2 bits
 *      stations further than the event before it, as a scan goes; 255 = region and station are written out
 *      time since the last event of the station, ns, 2 to 4 or 8 bytes
 *      ‥ tid, address, number, events lost before it, payload: each only where it does not follow
 *
 * What the next event follows from is kept for each station twice, at the end that puts and the end that
 * takes. What no end keeps follows from the rest: seq from the number, probe and birth from the station.
 *
 * An event lies in one piece: where the ring's end is nearer than the largest, both ends go to its start.
 *
 * A page that is touched for the first time is cleared, which takes as long as 10 to 50 events, and longer
 * than a ring of eight lasts where it is a large page. So pages stay small, the first 4 MiB are touched at
 * the start, and an empty queue begins again there.
 */

#include "desk/coro/engine/event-queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"

enum {
        TOUCHED = 4 << 20,              /* bytes at the start */
        MAX_SIZE = 80,                  /* bytes of an event: 75, and a whole word stored across its end */
        FAR = 255,                      /* the station is written out */
};

/* Parts of an event, in its first byte; the two bits above are an index of time_sizes. */
enum {
        ACTIVE = 1 << 0,
        TID = 1 << 1,
        ADDRESS = 1 << 2,
        NUMBER = 1 << 3,
        LOST = 1 << 4,
        PAYLOAD = 1 << 5,
        TIME_SHIFT = 6,
};

static const uint8_t time_sizes[] = { 2, 3, 4, 8 };

/* The last event of a station, against which the queue packs its next event. */
typedef struct Before {
        uint64_t next;                  /* number of the next event, if none is lost */
        uint64_t time_ns;
        uint64_t addresses[2];          /* addresses of its last suspend and resume */
        uint32_t tid;
} Before;

/* An end of the ring. */
typedef struct End {
        uint64_t at;                    /* bytes since the queue was empty; modulo its size */
        uint32_t scan, station;         /* scan and station of the last event */
        Before *before;                 /* by station, of all regions */
} End;

struct EventQueue {
        uint8_t *bytes;
        uint64_t size;                  /* a power of two */
        End put, take;
        uint32_t n_scans;
        uint64_t first[];               /* index of the first station of each region */
};

static uint64_t count_stations(EventQueue *queue, const RegionScan *scans) {
        uint64_t n = 0;

        for (uint32_t i = 0; i < queue->n_scans; i++) {
                queue->first[i] = n;
                n += scans[i].region->n_stations;
        }
        return n;
}

int event_queue_new(EventQueue **queuep, uint64_t max_bytes, const RegionScan *scans, size_t n_scans) {
        _cleanup_(event_queue_freep) EventQueue *queue =
                calloc(1, sizeof(*queue) + n_scans * sizeof(*queue->first));
        uint64_t n_stations;

        if (!queue)
                return error_origin(-ENOMEM);
        queue->n_scans = (uint32_t)n_scans;
        n_stations = count_stations(queue, scans);
        /* untouched zero pages, as those of the scan */
        queue->put.before = calloc(n_stations, sizeof(Before));
        queue->take.before = calloc(n_stations, sizeof(Before));
        for (queue->size = TOUCHED; queue->size <= max_bytes / 2;)
                queue->size *= 2;
        queue->bytes = mmap(NULL, queue->size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (queue->bytes == MAP_FAILED)
                queue->bytes = NULL;
        if (!queue->bytes || !queue->put.before || !queue->take.before)
                return error_origin(-ENOMEM);
        (void)madvise(queue->bytes, queue->size, MADV_NOHUGEPAGE);
        memset(queue->bytes, 0, TOUCHED);
        *queuep = take(queue);
        return 0;
}

EventQueue *event_queue_free(EventQueue *queue) {
        if (!queue)
                return NULL;
        if (queue->bytes)
                munmap(queue->bytes, queue->size);
        free(queue->put.before);
        free(queue->take.before);
        free(queue);
        return NULL;
}

/* Goes to the start of the ring where an event might not lie in one piece. */
static uint8_t *place(EventQueue *queue, End *end) {
        uint64_t left = queue->size - end->at % queue->size;

        if (left < MAX_SIZE)
                end->at += left;
        return &queue->bytes[end->at % queue->size];
}

/* Stores a whole word, of which @size bytes count. */
static uint8_t *store(uint8_t *to, uint64_t value, size_t size) {
        memcpy(to, &value, sizeof(value));
        return to + size;
}

static const uint8_t *load(const uint8_t *from, uint64_t *value, size_t size) {
        memcpy(value, from, sizeof(*value));
        if (size < sizeof(*value))
                *value &= (UINT64_C(1) << 8 * size) - 1;
        return from + size;
}

static unsigned time_index(uint64_t ns) {
        return ns >> 32 ? 3 : (ns >= 1 << 16) + (ns >= 1 << 24);
}

static uint8_t *store_station(uint8_t *to, End *end, uint32_t scan, uint32_t station) {
        uint32_t step = station - end->station;

        if (scan == end->scan && step < FAR) {
                *to++ = (uint8_t)step;
        } else {
                *to++ = FAR;
                to = store(to, station | (uint64_t)scan << 32, 6);
        }
        end->scan = scan;
        end->station = station;
        return to;
}

static const uint8_t *load_station(const uint8_t *from, End *end) {
        uint64_t both;
        uint8_t step = *from++;

        if (step < FAR) {
                end->station += step;
                return from;
        }
        from = load(from, &both, 6);
        end->station = (uint32_t)both;
        end->scan = (uint32_t)(both >> 32);
        return from;
}

/* The parts that an event needs behind @before. */
static unsigned differences(const CoroEvent *event, const Before *before) {
        return (event->active ? ACTIVE : 0u) | (event->tid != before->tid ? TID : 0u) |
                (event->address != before->addresses[event->active] ? ADDRESS : 0u) |
                (event->number != before->next + event->n_lost ? NUMBER : 0u) | (event->n_lost ? LOST : 0u) |
                (event->has_payload ? PAYLOAD : 0u);
}

static void remember(Before *before, const CoroEvent *event) {
        before->next = event->number + 1;
        before->time_ns = event->time_ns;
        before->addresses[event->active] = event->address;
        before->tid = event->tid;
}

bool event_queue_put(EventQueue *queue, uint32_t scan, const CoroEvent *event) {
        End *end = &queue->put;
        Before *before = &end->before[queue->first[scan] + event->station];
        uint64_t ns = event->time_ns - before->time_ns;
        unsigned has = differences(event, before), index = time_index(ns);
        uint8_t *begin, *to;

        if (end->at - queue->take.at + (uint64_t)2 * MAX_SIZE > queue->size)
                return false;
        begin = to = place(queue, end);
        *to++ = (uint8_t)(has | index << TIME_SHIFT);
        to = store_station(to, end, scan, event->station);
        to = store(to, ns, time_sizes[index]);
        if (has & TID)
                to = store(to, event->tid, 4);
        if (has & ADDRESS)
                to = store(to, event->address, 8);
        if (has & NUMBER)
                to = store(to, event->number, 8);
        if (has & LOST)
                to = store(to, event->n_lost, 8);
        if (has & PAYLOAD)
                to = (uint8_t *)mempcpy(to, event->payload, sizeof(event->payload));
        end->at += (uint64_t)(to - begin);
        remember(before, event);
        return true;
}

/* Begins again at the start, with the memory that was touched first. */
static void begin_again(EventQueue *queue) {
        uint64_t size = MIN(queue->put.at, queue->size);

        if (size > TOUCHED)
                (void)madvise(queue->bytes + TOUCHED, size - TOUCHED, MADV_DONTNEED);
        queue->put.at = queue->take.at = 0;
}

/* Fills in what the bytes of an event say, and what follows from those before. */
static const uint8_t *read_event(const uint8_t *from, End *end, const uint64_t *first, CoroEvent *event) {
        unsigned has = *from++;
        uint64_t ns, tid;
        Before *before;

        from = load_station(from, end);
        before = &end->before[first[end->scan] + end->station];
        from = load(from, &ns, time_sizes[has >> TIME_SHIFT]);
        event->station = end->station;
        event->time_ns = before->time_ns + ns;
        event->active = has & ACTIVE;
        event->tid = before->tid;
        event->address = before->addresses[event->active];
        event->n_lost = 0;
        if (has & TID) {
                from = load(from, &tid, 4);
                event->tid = (uint32_t)tid;
        }
        if (has & ADDRESS)
                from = load(from, &event->address, 8);
        if (has & NUMBER)
                from = load(from, &event->number, 8);
        if (has & LOST)
                from = load(from, &event->n_lost, 8);
        if (!(has & NUMBER))
                event->number = before->next + event->n_lost;
        event->has_payload = has & PAYLOAD;
        if (event->has_payload) {
                memcpy(event->payload, from, sizeof(event->payload));
                from += sizeof(event->payload);
        }
        remember(before, event);
        return from;
}

bool event_queue_take(EventQueue *queue, const RegionScan *scans, CoroEvent *event) {
        End *end = &queue->take;
        const StationState *state;
        const RegionScan *scan;
        const uint8_t *from;

        if (event_queue_is_empty(queue))
                return false;
        from = place(queue, end);
        end->at += (uint64_t)(read_event(from, end, queue->first, event) - from);
        scan = &scans[end->scan];
        state = &scan->states[event->station];
        event->pid = scan->pid;
        event->probe_id = state->probe_id;
        event->birth_ns = state->birth_ns;
        event->seq = station_seq_of(scan->dialect, event->number);
        if (event_queue_is_empty(queue))
                begin_again(queue);
        return true;
}

bool event_queue_is_empty(const EventQueue *queue) {
        return queue->put.at == queue->take.at;
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

/* Memory that our cgroup leaves of its limit; UINT64_MAX = it has no limit. */
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
