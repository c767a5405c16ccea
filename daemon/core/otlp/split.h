/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Request Splitter
 *
 * One decoded request → requests of one service, host and day each, so that a store can keep them apart. Each
 * has the rows of the dictionary that it needs, and no others. Nothing else changes: profile ids, times and
 * fields that we do not know stay as they came.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/otlp/messages.h"

enum {
        OTLP_SPLIT_MAX_PARTS = 256,
        OTLP_SPLIT_MAX_RATIO = 4,       /* all parts together, beside the request */
};

/* A day without number: there are no times, or they reach beyond the day after the first. */
#define OTLP_SPLIT_NO_DAY UINT32_MAX

typedef struct OtlpPart {
        const char *service, *host;     /* service.name and host.name, borrowed; NULL = it says none */
        uint32_t day;                   /* since 1970, of its first sample */
        uint8_t *data;
        size_t size;
} OtlpPart;

typedef struct OtlpParts {
        OtlpPart *parts;
        size_t n;
} OtlpParts;

enum {
        _OTLP_SPLIT_E_SUCCESS,
        /*
         * No parts: they would be more than OTLP_SPLIT_MAX_PARTS or larger than OTLP_SPLIT_MAX_RATIO times
         * the request, or it has fields that no protobuf has.
         */
        OTLP_SPLIT_E_LIMIT,
};

/*
 * @request is as before afterwards; @size: its bytes. Indexes outside their tables stay outside. Pair with
 * otlp_split_deinit(). Return: 0, OTLP_SPLIT_E_LIMIT, -ENOMEM.
 */
int otlp_split(OtlpRequest *request, size_t size, OtlpParts *partsp);
void otlp_split_deinit(OtlpParts *parts);
