/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Process Context: the layout that a process publishes
 *
 * One header at the start of a page (OpenTelemetry enhancement proposal 4719): private memory, usually of a
 * memfd, named OTEL_CTX where the kernel shows names. Its payload is a protobuf message:
 *
 *     field 1     Resource { repeated KeyValue attributes = 1; }
 *     field 2     repeated KeyValue, about the context of threads: threadlocal.schema_version (string) and
 *                 threadlocal.attribute_key_map (array of strings: index → name)
 *
 * An update sets the time to 0, changes the rest, and sets a new time: a reader that sees the same time
 * before and after has read one whole state.
 */

#include <assert.h>
#include <stdint.h>

#define SPANPROF_PROCESS_NAME "OTEL_CTX"        /* the name of the mapping */
#define SPANPROF_PROCESS_SIGNATURE "OTEL_CTX"   /* the first 8 bytes, not terminated */

enum {
        SPANPROF_PROCESS_VERSION = 2,
        SPANPROF_PROCESS_MAX_PAYLOAD = 64 << 10,
};

struct spanprof_process_header {
        char signature[8];
        uint32_t version;
        uint32_t payload_size;
        uint64_t published_ns;          /* CLOCK_BOOTTIME; 0 = being updated */
        uint64_t payload;               /* address */
};

#ifndef __cplusplus
_Static_assert(sizeof(struct spanprof_process_header) == 32, "header is 32 bytes");
#else
static_assert(sizeof(spanprof_process_header) == 32, "layout");
#endif
