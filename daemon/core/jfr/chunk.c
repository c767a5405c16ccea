/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens a chunk by its header, loads its metadata and checkpoints, and goes over its events. Where an
 * offset leads nowhere, the whole chunk is scanned.
 */

#include "core/jfr/chunk.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        TYPE_METADATA = 0,
        TYPE_CHECKPOINT = 1,
        COMPRESSED = 1,                 /* flag of the chunk */
        HEADER_METADATA = 24,           /* where the header says where the metadata is */
        CLOCK_SHIFT = 50,
};

#define NS_PER_SEC UINT64_C(1000000000)

static size_t read_memory(void *userdata, void *to, size_t size, uint64_t offset) {
        const JfrMemory *memory = userdata;

        if (offset >= memory->size)
                return 0;
        size = MIN(size, memory->size - (size_t)offset);
        memcpy(to, memory->data + offset, size);
        return size;
}

JfrInput jfr_memory_input(const JfrMemory *memory) {
        return (JfrInput){ read_memory, (void *)memory, memory->size };
}

static uint64_t be64(const uint8_t *p) {
        JfrCursor cursor = { p, p + 8, false, false };

        return jfr_big_endian(&cursor, 8);
}

int jfr_chunk_open(const JfrInput *input, uint64_t offset, JfrChunk *chunk) {
        static const uint8_t magic[] = { 'F', 'L', 'R', 0 };
        uint8_t header[JFR_HEADER_SIZE];
        size_t n = input->read(input->userdata, header, sizeof(header), offset);
        uint64_t size;

        if (!n)
                return JFR_CHUNK_E_END;
        if (n < sizeof(header) || memcmp(header, magic, sizeof(magic)))
                return JFR_CHUNK_E_HEADER;
        *chunk = (JfrChunk){ .offset = offset, .major = (uint16_t)(header[4] << 8 | header[5]),
                             .minor = (uint16_t)(header[6] << 8 | header[7]), .checkpoint = be64(header + 16),
                             /* 0 is no time in OTLP */
                             .metadata = be64(header + 24), .start_ns = MAX(be64(header + 32), 1u),
                             .duration_ns = be64(header + 40),
                             .start_ticks = be64(header + 48), .ticks_per_second = be64(header + 56),
                             .generation = header[64],
                             .compressed = header[67] & COMPRESSED };
        size = be64(header + 8);
        chunk->cut = size < sizeof(header) || size > input->size - offset;
        chunk->size = chunk->cut ? input->size - offset : size;
        return chunk->major == 2 && chunk->minor <= 1 ? 0 : JFR_CHUNK_E_VERSION;
}

/*
 * A clock that no machine has ticks at once or never: its factor keeps 64 bits, and 0 is taken for
 * nanoseconds.
 */
JfrClock jfr_clock_make(const JfrChunk *chunk) {
        uint64_t per_second = chunk->ticks_per_second ? chunk->ticks_per_second : NS_PER_SEC;
        JfrClock clock = { .start_ns = chunk->start_ns,
                           .start_ticks = chunk->start_ticks,
                           .shift = CLOCK_SHIFT };

        while (per_second < (1 << 20) && clock.shift > 30) {    /* slow clocks: keep the factor below 2^63 */
                per_second <<= 1;
                clock.shift--;
        }
        clock.factor = (uint64_t)(((unsigned __int128)NS_PER_SEC << CLOCK_SHIFT) / per_second);
        return clock;
}

int jfr_scan_init(JfrScan *scan, const JfrInput *input, const JfrChunk *chunk) {
        *scan = (JfrScan){ .input = input, .chunk = chunk, .next = JFR_HEADER_SIZE };
        scan->buffer = malloc(JFR_EVENT_BUFFER + JFR_SLACK);
        return scan->buffer ? 0 : error_origin(-ENOMEM);
}

void jfr_scan_deinit(JfrScan *scan) {
        free(scan->buffer);
        *scan = (JfrScan){ 0 };
}

/*
 * Moves what is left (less than @need) to the front and reads on, in pieces that a CPU's cache holds until
 * they are looked at.
 */
