/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * OTLP Traces
 *
 * Spans of a file that a collector's file exporter wrote: lines of JSON, or messages with their lengths
 * before them, protobuf or packed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        _OTLP_TRACES_E_SUCCESS,
        OTLP_TRACES_E_INVALID,          /* no such file, or one that is cut off */
};

typedef struct OtlpSpan {
        uint64_t id, parent;            /* big-endian bytes as a number; parent 0 = it has none */
        uint64_t process;               /* spans with the same number have equal resources */
        bool is_entry;                  /* of the kind server or consumer: its parent is elsewhere */
        const char *name, *route;       /* UTF-8 or not; "" = none. route: http.route */
} OtlpSpan;

/* Texts live until it returns. Return: 0; anything else ends the reading. */
typedef int OtlpSpanTake(void *userdata, const OtlpSpan *span);

/* Whether a file begins as one of traces in OTLP does. */
bool otlp_traces_are(const char *data, size_t size);

/*
 * Reads all spans with an id. *placep: number of the line or message that is at hand, from 1. @where
 * (@where_size bytes): what is wrong with it, for people. Return: 0, OTLP_TRACES_E_INVALID, -ENOMEM, or what
 * @on_span returned.
 */
int otlp_traces_read(const char *data, size_t size, OtlpSpanTake *on_span, void *userdata, uint64_t *placep,
                     char *where, size_t where_size);
