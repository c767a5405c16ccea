/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Transcode
 *
 * One request from protobuf to OTLP/JSON, or back. Touches nothing else, so any thread may.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * *datap is malloc()ed, owned by the caller. Return: 0, positive = @data is no request in the other form,
 * -ENOMEM.
 */
int otlp_transcode(const uint8_t *data, size_t size, bool to_json, uint8_t **datap, size_t *sizep);
