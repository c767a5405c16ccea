/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Goes down three messages, whose fields of other numbers are passed over:
 *
 *     ExportTraceServiceRequest.resource_spans (1) ─▶ ResourceSpans.scope_spans (2) ─▶ ScopeSpans.spans (2)
 *                                                                           ─▶ Span.trace_id (1), 16 bytes
 *
 * Source: opentelemetry-proto, trace/v1/trace.proto. An id of another length, or of zeros, is none.
 */

#include "core/otlp/trace-ids.h"

#include <string.h>

#include "core/base/data/protobuf.h"

enum { LEVELS = 3, TRACE_ID = 1, TRACE_ID_SIZE = 16 };

static const uint32_t numbers[LEVELS] = { 1, 2, 2 };

static bool is_id(const Field *field) {
        static const uint8_t none[TRACE_ID_SIZE];

        return field->number == TRACE_ID && field->wire == WIRE_BYTES && field->size == sizeof(none) &&
                memcmp(field->data, none, sizeof(none));
}

/* @take: NULL = it is only looked whether it is one. */
static int walk(const uint8_t *data, size_t size, OtlpTraceIdTake take, void *userdata) {
        Cursor levels[LEVELS + 1] = { cursor_make(data, size) };
        int level = 0;
        Field field;

        while (level >= 0) {
                if (!field_next(&levels[level], &field)) {
                        if (levels[level].failed)
                                return OTLP_TRACE_IDS_E_MALFORMED;
                        level--;
                } else if (level == LEVELS) {
                        if (take && is_id(&field))
                                take(userdata, field.data);
                } else if (field.number == numbers[level] && field.wire == WIRE_BYTES) {
                        levels[level + 1] = field_cursor(&field);
                        level++;
                }
        }
        return 0;
}

int otlp_trace_ids(const uint8_t *data, size_t size, OtlpTraceIdTake take, void *userdata) {
        int r = walk(data, size, NULL, NULL);

        return r ? r : walk(data, size, take, userdata);
}
