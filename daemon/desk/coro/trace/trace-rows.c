/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A row is a line of JSON behind the events, under the name that its table has in a database (trace-db.c):
 *
 *      {"coro_stations":{"pid":0,"station":0,"probe_id":94163098054944,"birth":8569294269531,"dead":true,…}}
 *      {"coro_mappings":{"process":8569296211979,"pid":32611,"start":"0x55a409b5d000",…,"path":"/srv/shop"}}
 *
 * Either becomes cells by the names of columns, which come in any order; later versions have added columns,
 * so a row of an older trace has fewer. Files may come from another user: every cell is checked, and a row
 * with a wrong one is malformed as a whole.
 */

#include "desk/coro/trace/trace-rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/data/json-writer.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"

enum {
        STATION_PID, STATION_INDEX, STATION_PROBE, STATION_BIRTH, STATION_DEAD, STATION_TORN, STATION_CORRUPT,
        STATION_READ, STATION_LOST, STATION_REJECTED, STATION_SKIPPED, STATION_TIME, STATION_TID,
        STATION_ADDRESS, STATION_ACTIVE, STATION_UNTIL, STATION_PROCESS, STATION_FRAME, STATION_CODE,
        N_STATION_CELLS,
        STATION_ALWAYS = STATION_UNTIL,         /* the columns before it are in every row */
};

enum {
        MAPPING_PROCESS, MAPPING_PID, MAPPING_START, MAPPING_END, MAPPING_ADDRESS,
        MAPPING_GNU, MAPPING_GO, MAPPING_HTLHASH, MAPPING_PATH, MAPPING_OFFSET,
        N_MAPPING_CELLS,
        N_MAPPING_NUMBERS = MAPPING_GNU,
};

static const char *const station_columns[N_STATION_CELLS] = {
        "pid", "station", "probe_id", "birth", "dead", "torn", "corrupt", "read", "lost", "rejected", "skipped",
        "last_ts", "last_tid", "last_addr", "is_active", "until", "process", "frame", "code",
};
static const char *const mapping_columns[N_MAPPING_CELLS] = {
        "process", "pid", "start", "end", "elf_address", "build_id_gnu", "build_id_go", "build_id_htlhash", "path",
        "file_offset",
};
static const struct { const char *name; const char *const *columns; unsigned n; } tables[N_TRACE_TABLES] = {
        [TRACE_TABLE_STATIONS] = { "coro_stations", station_columns, N_STATION_CELLS },
        [TRACE_TABLE_MAPPINGS] = { "coro_mappings", mapping_columns, N_MAPPING_CELLS },
};

const char *trace_table_name(TraceTable table) {
        return tables[table].name;
}

unsigned trace_table_n_columns(TraceTable table) {
        return tables[table].n;
}

int trace_table_column(TraceTable table, const char *name, size_t size) {
        for (unsigned i = 0; i < tables[table].n; i++)
                if (strlen(tables[table].columns[i]) == size && !memcmp(tables[table].columns[i], name, size))
                        return (int)i;
        return -1;
}

/* Printing */

static const char *boolean(bool value) {
        return value ? "true" : "false";
}

size_t trace_station_print(char *to, const TraceStation *station) {
        const StationState *s = station->state;
        int n = snprintf(to, TRACE_STATION_LINE,
                         "{\"coro_stations\":{\"pid\":%" PRIu32 ",\"station\":%" PRIu32 ",\"probe_id\":%" PRIu64
                         ",\"birth\":%" PRIu64 ",\"dead\":%s,\"torn\":%s,\"corrupt\":%s,\"read\":%" PRIu64
                         ",\"lost\":%" PRIu64 ",\"rejected\":%" PRIu64 ",\"skipped\":%" PRIu64,
                         station->pid, station->index, s->probe_id, s->birth_ns, boolean(s->dead),
                         boolean(s->torn), boolean(s->corrupt), s->n_read, s->n_lost, s->n_rejected,
                         s->n_skipped);

        n += snprintf(to + n, TRACE_STATION_LINE - (size_t)n,
                      ",\"last_ts\":%" PRIu64 ",\"last_tid\":%" PRIu64 ",\"last_addr\":\"0x%016" PRIx64
                      "\",\"is_active\":%s,\"until\":%" PRIu64 ",\"process\":%" PRIu64 ",\"frame\":\"0x%" PRIx64
                      "\",\"code\":\"0x%" PRIx64 "\"}}\n",
                      s->last_ns, s->last_tid, s->last_address, boolean(s->active), station->until_ns,
                      station->code.process, station->code.frame, station->code.address);
        return (size_t)n;
}

static void put_address(JsonWriter *json, const char *key, uint64_t address) {
        char text[24];

        snprintf(text, sizeof(text), "0x%" PRIx64, address);
        json_text(json, key, text);
}

