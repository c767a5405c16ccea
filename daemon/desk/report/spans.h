/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Span List
 *
 * Which operation a span belongs to, from a table that the traced program wrote:
 *
 *     span_id,operation,tid,start_before,…
 *     00000000000f4241,checkout,4711,…
 *
 * The first line names the columns; span_id and operation are needed, in any place, the others are not
 * looked at. Or from traces in OTLP (core/otlp/traces.h): there the operation of a span is the name of the
 * entry span of its process, with its http.route behind a name that is a method alone. A span has none if its
 * entry span is not in the file, or two spans have one id.
 *
 * Bytes in, so that tests and the fuzzer feed it plain strings.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"

typedef struct SpanList SpanList;

enum {
        _SPAN_LIST_E_SUCCESS,
        SPAN_LIST_E_INVALID,            /* a line is wrong */
};

enum {
        SPAN_LIST_MAX_SPANS = 16 << 20,
        SPAN_LIST_MAX_OPERATIONS = 64 << 10,
        SPAN_LIST_MAX_COLUMNS = 64,
        SPAN_LIST_PROBLEM_MAX = 160,
};

typedef struct SpanListProblem {
        uint64_t line;                  /* from 1; of traces in protobuf: the message */
        char text[SPAN_LIST_PROBLEM_MAX];
} SpanListProblem;

/* Return: 0; SPAN_LIST_E_INVALID with *problem set; -ENOMEM. */
int span_list_new(SpanList **listp, const char *data, size_t size, SpanListProblem *problem);
SpanList *span_list_free(SpanList *list);
DEFINE_CLEANUP(SpanList, span_list_free)

/* @span_id: as on the wire. Return: 0 and the operation's number, or 1 = not in the list. */
int span_list_find(const SpanList *list, const uint8_t span_id[static 8], uint32_t *operationp);

/* Operations are numbered from 0 in the order of the list. */
uint32_t span_list_n_operations(const SpanList *list);
const char *span_list_operation(const SpanList *list, uint32_t operation);
uint64_t span_list_n_spans(const SpanList *list);
