/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a trace says of the code of its programs: where pieces of executable files lay in their memory, so
 * that addresses in the trace have names when the programs are gone. It stands in the table coro_mappings, or
 * beside other forms in NAME.mappings.csv; traces of the real engine have none. The row of a station
 * (trace-stations.h) says which process it was of.
 */

#include <stddef.h>
#include <stdint.h>

#include "coro/trace/trace.h"

#define TRACE_MAPPINGS_COLUMNS \
        "process,pid,start,end,elf_address,build_id_gnu,build_id_go,build_id_htlhash,path,file_offset"

enum {
        TRACE_MAPPING_PATH = 4096,      /* of the kernel's; with its NUL */
        TRACE_MAPPING_ID = 160,
        /* a quote counts twice */
        TRACE_MAPPING_LINE = 2 * TRACE_MAPPING_PATH + 3 * TRACE_MAPPING_ID + 256,
        TRACE_MAX_MAPPINGS = 1 << 18,
};

enum {
        _TRACE_MAPPINGS_E_SUCCESS,
        TRACE_MAPPINGS_E_NONE,          /* there are none */
        TRACE_MAPPINGS_E_MALFORMED,
};

/* One line with its newline. @to: TRACE_MAPPING_LINE bytes. Return: its size; 0 = a text is too long. */
size_t trace_mapping_print(char *to, const TraceMapping *mapping);

/* Where the texts of a line are put. */
typedef struct TraceMappingTexts {
        char gnu[TRACE_MAPPING_ID], go[TRACE_MAPPING_ID], htlhash[TRACE_MAPPING_ID], path[TRACE_MAPPING_PATH];
} TraceMappingTexts;

/*
 * One line, without its newline. Pure; *mapping is set on success only and points into @texts. Return: 0,
 * TRACE_MAPPINGS_E_MALFORMED.
 */
int trace_mapping_parse(const char *line, size_t size, TraceMappingTexts *texts, TraceMapping *mapping);

typedef int (*TraceMappingFunc)(void *userdata, const TraceMapping *mapping);

/*
 * Those of the trace at @path. Lines that are none are left out and counted, and so is what is beyond
 * TRACE_MAX_MAPPINGS.
 * Return: 0, TRACE_MAPPINGS_E_NONE, what @func returned, -ENOMEM.
 */
int trace_mappings_read(const char *path, TraceForm form, TraceMappingFunc func, void *userdata,
                        uint64_t *n_malformedp);
