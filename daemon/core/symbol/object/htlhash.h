/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Htlhash
 *
 * The identity of a file by its content that the semantic conventions of
 * OpenTelemetry define (process.executable.build_id.htlhash): the first 16
 * bytes of SHA-256 over the first 4096 bytes, the last 4096 bytes, and the
 * length as a big-endian 64-bit number. In a file under 4096 bytes both parts are the whole.
 */

#include <stddef.h>
#include <stdint.h>

enum {
        HTLHASH_PART = 4096,
        HTLHASH_HEX_SIZE = 33,          /* 32 digits and a NUL */
};

enum {
        _HTLHASH_E_SUCCESS,
        HTLHASH_E_SHORT,                /* the file ends before @size, or cannot be read */
        HTLHASH_E_NO_LIBRARY,           /* libcrypto is missing, a message was logged */
};

/* Loads the library now, which takes some 5 ms, for who has no time for that later. */
void htlhash_prepare(void);

/* @fd: a regular file of @size bytes, read by pread(). Return: 0, HTLHASH_E_*. */
int htlhash_read(int fd, uint64_t size, char hex[HTLHASH_HEX_SIZE]);
