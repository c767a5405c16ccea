/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rows of a Trace
 *
 * The two tables that a trace has beside its events, one row as one line of CSV: stations at their end
 * (whether the coroutine is dead, what was lost), and mappings (where pieces of executable files lay in the
 * programs' memory, so that addresses have names when the programs are gone). A station's row names the
 * process that its mappings are of. Traces of coroTracer have neither. Pure: text in, rows out, and back.
 */

#include <stddef.h>
#include <stdint.h>

#include "coro/station/station-read.h"

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

#define TRACE_STATIONS_COLUMNS \
        "pid,station,probe_id,birth,dead,torn,corrupt,read,lost,rejected,skipped,last_ts,last_tid,last_addr,is_active,until," \
        "process,frame,code"

enum { TRACE_STATION_LINE = 512 };

/* One line with its newline. @to: TRACE_STATION_LINE bytes. Return: its size. */
size_t trace_station_print(char *to, const TraceStation *station);

/*
 * One line without its newline; the columns from `until` on may be missing. *end is set on success only.
 * Return: 0, TRACE_ROW_E_MALFORMED.
 */
int trace_station_parse(const char *line, size_t size, TraceStationEnd *end);

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

#define TRACE_MAPPINGS_COLUMNS \
        "process,pid,start,end,elf_address,build_id_gnu,build_id_go,build_id_htlhash,path,file_offset"

enum {
        TRACE_MAPPING_PATH = 4096,      /* the kernel's limit, with the NUL */
        TRACE_MAPPING_ID = 160,
        /* a quote in a path counts twice */
        TRACE_MAPPING_LINE = 2 * TRACE_MAPPING_PATH + 3 * TRACE_MAPPING_ID + 256,
        TRACE_MAX_MAPPINGS = 1 << 18,
};

/* One line with its newline. @to: TRACE_MAPPING_LINE bytes. Return: its size; 0 = a text is too long. */
size_t trace_mapping_print(char *to, const TraceMapping *mapping);

/* Room for the texts of a line. */
typedef struct TraceMappingTexts {
        char gnu[TRACE_MAPPING_ID], go[TRACE_MAPPING_ID], htlhash[TRACE_MAPPING_ID], path[TRACE_MAPPING_PATH];
} TraceMappingTexts;

/*
 * One line without its newline. *mapping is set on success only, and points into @texts. Return: 0,
 * TRACE_ROW_E_MALFORMED.
 */
int trace_mapping_parse(const char *line, size_t size, TraceMappingTexts *texts, TraceMapping *mapping);