static void refill(JfrScan *scan, size_t need) {
        size_t left = scan->size - scan->at, room = need > JFR_PIECE ? JFR_EVENT_BUFFER : JFR_PIECE;

        memmove(scan->buffer, scan->buffer + scan->at, left);
        scan->at = 0;
        scan->size = left;
        room = (size_t)MIN((uint64_t)(room - left), scan->chunk->size - scan->next);
        room = scan->input->read(scan->input->userdata, scan->buffer + left, room,
                                 scan->chunk->offset + scan->next);
        scan->size += room;
        scan->next += room;
        memset(scan->buffer + scan->size, 0, JFR_SLACK);
}

/* Goes on behind an event that is longer than the buffer. */
static void jump(JfrScan *scan, uint64_t offset) {
        scan->at = scan->size = 0;
        scan->next = offset;
}

static int read_event_header(const JfrScan *scan, JfrEvent *event) {
        const uint8_t *begin = scan->buffer + scan->at;
        JfrCursor cursor = { begin, scan->buffer + scan->size, scan->chunk->compressed, false };
        uint64_t left = scan->chunk->size - event->offset;

        event->size = jfr_int(&cursor);
        event->type = jfr_long(&cursor);
        event->header_size = (uint32_t)(cursor.at - begin);
        return cursor.failed || event->size < event->header_size || event->size > left ? JFR_SCAN_E_MALFORMED
                                                                                       : 0;
}

int jfr_scan_next_slowly(JfrScan *scan, JfrEvent *event) {
        size_t left = scan->size - scan->at;

        if (left < JFR_EVENT_HEADER_MAX && scan->next < scan->chunk->size) {
                refill(scan, JFR_EVENT_HEADER_MAX);
                left = scan->size - scan->at;
        }
        event->offset = scan->next - left;
        if (event->offset >= scan->chunk->size)
                return JFR_SCAN_E_END;
        event->data = NULL;
        if (!left || read_event_header(scan, event))
                return JFR_SCAN_E_MALFORMED;
        if (event->size > left && event->size <= JFR_EVENT_BUFFER) {
                refill(scan, (size_t)event->size);
                left = scan->size;
                if (event->size > left)
                        return JFR_SCAN_E_MALFORMED;    /* the file has become shorter */
        }
        event->data_size = (size_t)event->size - event->header_size;
        if (event->size > left) {
                jump(scan, event->offset + event->size);
                return 0;
        }
        event->data = scan->buffer + scan->at + event->header_size;
        scan->at += (size_t)event->size;
        return 0;
}

/* Types and pools */

typedef struct Load {
        const JfrInput *input;
        const JfrChunk *chunk;
        JfrMetadata *metadata;
        JfrPools *pools;
        uint64_t damage;
} Load;

static void note_damage(Load *load, uint64_t offset) {
        if (!load->damage)
                load->damage = load->chunk->offset + offset;
}

/* Reads an event into memory of its own. Return: 0, JFR_SCAN_E_MALFORMED, -ENOMEM. */
static int read_event(Load *load, uint64_t offset, uint64_t type, uint64_t max, uint8_t **datap,
                      JfrEvent *event) {
        uint8_t header[JFR_EVENT_HEADER_MAX];
        uint64_t left = load->chunk->size - MIN(offset, load->chunk->size);
        JfrScan scan = { .chunk = load->chunk, .buffer = header };
        _cleanup_(freep) uint8_t *data = NULL;

        *event = (JfrEvent){ .offset = offset };
        if (offset < JFR_HEADER_SIZE || !left)
                return JFR_SCAN_E_MALFORMED;
        scan.size = load->input->read(load->input->userdata, header,
                                      (size_t)MIN((uint64_t)sizeof(header), left),
                                      load->chunk->offset + offset);
        if (read_event_header(&scan, event) || event->type != type || event->size > max)
                return JFR_SCAN_E_MALFORMED;
        data = malloc((size_t)event->size + JFR_SLACK);
        if (!data)
                return error_origin(-ENOMEM);
        memset(data + event->size, 0, JFR_SLACK);
        if (load->input->read(load->input->userdata, data, (size_t)event->size,
                              load->chunk->offset + offset) != event->size)
                return JFR_SCAN_E_MALFORMED;
        *datap = take(data);
        return 0;
}

