/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The file `watch` beside the spool: all sketches, as numbers of base 128 and texts with their length.
 *
 *     "spanprof-watch 1\n"  CRC-32 of the rest (4 bytes)  time of a comparison, way, number of services, services
 *
 * It is replaced as a whole. What is read is checked as if others had written it: a file in which one number
 * is impossible is dropped, and counted, since no part of it is worth a false alarm. One that was written for
 * another time, or where stacks or names were others, is none.
 */

#include "host/service/watch/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "core/base/data/cursor.h"
#include "core/base/file/file.h"
#include "core/base/file/gzip.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/service/watch/watch-private.h"

#define NAME "watch"
#define TEMPORARY "watch.new"
#define HEAD "spanprof-watch 1\n"

enum {
        HEAD_SIZE = sizeof(HEAD) - 1 + sizeof(uint32_t),
        MAX_FILE = 32 << 20,
        MAX_SHARE = 2000000,            /* millionths */
        HAS_BEFORE = 1,
        IS_COMPARED = 2,
};

/* ---- writing ---- */

static void put_text(Text *text, const char *value) {
        text_append_varint(text, strlen(value));
        text_append(text, value, strlen(value));
}

static void put_numbers(Text *text, const uint32_t *numbers, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                text_append_varint(text, numbers[i]);
}

static void put_sketch(Text *text, const Sketch *sketch) {
        put_text(text, sketch->build);
        text_append_varint(text, sketch->n_blocks);
        text_append_varint(text, sketch->open_ns);
        text_append_varint(text, sketch->seen_s);
        put_numbers(text, sketch->total, sketch->n_blocks + 1);
        put_numbers(text, sketch->missed, sketch->n_blocks + 1);
        text_append_varint(text, sketch->n_rows);
        for (uint32_t i = 0; i < sketch->n_rows; i++) {
                const SketchRow *row = &sketch->rows[i];

                text_append_varint(text, row->hash);
                put_text(text, row->name);
                text_append_varint(text, row->since);
                put_numbers(text, row->n, sketch->n_blocks + 1);
        }
}

static void put_verdict(Text *text, const SketchVerdict *verdict) {
        put_text(text, verdict->before);
        put_text(text, verdict->after);
        text_append_varint(text, verdict->n_compared);
        text_append_varint(text, verdict->n_slower);
        for (uint32_t i = 0; i < MIN(verdict->n_slower, (uint32_t)SKETCH_SLOWER); i++) {
                const SketchSlower *row = &verdict->slower[i];
                const int32_t shares[] = { row->before, row->after, row->low, row->high };

                put_text(text, row->name);
                for (size_t j = 0; j < ARRAY_SIZE(shares); j++)
                        text_append_varint(text, (uint32_t)(shares[j] + MAX_SHARE));
        }
}

void watch_write(const Watch *watch, Text *text) {
        text_append_varint(text, watch->time_ns);
        text_append_varint(text, watch->way);
        text_append_varint(text, watch->n_services);
        for (uint32_t i = 0; i < watch->n_services; i++) {
                const WatchService *service = &watch->services[i];

                text_append_varint(text, service->user);
                put_text(text, service->place);
                put_text(text, service->service);
                put_text(text, service->program);
                text_append_varint(text, service->seen_s);
                text_append_varint(text, (service->before ? HAS_BEFORE : 0) |
                                                 (service->is_compared ? IS_COMPARED : 0));
                put_sketch(text, service->now);
                if (service->before)
                        put_sketch(text, service->before);
                if (service->is_compared)
                        put_verdict(text, &service->verdict);
        }
}

/* ---- reading ---- */

/* A number up to @max. */
static uint64_t get(Cursor *cursor, uint64_t max) {
        uint64_t value = cursor_varint(cursor);

        cursor->failed |= value > max;
        return cursor->failed ? 0 : value;
}

static void get_text(Cursor *cursor, char *to, size_t room) {
        size_t n = get(cursor, room - 1);
        const char *from = cursor_take(cursor, n);

        cursor->failed |= !from || !text_is_utf8(from, n);
        snprintf(to, room, "%.*s", cursor->failed ? 0 : (int)n, from ?: "");
}

/* @most: of each number. */
static void get_numbers(Cursor *cursor, uint32_t *numbers, uint32_t n, const uint32_t *most) {
        for (uint32_t i = 0; i < n; i++)
                numbers[i] = (uint32_t)get(cursor, most ? most[i] : SKETCH_MAX_BLOCK);
}

static void get_sketch(Cursor *cursor, Sketch *sketch) {
        uint32_t n_rows;

        get_text(cursor, sketch->build, sizeof(sketch->build));
        cursor->failed |= !*sketch->build;
        sketch->n_blocks = (uint32_t)get(cursor, SKETCH_BLOCKS - 1);
        sketch->open_ns = get(cursor, INT64_MAX);
        sketch->seen_s = get(cursor, INT64_MAX);
        get_numbers(cursor, sketch->total, sketch->n_blocks + 1, NULL);
        get_numbers(cursor, sketch->missed, sketch->n_blocks + 1, NULL);
        n_rows = (uint32_t)get(cursor, SKETCH_ROWS);
        for (uint32_t i = 0; i < n_rows && !cursor->failed; i++) {
                SketchRow *row = &sketch->rows[i];

                row->hash = get(cursor, UINT64_MAX);
                cursor->failed |= sketch_find(sketch, row->hash) != NULL;
                get_text(cursor, row->name, sizeof(row->name));
                row->since = (uint32_t)get(cursor, sketch->n_blocks + 1);
                get_numbers(cursor, row->n, sketch->n_blocks + 1, sketch->total);
                sketch->n_rows++;
        }
}

