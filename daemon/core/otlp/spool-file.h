/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Spool File
 *
 * One request as a file: a header with counts and checksums, then the request, compressed by zstd. Bytes in,
 * values out: nothing is opened here. Little endian.
 *
 *     0   "SPANSPL1"                        40  samples in it           u64
 *     8   size of the header: 96    u32     48  profiles in it          u64
 *     12  1 = protobuf, 2 = JSON    u32     56  REALTIME ns             u64
 *     16  schema, NUL padded        24      64  bytes of the request    u64
 *                                           72  bytes behind the header u64
 *                                           80  XXH3 of those           u64
 *                                           88  XXH3 of bytes 0 to 87   u64
 */

#include <stddef.h>
#include <stdint.h>

/* The schema that is written and sent. A file of another version of it is never sent. */
#define SPOOL_SCHEMA "profiles/v1development"

enum {
        SPOOL_SCHEMA_ROOM = 24,
        SPOOL_HEADER_SIZE = 96,
        SPOOL_MAX_REQUEST = 64 << 20,   /* bytes of one request, expanded */
};

/*
 * More samples than any request has: an hour of 8,192 CPUs at 10 kHz has 3e11. Sums of what files claim stay
 * far from 2^64.
 */
#define SPOOL_MAX_EVENTS (UINT64_C(1) << 40)

typedef enum SpoolForm { SPOOL_PROTOBUF = 1, SPOOL_JSON = 2 } SpoolForm;

typedef struct SpoolHeader {
        char schema[SPOOL_SCHEMA_ROOM];
        SpoolForm form;
        uint64_t n_events, n_profiles, time_ns, request_size, stored_size;
} SpoolHeader;

enum {
        _SPOOL_FILE_E_SUCCESS,
        SPOOL_FILE_E_CORRUPT,           /* cut off, or a checksum does not fit */
        SPOOL_FILE_E_SCHEMA,            /* whole, but of another schema; *headerp is set */
};

/* @header: all but the sizes and the schema are the caller's. *bytesp is malloc()ed. Return: 0, -ENOMEM. */
int spool_file_pack(const SpoolHeader *header, const void *request, size_t request_size, uint8_t **bytesp,
                    size_t *sizep);

/* The header alone, for lists: @size bytes from the start of a file. Return: 0, SPOOL_FILE_E_*. */
int spool_file_head(const void *bytes, size_t size, SpoolHeader *headerp);

/* *requestp is malloc()ed. Return: 0, SPOOL_FILE_E_*, -ENOMEM. */
int spool_file_unpack(const void *bytes, size_t size, SpoolHeader *headerp, uint8_t **requestp);
