/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Zstandard
 *
 * Whole buffers in and out. How large the expanded bytes are is known beforehand, so that a bomb costs no
 * more than that. Streams are unpack.h's.
 */

#include <stddef.h>
#include <stdint.h>

enum {
        _ZSTD_E_SUCCESS,
        ZSTD_E_MALFORMED,               /* no zstd, or not of the expected size */
};

/* *datap is malloc()ed, owned by the caller. Return: 0, -ENOMEM. */
int zstd_compress(const void *data, size_t size, uint8_t **datap, size_t *sizep);

/* Exactly @expected bytes must come out. Return: 0, ZSTD_E_MALFORMED, -ENOMEM. */
int zstd_expand(const void *data, size_t size, size_t expected, uint8_t **datap);
