/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Operations
 *
 * Which attribute of a sample names the operation of its span: `GET /cart/:id`, `checkout`. One list of keys
 * for reports, pages, `top`, `--operation` and metrics.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/profile/window.h"

enum { OPERATION_N_KEYS = 11 };

/* The best first: of a sample with several of them, the first one names its operation. */
extern const char *const operation_keys[OPERATION_N_KEYS];

/* Place of a key in the list, of @size bytes; OPERATION_N_KEYS = it names no operation. */
size_t operation_key_place(const char *key, size_t size);

/* The attribute of a set that names the operation: its index in the window; false = none does. */
bool operation_of_set(const Window *window, uint32_t set, uint32_t *attributep);
