/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rows of a Trace
 *
 * The two tables that a trace has behind its events: stations at their end (whether the coroutine is dead,
 * what was lost), and mappings (where pieces of executable files lay in the programs' memory, so that
 * addresses have names when the programs are gone). A station's row names the process that its mappings are
 * of. Traces of coroTracer have neither. Pure: text in, rows out, and back.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/coro/station-read.h"

enum {
        _TRACE_ROW_E_SUCCESS,
        TRACE_ROW_E_MALFORMED,
};

/* The process of a station's coroutine, and the function that goes on in it. Zeros = not known. */
typedef struct StationCode {
        uint64_t process;               /* as in TraceMapping */
        uint64_t frame, address;        /* the coroutine's frame, and the function that the frame named */
} StationCode;

/* A station, to be written. */
typedef struct TraceStation {
        uint32_t pid, index;
        uint64_t until_ns;              /* MONOTONIC time of the last look at it; 0 = just now */
        const StationState *state;
        StationCode code;
} TraceStation;

/* A station, as it was read back. */
typedef struct TraceStationEnd {
        uint64_t pid, station, probe_id, birth_ns;
        bool dead, torn, corrupt, active;
        uint64_t n_read, n_lost, n_rejected, n_skipped;
        uint64_t last_ns, last_tid, last_address;
        /* time of the last look at it: a suspended one has waited until then at least. 0 = not known */
        uint64_t until_ns;
        StationCode code;
} TraceStationEnd;

#define TRACE_NO_OFFSET UINT64_MAX      /* older traces do not say the offset */

/* A piece of a file that lay executable in the memory of a process. */
typedef struct TraceMapping {
        /* MONOTONIC time of the first look at the process: no two have the same, also in several traces */
        uint64_t process;
        uint32_t pid;
        uint64_t start, end;            /* addresses in the process */
        /*
         * address of the start as the file counts it, and its offset in the file (TRACE_NO_OFFSET = unknown)
         */
        uint64_t address, offset;
        const char *build_id_gnu, *build_id_go, *build_id_htlhash;      /* "" = none */
        const char *path;               /* as the process saw it */
} TraceMapping;

typedef enum TraceTable {
        TRACE_TABLE_STATIONS,
        TRACE_TABLE_MAPPINGS,
        N_TRACE_TABLES,
} TraceTable;

enum {
        TRACE_MAPPING_PATH = 4096,      /* the kernel's limit, with the NUL */
        TRACE_MAPPING_ID = 160,
        TRACE_MAX_MAPPINGS = 1 << 18,
        TRACE_MAX_CELLS = 19,           /* cells of a row */
        TRACE_STATION_LINE = 1024,
        TRACE_ROW_LINE = 32 << 10,      /* no line is longer; an escaped byte of a path takes six */
};

/* Name of a table in a database and key of its rows in lines; and its number of columns. */
const char *trace_table_name(TraceTable table);
unsigned trace_table_n_columns(TraceTable table);

/* The number of a column; -1 = one that we do not know. */
int trace_table_column(TraceTable table, const char *name, size_t size);

/* A row as texts, which are borrowed. */
typedef struct TraceRow {
        TraceTable table;
        struct {
                const char *text;       /* NULL = the row has no such column */
                size_t size;
        } cells[TRACE_MAX_CELLS];       /* by column */
} TraceRow;

/* Prints a station as a line with its newline. @to: TRACE_STATION_LINE bytes. Return: size of the line. */
size_t trace_station_print(char *to, const TraceStation *station);

/*
 * Prints a mapping as a line with its newline. @to: TRACE_ROW_LINE bytes. Return: size; 0 = a text is too
 * long.
 */
size_t trace_mapping_print(char *to, const TraceMapping *mapping);

/* Whether a line of a trace is meant to be a row, and no event. */
bool trace_is_row(const char *line, size_t size);

/*
 * The cells of a line without its newline. @room: @size bytes, in which texts with escapes go. Return: 0,
 * TRACE_ROW_E_MALFORMED.
 */
int trace_row_parse(const char *line, size_t size, char *room, TraceRow *row);

/*
 * A row of stations; the columns from `until` on may be missing. *end is set on success only. Return: 0,
 * TRACE_ROW_E_MALFORMED.
 */
int trace_row_station(const TraceRow *row, TraceStationEnd *end);

/* Room for the texts of a mapping. */
typedef struct TraceMappingTexts {
        char gnu[TRACE_MAPPING_ID], go[TRACE_MAPPING_ID], htlhash[TRACE_MAPPING_ID], path[TRACE_MAPPING_PATH];
} TraceMappingTexts;

/*
 * A row of mappings. *mapping is set on success only, and points into @texts. Return: 0,
 * TRACE_ROW_E_MALFORMED.
 */
int trace_row_mapping(const TraceRow *row, TraceMappingTexts *texts, TraceMapping *mapping);
