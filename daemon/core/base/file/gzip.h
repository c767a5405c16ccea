/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Gzip
 *
 * Whole buffers in and out (RFC 1952). Expanding is bounded before the bytes
 * are made, so that a bomb costs no more than its cap.
 */

#include <stddef.h>
#include <stdint.h>

enum {
        _GZIP_E_SUCCESS,
        GZIP_E_MALFORMED,               /* no gzip, cut off, wrong checksum, or bytes behind the end */
        GZIP_E_TOO_LARGE,               /* more than the cap */
};

/* CRC-32 of more bytes, from the sum so far (0 at first): gzip's, and that of .gnu_debuglink. */
uint32_t gzip_crc32(uint32_t sum, const void *data, size_t size);

/* *datap is malloc()ed, owned by the caller. Return: 0, -ENOMEM. */
int gzip_compress(const void *data, size_t size, uint8_t **datap, size_t *sizep);

/*
 * Expands every member of @data, at most @max bytes in all. *datap is malloc()ed, owned by the caller.
 * Return: 0, GZIP_E_*, -ENOMEM.
 */
int gzip_expand(const void *data, size_t size, size_t max, uint8_t **datap, size_t *sizep);

/*
 * Expands a stream of zlib (RFC 1950) that makes @n_to bytes exactly, without more memory than those.
 * Return: 0, GZIP_E_MALFORMED, -ENOMEM.
 */
int zlib_expand(const void *data, size_t size, void *to, size_t n_to);