static void put_mapping(JsonWriter *json, const TraceMapping *m) {
        json_open(json, NULL, '{');
        json_open(json, tables[TRACE_TABLE_MAPPINGS].name, '{');
        json_number(json, "process", m->process);
        json_number(json, "pid", m->pid);
        put_address(json, "start", m->start);
        put_address(json, "end", m->end);
        put_address(json, "elf_address", m->address);
        json_text(json, "build_id_gnu", m->build_id_gnu);
        json_text(json, "build_id_go", m->build_id_go);
        json_text(json, "build_id_htlhash", m->build_id_htlhash);
        json_text(json, "path", m->path);
        if (m->offset != TRACE_NO_OFFSET)
                put_address(json, "file_offset", m->offset);
        json_close(json, '}');
        json_close(json, '}');
        json_end(json);
}

size_t trace_mapping_print(char *to, const TraceMapping *m) {
        _cleanup_(text_deinit) Text line = { 0 };
        JsonWriter json = { .text = &line };

        if (strlen(m->path) >= TRACE_MAPPING_PATH || strlen(m->build_id_gnu) >= TRACE_MAPPING_ID ||
            strlen(m->build_id_go) >= TRACE_MAPPING_ID || strlen(m->build_id_htlhash) >= TRACE_MAPPING_ID)
                return 0;
        put_mapping(&json, m);
        if (line.failed || line.size > TRACE_ROW_LINE)
                return 0;
        memcpy(to, line.data, line.size);
        return line.size;
}

/* Parsing */

typedef struct Line {
        const char *at, *end;
        char *room;                     /* for texts with escapes */
} Line;

static bool eat(Line *line, char c) {
        while (line->at < line->end && (*line->at == ' ' || *line->at == '\t' || *line->at == '\r'))
                line->at++;
        if (line->at == line->end || *line->at != c)
                return false;
        line->at++;
        return true;
}

/* Reads the escapes that a JSON writer makes in a path; other characters need none. */
static bool eat_escape(Line *line, char *to) {
        static const char from[] = "\"\\/bfnrt", chars[] = "\"\\/\b\f\n\r\t";
        const char *found = line->at < line->end ? memchr(from, *line->at, sizeof(from) - 1) : NULL;
        uint64_t code;

        if (found) {
                *to = chars[found - from];
                line->at++;
                return true;
        }
        if (line->end - line->at < 5 || *line->at != 'u' || text_hex(line->at + 1, line->at + 5, &code) ||
            !code || code > 0x7f)
                return false;
        *to = (char)code;
        line->at += 5;
        return true;
}

static bool eat_string(Line *line, const char **textp, size_t *sizep) {
        char *to = line->room;

        if (!eat(line, '"'))
                return false;
        for (; line->at < line->end && *line->at != '"'; to++) {
                *to = *line->at++;
                if (*to == '\\' && !eat_escape(line, to))
                        return false;
        }
        *textp = line->room;
        *sizep = (size_t)(to - line->room);
        line->room = to;
        return eat(line, '"');
}

/* A string, or a bare word. */
static bool eat_value(Line *line, const char **textp, size_t *sizep) {
        if (eat(line, '"')) {
                line->at--;
                return eat_string(line, textp, sizep);
        }
        *textp = line->at;
        while (line->at < line->end && !memchr(",} \t\r\"{[:]", *line->at, 11))
                line->at++;
        *sizep = (size_t)(line->at - *textp);
        return *sizep;
}

static bool eat_cells(Line *line, TraceRow *row) {
        if (!eat(line, '{'))
                return false;
        do {
                const char *key, *text;
                size_t n_key, size;
                int column;

                if (!eat_string(line, &key, &n_key) || !eat(line, ':') || !eat_value(line, &text, &size))
                        return false;
                column = trace_table_column(row->table, key, n_key);
                if (column >= 0 && row->cells[column].text)
                        return false;
                if (column >= 0) {
                        row->cells[column].text = text;
                        row->cells[column].size = size;
                }
        } while (eat(line, ','));
        return eat(line, '}');
}

bool trace_is_row(const char *line, size_t size) {
        static const char begin[] = "{\"coro_";

        return size >= sizeof(begin) - 1 && !memcmp(line, begin, sizeof(begin) - 1);
}

int trace_row_parse(const char *text, size_t size, char *room, TraceRow *row) {
        Line line = { text, text + size, room };
        const char *name;
        size_t n;

        *row = (TraceRow){ 0 };
        if (!eat(&line, '{') || !eat_string(&line, &name, &n) || !eat(&line, ':'))
                return TRACE_ROW_E_MALFORMED;
        row->table = strlen(tables[0].name) == n && !memcmp(tables[0].name, name, n) ? 0 : 1;
        if (strlen(tables[row->table].name) != n || memcmp(tables[row->table].name, name, n))
                return TRACE_ROW_E_MALFORMED;
        if (!eat_cells(&line, row) || !eat(&line, '}') || (eat(&line, '\r'), line.at != line.end))
                return TRACE_ROW_E_MALFORMED;
        return 0;
}

