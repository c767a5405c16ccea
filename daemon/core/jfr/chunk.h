/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chunks
 *
 * A recording is chunks behind each other, each whole in itself:
 *
 *     header: magic, version, size, where the last checkpoint and the metadata are, clock
 *     event | event | checkpoint | event | … | metadata
 *
 * An event says its size and its type first. Checkpoints point back to the one before. A chunk that was
 * cut off, or not finished, has lost what the header points to: then all its events are looked at for
 * what is there.
 *
 * The events of a chunk pass through one buffer; only checkpoints and metadata are read into memory of their
 * own.
 */

#include "core/jfr/pool.h"

/* Reads up to @size bytes from @offset. Return: how many. */
typedef size_t (*JfrRead)(void *userdata, void *to, size_t size, uint64_t offset);

typedef struct JfrInput {
        JfrRead read;
        void *userdata;
        uint64_t size;
} JfrInput;

typedef struct JfrMemory {
        const uint8_t *data;
        size_t size;
} JfrMemory;

/* A recording in memory. @memory: borrowed, as long as the input is used. */
JfrInput jfr_memory_input(const JfrMemory *memory);

typedef struct JfrChunk {
        uint64_t offset, size;          /* in the input; size as far as it is there */
        uint16_t major, minor;
        uint64_t checkpoint, metadata;  /* in the chunk */
        uint64_t start_ns, duration_ns; /* since 1970 */
        uint64_t start_ticks, ticks_per_second;
        bool compressed;
        uint8_t generation;             /* from JDK 14 on: JFR_GENERATION_*, else a count of flushes */
        bool cut;                       /* the header says that the chunk is longer, or was not finished */
} JfrChunk;

enum {
        JFR_HEADER_SIZE = 68,
        JFR_GENERATION_COMPLETE = 0,
        JFR_GENERATION_MOVING = 255,    /* the header is being written */
        JFR_MAX_METADATA = 16 << 20,
        JFR_EVENT_BUFFER = 256 << 10,   /* longer events are none of ours */
        JFR_PIECE = 64 << 10,           /* read at once, unless an event is longer */
        JFR_EVENT_HEADER_MAX = 18,      /* size and type */
};

enum {
        _JFR_CHUNK_E_SUCCESS,
        JFR_CHUNK_E_END,                /* nothing is left */
        JFR_CHUNK_E_HEADER,             /* no chunk begins there */
        JFR_CHUNK_E_VERSION,            /* a version that we do not know */
        JFR_CHUNK_E_METADATA,           /* nothing says what its types are */
};

/* The chunk at @offset. Return: 0, JFR_CHUNK_E_END, JFR_CHUNK_E_HEADER, JFR_CHUNK_E_VERSION. */
int jfr_chunk_open(const JfrInput *input, uint64_t offset, JfrChunk *chunk);

/* Ticks of the chunk's clock in nanoseconds. */
typedef struct JfrClock {
        uint64_t start_ns, start_ticks, factor;
        unsigned shift;
} JfrClock;

JfrClock jfr_clock_make(const JfrChunk *chunk);

static inline uint64_t jfr_clock_duration_ns(const JfrClock *clock, uint64_t ticks) {
        return (uint64_t)((unsigned __int128)ticks * clock->factor >> clock->shift);
}

static inline uint64_t jfr_clock_time_ns(const JfrClock *clock, uint64_t ticks) {
        return ticks >= clock->start_ticks
                ? clock->start_ns + jfr_clock_duration_ns(clock, ticks - clock->start_ticks)
                : clock->start_ns - jfr_clock_duration_ns(clock, clock->start_ticks - ticks);
}

/*
 * Reads what the events need: types and pools. @want is asked for each chunk which classes' pools to keep.
 * *damagep: the offset in the input of the first damage that was worked around, 0 = none. Pair with the
 * deinits.
 * Return: 0, JFR_CHUNK_E_METADATA, -ENOMEM.
 */
int jfr_chunk_load(const JfrInput *input, const JfrChunk *chunk, void (*want)(JfrMetadata *metadata),
                   JfrMetadata *metadata, JfrPools *pools, uint64_t *damagep);

/* Events in order. */
typedef struct JfrScan {
        const JfrInput *input;
        const JfrChunk *chunk;
        uint8_t *buffer;                /* JFR_EVENT_BUFFER bytes */
        uint64_t next;                  /* offset in the chunk of what follows the buffer */
        size_t at, size;                /* in the buffer */
} JfrScan;

typedef struct JfrEvent {
        uint64_t offset;                /* in the chunk */
        uint64_t size, type;
        const uint8_t *data;            /* behind size and type; NULL = longer than the buffer */
        size_t data_size;
        uint32_t header_size;
} JfrEvent;

enum {
        _JFR_SCAN_E_SUCCESS,
        JFR_SCAN_E_END,
        JFR_SCAN_E_MALFORMED,           /* event->offset: where; nothing behind it can be found */
};

/* Return: 0, -ENOMEM. */
int jfr_scan_init(JfrScan *scan, const JfrInput *input, const JfrChunk *chunk);
void jfr_scan_deinit(JfrScan *scan);
int jfr_scan_next_slowly(JfrScan *scan, JfrEvent *event);

/* An event that is in the buffer as a whole, as nearly all are, needs no more than this. Return: as above. */
static inline int jfr_scan_next(JfrScan *scan, JfrEvent *event) {
        const uint8_t *begin = scan->buffer + scan->at, *at = begin;
        size_t left = scan->size - scan->at;

        if (left < JFR_EVENT_HEADER_MAX || !scan->chunk->compressed)
                return jfr_scan_next_slowly(scan, event);
        event->size = (uint32_t)jfr_quick_compressed(&at);
        event->type = jfr_quick_compressed(&at);
        event->header_size = (uint32_t)(at - begin);
        if (event->size < event->header_size || event->size > left)
                return jfr_scan_next_slowly(scan, event);
        event->offset = scan->next - left;
        event->data = at;
        event->data_size = (size_t)event->size - event->header_size;
        scan->at += (size_t)event->size;
        return 0;
}
