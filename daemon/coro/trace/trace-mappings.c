/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/trace/trace-mappings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "coro/trace/side-file.h"
#include "coro/trace/trace-db.h"

enum { N_NUMBERS = 5, N_IDS = 3 };

/* A path may hold anything but NUL; a newline would end the line. */
static char *print_path(char *to, const char *path) {
        *to++ = '"';
        for (; *path; path++) {
                if (*path == '"')
                        *to++ = '"';
                *to++ = *path == '\n' ? '?' : *path;
        }
        *to++ = '"';
        return to;
}

size_t trace_mapping_print(char *to, const TraceMapping *m) {
        char *at = to;

        if (strlen(m->path) >= TRACE_MAPPING_PATH || strlen(m->build_id_gnu) >= TRACE_MAPPING_ID ||
            strlen(m->build_id_go) >= TRACE_MAPPING_ID || strlen(m->build_id_htlhash) >= TRACE_MAPPING_ID)
                return 0;
        at += sprintf(at, "%" PRIu64 ",%" PRIu32 ",0x%" PRIx64 ",0x%" PRIx64 ",0x%" PRIx64 ",%s,%s,%s,",
                      m->process, m->pid, m->start, m->end, m->address, m->build_id_gnu, m->build_id_go,
                      m->build_id_htlhash);
        at = print_path(at, m->path);
        if (m->offset != TRACE_NO_OFFSET)
                at += sprintf(at, ",0x%" PRIx64, m->offset);
        *at++ = '\n';
        return (size_t)(at - to);
}

/* The next cell, without its comma. Return: false = there is no comma behind it. */
static bool next_cell(const char **linep, const char *end, const char **cellp, size_t *sizep) {
        const char *comma = memchr(*linep, ',', (size_t)(end - *linep));

        if (!comma)
                return false;
        *cellp = *linep;
        *sizep = (size_t)(comma - *linep);
        *linep = comma + 1;
        return true;
}

/* Build ids: printable, and nothing that CSV would quote. */
static bool parse_id(const char *cell, size_t size, char to[TRACE_MAPPING_ID]) {
        if (size >= TRACE_MAPPING_ID)
                return false;
        for (size_t i = 0; i < size; i++)
                if (cell[i] <= ' ' || cell[i] > '~' || cell[i] == '"')
                        return false;
        memcpy(to, cell, size);
        to[size] = 0;
        return true;
}

/* Quoted, with each quote twice, or the rest of the line as it is. Return: false, or *linep behind it. */
static bool parse_path(const char **linep, const char *end, char to[TRACE_MAPPING_PATH]) {
        const char *at = *linep;
        bool quoted = at < end && *at == '"', closed = !quoted;
        size_t n = 0;

        for (at += quoted; at < end; at++) {
                if (quoted && *at == '"' && (++at == end || *at != '"')) {
                        closed = true;
                        break;
                }
                if (!*at || *at == '\n' || n == TRACE_MAPPING_PATH - 1)
                        return false;
                to[n++] = *at;
        }
        to[n] = 0;
        *linep = at;
        return closed;
}

static bool parse_offset(const char *at, const char *end, uint64_t *offsetp) {
        *offsetp = TRACE_NO_OFFSET;
        return at == end || (*at == ',' && side_file_number(at + 1, (size_t)(end - at - 1), true, offsetp));
}

int trace_mapping_parse(const char *line, size_t size, TraceMappingTexts *texts, TraceMapping *mapping) {
        char *const ids[N_IDS] = { texts->gnu, texts->go, texts->htlhash };
        const char *end = line + size, *cell;
        uint64_t numbers[N_NUMBERS], offset;
        size_t n;

        if (size && end[-1] == '\r')
                end--;
        for (int i = 0; i < N_NUMBERS; i++)
                if (!next_cell(&line, end, &cell, &n) || !side_file_number(cell, n, i >= 2, &numbers[i]))
                        return TRACE_MAPPINGS_E_MALFORMED;
        for (int i = 0; i < N_IDS; i++)
                if (!next_cell(&line, end, &cell, &n) || !parse_id(cell, n, ids[i]))
                        return TRACE_MAPPINGS_E_MALFORMED;
        if (!parse_path(&line, end, texts->path) || !parse_offset(line, end, &offset) || !numbers[0] ||
            numbers[1] > UINT32_MAX || numbers[2] >= numbers[3])
                return TRACE_MAPPINGS_E_MALFORMED;
        *mapping = (TraceMapping){ .process = numbers[0],
                                   .pid = (uint32_t)numbers[1],
                                   .start = numbers[2],
                                   .end = numbers[3],
                                   .address = numbers[4],
                                   .offset = offset,
                                   .build_id_gnu = texts->gnu,
                                   .build_id_go = texts->go,
                                   .build_id_htlhash = texts->htlhash,
                                   .path = texts->path };
        return 0;
}

typedef struct Reading {
        TraceMappingFunc func;
        void *userdata;
        uint64_t *n_malformedp;
        uint64_t n;
        TraceMappingTexts texts;
} Reading;

static int take_line(void *userdata, const char *line, size_t size) {
        Reading *reading = userdata;
        TraceMapping mapping;

        if (trace_mapping_parse(line, size, &reading->texts, &mapping) || reading->n == TRACE_MAX_MAPPINGS) {
                ++*reading->n_malformedp;
                return 0;
        }
        reading->n++;
        return reading->func(reading->userdata, &mapping);
}

int trace_mappings_read(const char *path, TraceForm form, TraceMappingFunc func, void *userdata,
                        uint64_t *n_malformedp) {
        Reading reading = { .func = func, .userdata = userdata, .n_malformedp = n_malformedp };
        int r = form == TRACE_SQLITE ? trace_db_read_mappings(path, take_line, &reading)
                                     : side_file_read(path, SIDE_FILE_MAPPINGS, take_line, &reading);

        return r == SIDE_FILE_E_NONE ? TRACE_MAPPINGS_E_NONE : r;
}