static void get_verdict(Cursor *cursor, SketchVerdict *verdict) {
        get_text(cursor, verdict->before, sizeof(verdict->before));
        get_text(cursor, verdict->after, sizeof(verdict->after));
        verdict->n_compared = (uint32_t)get(cursor, SKETCH_ROWS);
        verdict->n_slower = (uint32_t)get(cursor, verdict->n_compared);
        for (uint32_t i = 0; i < MIN(verdict->n_slower, (uint32_t)SKETCH_SLOWER); i++) {
                SketchSlower *row = &verdict->slower[i];
                int32_t *shares[] = { &row->before, &row->after, &row->low, &row->high };

                get_text(cursor, row->name, sizeof(row->name));
                for (size_t j = 0; j < ARRAY_SIZE(shares); j++)
                        *shares[j] = (int32_t)get(cursor, 2 * MAX_SHARE) - MAX_SHARE;
        }
}

/* A sketch of its own number. Return: 0, -ENOMEM. */
static int take_sketch(Watch *watch, Cursor *cursor, Sketch **sketchp) {
        int r = watch_new_sketch(watch, "", sketchp);

        if (!r)
                get_sketch(cursor, *sketchp);
        return error_fold(r);
}

/* Return: 0, with cursor->failed where it is none; -ENOMEM. *service holds what was read, in any case. */
static int get_service(Watch *watch, Cursor *cursor, WatchService *service) {
        uint64_t flags;
        int r;

        service->user = (uint32_t)get(cursor, UINT32_MAX);
        get_text(cursor, service->place, sizeof(service->place));
        get_text(cursor, service->service, sizeof(service->service));
        get_text(cursor, service->program, sizeof(service->program));
        service->seen_s = get(cursor, INT64_MAX);
        flags = get(cursor, HAS_BEFORE | IS_COMPARED);
        service->is_compared = flags & IS_COMPARED;
        r = take_sketch(watch, cursor, &service->now);
        if (!r && flags & HAS_BEFORE)
                r = take_sketch(watch, cursor, &service->before);
        if (!r && service->is_compared)
                get_verdict(cursor, &service->verdict);
        cursor->failed |= service->is_compared && !service->before;
        cursor->failed |= service->before && !strcmp(service->before->build, service->now->build);
        cursor->failed |= watch_has_service(watch, service);
        return error_fold(r);
}

static int add_service(Watch *watch, Cursor *cursor) {
        WatchService service = { 0 }, *added;
        int r = get_service(watch, cursor, &service);

        if (!r && !cursor->failed)
                r = watch_add_service(watch, &service, &added);
        if (r || cursor->failed) {
                free(service.before);
                free(service.now);
        }
        return r;
}

int watch_parse(Watch *watch, const void *data, size_t size) {
        Cursor cursor = cursor_make(data, size);
        uint64_t time_ns = get(&cursor, UINT64_MAX), way = get(&cursor, WATCH_KERNEL | WATCH_NAMES);
        uint64_t n = get(&cursor, WATCH_MAX_SERVICES);
        int r = 0;

        if (!cursor.failed && !watch_is_for(watch, time_ns, (uint32_t)way))
                return 0;
        for (uint64_t i = 0; i < n && !r && !cursor.failed; i++)
                r = add_service(watch, &cursor);
        if (!r && !cursor.failed && !cursor_left(&cursor))
                return 0;
        watch_clear(watch);
        return r ? error_fold(r) : WATCH_E_MALFORMED;
}

/* ---- as a file ---- */

static int read_file(Watch *watch, const char *data, size_t size) {
        uint32_t sum;

        if (size < HEAD_SIZE || memcmp(data, HEAD, strlen(HEAD)))
                return WATCH_E_MALFORMED;
        memcpy(&sum, data + strlen(HEAD), sizeof(sum));
        if (sum != gzip_crc32(0, data + HEAD_SIZE, size - HEAD_SIZE))
                return WATCH_E_MALFORMED;
        return watch_parse(watch, data + HEAD_SIZE, size - HEAD_SIZE);
}

int watch_load(Watch *watch, int directory) {
        _cleanup_(freep) char *data = NULL;
        _cleanup_(closep) int fd = -1;
        size_t size;
        int r = file_open_regular_at(directory, NAME, &fd);

        if (r == FILE_E_UNREADABLE && errno == ENOENT)
                return 0;
        if (!r)
                r = file_read_fd(fd, MAX_FILE, &data, &size);
        if (r == FILE_E_UNREADABLE)
                return -errno;
        if (r > 0)
                r = WATCH_E_MALFORMED;
        if (!r)
                r = read_file(watch, data, size);
        if (r > 0) {
                stat_add(COUNTER_WATCH_FILES_DROPPED, 1);
                log_warning("watch: the file `" NAME "` beside the spool makes no sense: builds from before are not known");
        }
        return r < 0 ? error_fold(r) : r;
}

int watch_save(Watch *watch, int directory) {
        _cleanup_(text_deinit) Text text = { 0 };
        uint32_t sum;
        int r;

        if (!watch->is_changed)
                return 0;
        text_append(&text, (char[HEAD_SIZE]){ HEAD }, HEAD_SIZE);
        watch_write(watch, &text);
        if (text.failed)
                return error_origin(-ENOMEM);
        sum = gzip_crc32(0, text.data + HEAD_SIZE, text.size - HEAD_SIZE);
        memcpy(text.data + strlen(HEAD), &sum, sizeof(sum));
        r = file_replace_at(directory, NAME, TEMPORARY, text.data, text.size);
        watch->is_changed = r;
        return r;
}
