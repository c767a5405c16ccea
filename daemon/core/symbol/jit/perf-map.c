/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     7f2d2c0a1000 3c LazyCompile:*spin /srv/app/server.js:12
 *     0x7f2d2c0a1040 0x200 java.lang.String.hashCode()I
 */
#include "core/symbol/jit/perf-map.h"

#include <string.h>

#include "core/base/util/macro.h"

enum { MAX_DIGITS = 16 };

void perf_map_restart(PerfMap *map) {
        map->size = 0;
}

static int digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        c = (char)(c | 0x20);
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A number with the blank behind it. Return: what follows, or NULL. */
static const char *take_hex(const char *at, const char *end, uint64_t *valuep) {
        uint64_t value = 0;
        int n = 0;

        if (end - at > 2 && at[0] == '0' && (at[1] | 0x20) == 'x')
                at += 2;
        for (; at < end && digit(*at) >= 0; at++, n++)
                value = value << 4 | (uint64_t)digit(*at);
        if (!n || n > MAX_DIGITS || at == end || *at != ' ')
                return NULL;
        *valuep = value;
        return at + 1;
}

/* Return: 0, 1 = no such line. */
static int parse_line(const char *at, const char *end, CodeRange *range) {
        *range = (CodeRange){ 0 };
        at = take_hex(at, end, &range->start);
        if (at)
                at = take_hex(at, end, &range->size);
        if (!at)
                return 1;
        while (end > at && end[-1] == '\r')
                end--;
        if (at == end || !range->size || range->start + range->size < range->start ||
            memchr(at, 0, (size_t)(end - at)))
                return 1;
        range->name = at;
        range->name_size = MIN((size_t)(end - at), (size_t)CODE_MAX_NAME);
        return 0;
}

static int end_line(PerfMap *map, const char *at, const char *end, CodeSink sink, void *userdata) {
        CodeRange range;

        map->n_lines++;
        if (parse_line(at, end, &range)) {
                map->n_malformed++;
                return 0;
        }
        return sink(userdata, &range);
}

/* Keeps bytes of a line. Bytes that do not fit are the end of a long name, and are skipped. */
static void keep(PerfMap *map, const char *data, size_t size) {
        size = MIN(size, sizeof(map->line) - map->size);
        memcpy(map->line + map->size, data, size);
        map->size += size;
}

int perf_map_feed(PerfMap *map, const char *data, size_t size, CodeSink sink, void *userdata) {
        const char *at = data, *end = data + size, *newline;
        int r = 0;

        while (!r && at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
                if (map->size) {
                        keep(map, at, (size_t)(newline - at));
                        r = end_line(map, map->line, map->line + map->size, sink, userdata);
                        map->size = 0;
                } else {
                        r = end_line(map, at, newline, sink, userdata);
                }
                at = newline + 1;
        }
        if (!r && at < end)
                keep(map, at, (size_t)(end - at));
        return r;
}
