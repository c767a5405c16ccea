/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ids of Traces
 *
 * Which traces an OTLP request of spans is about, and nothing else of it: ExportTraceServiceRequest, as
 * protobuf.
 */

#include <stddef.h>
#include <stdint.h>

enum {
        _OTLP_TRACE_IDS_E_SUCCESS,
        OTLP_TRACE_IDS_E_MALFORMED,     /* it is no such request: none was taken */
};

typedef void (*OtlpTraceIdTake)(void *userdata, const uint8_t id[static 16]);

/*
 * Takes the id of each span that has one, as often as there are spans. Reads in place, and allocates nothing.
 * Return: 0, OTLP_TRACE_IDS_E_MALFORMED.
 */
int otlp_trace_ids(const uint8_t *data, size_t size, OtlpTraceIdTake take, void *userdata);