static int load_metadata(Load *load, uint64_t offset) {
        _cleanup_(freep) uint8_t *data = NULL;
        JfrMetadata metadata;
        JfrEvent event;
        int r = read_event(load, offset, TYPE_METADATA, JFR_MAX_METADATA, &data, &event);

        if (r)
                return r < 0 ? r : JFR_CHUNK_E_METADATA;
        r = jfr_metadata_read(
                &metadata,
                (JfrCursor){ data + event.header_size, data + event.size, load->chunk->compressed, false });
        if (!r && metadata.n_classes) {
                jfr_metadata_deinit(load->metadata);
                *load->metadata = metadata;
                return 0;
        }
        jfr_metadata_deinit(&metadata);
        return r < 0 ? r : JFR_CHUNK_E_METADATA;
}

/* Return: 0, 1 = damaged, -ENOMEM. */
static int load_checkpoint(Load *load, uint64_t offset, int64_t *deltap) {
        uint8_t *data = NULL;
        JfrEvent event;
        int r = read_event(load, offset, TYPE_CHECKPOINT, UINT32_MAX, &data, &event);

        *deltap = 0;
        if (!r)
                r = jfr_pools_add(load->pools, load->metadata, data, (size_t)event.size, event.header_size,
                                  deltap);
        if (r > 0)
                note_damage(load, offset);
        return r < 0 ? r : r != 0;
}

/* Back from the last one; each lies before the one that points to it, so this ends. */
static int follow_checkpoints(Load *load) {
        uint64_t offset = load->chunk->checkpoint;

        if (!offset)
                return 1;
        for (;;) {
                int64_t delta;
                int r = load_checkpoint(load, offset, &delta);

                if (r < 0)
                        return r;
                if (!delta)
                        return r;
                if (delta > 0 || (uint64_t)-delta > offset - JFR_HEADER_SIZE) {
                        note_damage(load, offset);
                        return 1;
                }
                offset -= (uint64_t)-delta;
        }
}

/* All checkpoints, or all metadata, that stand in the chunk. */
static int scan_for(Load *load, uint64_t type) {
        JfrScan scan;
        JfrEvent event;
        int r = jfr_scan_init(&scan, load->input, load->chunk);

        while (!r && !(r = jfr_scan_next(&scan, &event))) {
                int64_t delta;

                if (event.type != type)
                        continue;
                r = type == TYPE_METADATA ? load_metadata(load, event.offset)
                                          : load_checkpoint(load, event.offset, &delta);
                r = MIN(r, 0);
        }
        if (r == JFR_SCAN_E_MALFORMED)
                note_damage(load, event.offset);
        jfr_scan_deinit(&scan);
        return MIN(r, 0);
}

static int load_types(Load *load) {
        int r = load_metadata(load, load->chunk->metadata);

        if (r <= 0)
                return r;
        if (!load->chunk->cut)
                note_damage(load, MAX(load->chunk->metadata, (uint64_t)HEADER_METADATA));
        r = scan_for(load, TYPE_METADATA);
        return r ? r : load->metadata->n_classes ? 0 : JFR_CHUNK_E_METADATA;
}

int jfr_chunk_load(const JfrInput *input, const JfrChunk *chunk, void (*want)(JfrMetadata *metadata),
                   JfrMetadata *metadata, JfrPools *pools, uint64_t *damagep) {
        Load load = { .input = input, .chunk = chunk, .metadata = metadata, .pools = pools };
        int r;

        *metadata = (JfrMetadata){ 0 };
        *pools = (JfrPools){ 0 };
        r = load_types(&load);
        if (!r) {
                want(metadata);
                r = jfr_pools_init(pools, metadata, chunk->compressed);
        }
        if (!r)
                r = follow_checkpoints(&load);
        if (r > 0 && metadata->n_classes) {
                r = scan_for(&load, TYPE_CHECKPOINT);
                if (chunk->cut)
                        load.damage = 0;        /* `cut` says that already */
        }
        *damagep = load.damage;
        return r;
}
