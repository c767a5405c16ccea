/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Expands xz as a stream, for unpack.c, with a cap on the memory that a stream may ask for. Zeros between
 * two streams are padding.
 */

#include <lzma.h>
#include <stdlib.h>

#include "core/base/file/unpack.h"

/* `xz -9` needs 65 MiB to unpack; a stream may ask for 4 GiB. */
enum { MAX_MEMORY = 128 << 20 };

typedef struct Xz {
        lzma_stream stream;
        /* the input is between streams, where zeros may be (file format of xz, 2.2) */
        bool is_between;
} Xz;

static bool begin_stream(Xz *xz) {
        xz->is_between = true;
        return lzma_stream_decoder(&xz->stream, MAX_MEMORY, 0) == LZMA_OK;
}

static void stop(void *state) {
        Xz *xz = state;

        lzma_end(&xz->stream);
        free(xz);
}

static void *start(void) {
        Xz *xz = calloc(1, sizeof(*xz));

        if (xz && !begin_stream(xz)) {
                stop(xz);
                return NULL;
        }
        return xz;
}

static void skip_padding(const uint8_t **inp, size_t *n_inp) {
        while (*n_inp && !**inp) {
                ++*inp;
                --*n_inp;
        }
}

static int step(void *state, const uint8_t **inp, size_t *n_inp, uint8_t *out, size_t *n_outp,
                bool *at_borderp) {
        size_t room = *n_outp, n_in;
        Xz *xz = state;
        lzma_ret r;

        *n_outp = 0;
        if (xz->is_between)
                skip_padding(inp, n_inp);
        n_in = *n_inp;
        xz->stream = (lzma_stream){ .internal = xz->stream.internal, .next_in = *inp, .avail_in = n_in,
                                    .next_out = out, .avail_out = room };
        r = n_in || !xz->is_between ? lzma_code(&xz->stream, LZMA_RUN) : LZMA_OK;
        *inp += n_in - xz->stream.avail_in;
        *n_inp = xz->stream.avail_in;
        *n_outp = room - xz->stream.avail_out;
        if (r == LZMA_STREAM_END) {
                *at_borderp = true;
                return begin_stream(xz) ? 0 : UNPACK_E_MALFORMED;
        }
        if (n_in || *n_outp)
                *at_borderp = xz->is_between = false;
        return r == LZMA_OK || r == LZMA_BUF_ERROR ? 0 : UNPACK_E_MALFORMED;
}

const UnpackMethod unpack_xz = { "xz", { 0xFD, '7', 'z', 'X' }, 4, start, stop, step };
