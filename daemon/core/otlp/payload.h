/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Payload
 *
 * What one kind of receiver gets of a window: the window's shape (core/profile/reshape.h), then its encoding.
 */

#include "core/otlp/encode.h"
#include "core/profile/reshape.h"

typedef struct OtlpPayload {
        ReshapeOptions reshape;
        OtlpOptions encoding;
} OtlpPayload;

/* As otlp_encode(), of the window as this receiver wants it. @n_lostp: events without room, too. */
int otlp_payload_encode(const OtlpPayload *payload, const Window *window, OtlpSink sink, void *userdata,
                        uint64_t *n_lostp);
