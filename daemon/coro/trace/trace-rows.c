/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A row is a line of CSV in side files, and is made one when it is read from a database (trace-db.c):
 *
 *      pid,station,probe_id,birth,dead,torn,corrupt,read,lost,rejected,skipped,last_ts,last_tid,last_addr,…
 *      0,0,94163098054944,8569294269531,1,0,0,42,0,0,0,8569333681915,32617,0x000055a40e02b110,1,
 *              8569835106866,8569296211979,0x0,0x0
 *
 *      process,pid,start,end,elf_address,build_id_gnu,build_id_go,build_id_htlhash,path,file_offset
 *      8569296211979,32611,0x55a409b5d000,0x55a409b5e845,0x2000,a473591b3486…,,2ca3cdc3…,"/srv/server",0x2000
 *
 * Later versions have added columns at the right, so a row of an older trace has fewer. Only a path may hold
 * a comma: it is quoted, and each quote inside is doubled. Files may come from another user: every cell is
 * checked, and a row with a wrong one is malformed as a whole.
 */

#include "coro/trace/trace-rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/util/text.h"

/* The number that fills a cell: decimal, or hexadecimal with 0x. Return: whether there is one. */
static bool parse_number(const char *cell, size_t size, bool hex, uint64_t *valuep) {
        char copy[24];

        if (!size || size >= sizeof(copy))
                return false;
        memcpy(copy, cell, size);
        copy[size] = 0;
        if (!hex)
                return !text_u64(copy, UINT64_MAX, valuep);
        return size > 2 && copy[0] == '0' && copy[1] == 'x' && !text_hex(copy + 2, copy + size, valuep);
}

/* Stations */

enum {
        N_COLUMNS = 19, N_ALWAYS = 15,
        ADDRESS_COLUMN = 13, FRAME_COLUMN = 17, CODE_COLUMN = 18,
};

size_t trace_station_print(char *to, const TraceStation *station) {
        const StationState *s = station->state;

        return (size_t)snprintf(
                to, TRACE_STATION_LINE,
                "%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%d,%d,%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64
                ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",0x%016" PRIx64 ",%d,%" PRIu64 ",%" PRIu64 ",0x%" PRIx64
                ",0x%" PRIx64 "\n",
                station->pid, station->index, s->probe_id, s->birth_ns, s->dead, s->torn, s->corrupt,
                s->n_read, s->n_lost, s->n_rejected, s->n_skipped, s->last_ns, s->last_tid, s->last_address,
                s->active, station->until_ns, station->code.process, station->code.frame,
                station->code.address);
}

int trace_station_parse(const char *line, size_t size, TraceStationEnd *endp) {
        const char *end = line + size;
        uint64_t cells[N_COLUMNS] = { 0 };

        if (size && end[-1] == '\r')
                end--;
        for (int i = 0; i < N_COLUMNS; i++) {
                const char *comma = memchr(line, ',', (size_t)(end - line)), *stop = comma ? comma : end;
                bool may_end = i >= N_ALWAYS - 1, must_end = i == N_COLUMNS - 1;
                bool hex = i == ADDRESS_COLUMN || i == FRAME_COLUMN || i == CODE_COLUMN;

                if ((comma ? must_end : !may_end) ||
                    !parse_number(line, (size_t)(stop - line), hex, &cells[i]))
                        return TRACE_ROW_E_MALFORMED;
                if (!comma)
                        break;
                line = stop + 1;
        }
        *endp = (TraceStationEnd){ .pid = cells[0],
                                   .station = cells[1],
                                   .probe_id = cells[2],
                                   .birth_ns = cells[3],
                                   .dead = cells[4],
                                   .torn = cells[5],
                                   .corrupt = cells[6],
                                   .n_read = cells[7],
                                   .n_lost = cells[8],
                                   .n_rejected = cells[9],
                                   .n_skipped = cells[10],
                                   .last_ns = cells[11],
                                   .last_tid = cells[12],
                                   .last_address = cells[13],
                                   .active = cells[14],
                                   .until_ns = cells[15],
                                   .code = {
                                           .process = cells[16], .frame = cells[17], .address = cells[18] } };
        return 0;
}

/* Mappings */

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
        return at == end || (*at == ',' && parse_number(at + 1, (size_t)(end - at - 1), true, offsetp));
}

int trace_mapping_parse(const char *line, size_t size, TraceMappingTexts *texts, TraceMapping *mapping) {
        char *const ids[N_IDS] = { texts->gnu, texts->go, texts->htlhash };
        const char *end = line + size, *cell;
        uint64_t numbers[N_NUMBERS], offset;
        size_t n;

        if (size && end[-1] == '\r')
                end--;
        for (int i = 0; i < N_NUMBERS; i++)
                if (!next_cell(&line, end, &cell, &n) || !parse_number(cell, n, i >= 2, &numbers[i]))
                        return TRACE_ROW_E_MALFORMED;
        for (int i = 0; i < N_IDS; i++)
                if (!next_cell(&line, end, &cell, &n) || !parse_id(cell, n, ids[i]))
                        return TRACE_ROW_E_MALFORMED;
        if (!parse_path(&line, end, texts->path) || !parse_offset(line, end, &offset) || !numbers[0] ||
            numbers[1] > UINT32_MAX || numbers[2] >= numbers[3])
                return TRACE_ROW_E_MALFORMED;
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