/* The number that fills a cell: decimal, hexadecimal with 0x, or a word. Return: whether there is one. */
static bool parse_number(const TraceRow *row, int column, bool hex, uint64_t *valuep) {
        const char *cell = row->cells[column].text;
        size_t size = row->cells[column].size;
        char copy[24];

        if (!cell || !size || size >= sizeof(copy))
                return false;
        memcpy(copy, cell, size);
        copy[size] = 0;
        if (hex)
                return size > 2 && !memcmp(copy, "0x", 2) && !text_hex(copy + 2, copy + size, valuep);
        if (!strcmp(copy, "true") || !strcmp(copy, "false")) {
                *valuep = copy[0] == 't';
                return true;
        }
        return !text_u64(copy, UINT64_MAX, valuep);
}

int trace_row_station(const TraceRow *row, TraceStationEnd *endp) {
        uint64_t cells[N_STATION_CELLS] = { 0 };

        if (row->table != TRACE_TABLE_STATIONS)
                return TRACE_ROW_E_MALFORMED;
        for (int i = 0; i < N_STATION_CELLS; i++) {
                bool hex = i == STATION_ADDRESS || i == STATION_FRAME || i == STATION_CODE;

                if (i >= STATION_ALWAYS && !row->cells[i].text)
                        continue;
                if (!parse_number(row, i, hex, &cells[i]))
                        return TRACE_ROW_E_MALFORMED;
        }
        *endp = (TraceStationEnd){ .pid = cells[STATION_PID],
                                   .station = cells[STATION_INDEX],
                                   .probe_id = cells[STATION_PROBE],
                                   .birth_ns = cells[STATION_BIRTH],
                                   .dead = cells[STATION_DEAD],
                                   .torn = cells[STATION_TORN],
                                   .corrupt = cells[STATION_CORRUPT],
                                   .n_read = cells[STATION_READ],
                                   .n_lost = cells[STATION_LOST],
                                   .n_rejected = cells[STATION_REJECTED],
                                   .n_skipped = cells[STATION_SKIPPED],
                                   .last_ns = cells[STATION_TIME],
                                   .last_tid = cells[STATION_TID],
                                   .last_address = cells[STATION_ADDRESS],
                                   .active = cells[STATION_ACTIVE],
                                   .until_ns = cells[STATION_UNTIL],
                                   .code = { .process = cells[STATION_PROCESS],
                                             .frame = cells[STATION_FRAME],
                                             .address = cells[STATION_CODE] } };
        return 0;
}

/* @plain: printable, as build ids are. */
static bool parse_text(const TraceRow *row, int column, bool plain, char *to, size_t room) {
        const char *text = row->cells[column].text;
        size_t size = row->cells[column].size;

        if (!text || size >= room || memchr(text, 0, size))
                return false;
        for (size_t i = 0; i < size && plain; i++)
                if (text[i] <= ' ' || text[i] > '~')
                        return false;
        memcpy(to, text, size);
        to[size] = 0;
        return true;
}

int trace_row_mapping(const TraceRow *row, TraceMappingTexts *texts, TraceMapping *mapping) {
        char *const ids[] = { texts->gnu, texts->go, texts->htlhash };
        uint64_t numbers[N_MAPPING_NUMBERS], offset = TRACE_NO_OFFSET;

        if (row->table != TRACE_TABLE_MAPPINGS)
                return TRACE_ROW_E_MALFORMED;
        for (int i = 0; i < N_MAPPING_NUMBERS; i++)
                if (!parse_number(row, i, i >= MAPPING_START, &numbers[i]))
                        return TRACE_ROW_E_MALFORMED;
        for (int i = 0; i < (int)ARRAY_SIZE(ids); i++)
                if (!parse_text(row, MAPPING_GNU + i, true, ids[i], TRACE_MAPPING_ID))
                        return TRACE_ROW_E_MALFORMED;
        if (!parse_text(row, MAPPING_PATH, false, texts->path, TRACE_MAPPING_PATH) ||
            (row->cells[MAPPING_OFFSET].text && !parse_number(row, MAPPING_OFFSET, true, &offset)) ||
            !numbers[MAPPING_PROCESS] || numbers[MAPPING_PID] > UINT32_MAX ||
            numbers[MAPPING_START] >= numbers[MAPPING_END])
                return TRACE_ROW_E_MALFORMED;
        *mapping = (TraceMapping){ .process = numbers[MAPPING_PROCESS],
                                   .pid = (uint32_t)numbers[MAPPING_PID],
                                   .start = numbers[MAPPING_START],
                                   .end = numbers[MAPPING_END],
                                   .address = numbers[MAPPING_ADDRESS],
                                   .offset = offset,
                                   .build_id_gnu = texts->gnu,
                                   .build_id_go = texts->go,
                                   .build_id_htlhash = texts->htlhash,
                                   .path = texts->path };
        return 0;
}
