/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Unpack
 *
 * A stream of packed bytes → the bytes, piece by piece. Which packing it is says its beginning: gzip, zstd,
 * lz4 (frames), xz, or none of them. Several members behind each other are one stream. Each library is used
 * in one file behind the same three functions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"

enum {
        _UNPACK_E_SUCCESS,
        UNPACK_E_MALFORMED,             /* damaged, or it ends in the middle */
};

enum {
        UNPACK_MAGIC = 4,               /* bytes that tell the packing */
        UNPACK_PIECE = 64 << 10,        /* largest piece that a sink gets */
};

/* Takes the next @size bytes, UNPACK_PIECE at most. A non-zero return ends the unpacking and is returned. */
typedef int (*UnpackSink)(const uint8_t *data, size_t size, void *userdata);

/*
 * A packing. step() advances both ends. Return of step: 0, UNPACK_E_MALFORMED; *atp: at a border of members.
 */
typedef struct UnpackMethod {
        const char *name;
        uint8_t magic[UNPACK_MAGIC];
        size_t n_magic;
        void *(*start)(void);           /* NULL = no memory */
        void (*stop)(void *state);
        int (*step)(void *state, const uint8_t **inp, size_t *n_inp, uint8_t *out, size_t *n_outp,
                    bool *at_borderp);
} UnpackMethod;

extern const UnpackMethod unpack_gzip, unpack_zstd, unpack_lz4, unpack_xz;

typedef struct Unpack Unpack;

bool unpack_is_packed(const uint8_t *data, size_t size);

/* Chooses by the first bytes @data of the stream. Return: 0, -ENOMEM. */
int unpack_new(Unpack **unpackp, const uint8_t *data, size_t size);
Unpack *unpack_free(Unpack *unpack);
DEFINE_CLEANUP(Unpack, unpack_free)

const char *unpack_name(const Unpack *unpack);

/* Return: 0, UNPACK_E_MALFORMED (what came before it was handed on), or the sink's code. */
int unpack_feed(Unpack *unpack, const uint8_t *data, size_t size, UnpackSink sink, void *userdata);

/* Whether the stream may end here. Return: 0, UNPACK_E_MALFORMED. */
int unpack_end(const Unpack *unpack);
