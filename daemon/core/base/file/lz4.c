/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Expands lz4 frames as a stream, for unpack.c: liblz4 says with each step whether a frame has ended.
 */

#include <lz4frame.h>

#include "core/base/file/unpack.h"

static void *start(void) {
        LZ4F_dctx *context;

        return LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)) ? NULL : context;
}

static void stop(void *state) {
        LZ4F_freeDecompressionContext(state);
}

static int step(void *state, const uint8_t **inp, size_t *n_inp, uint8_t *out, size_t *n_outp,
                bool *at_borderp) {
        size_t n_in = *n_inp, r;

        r = LZ4F_decompress(state, out, n_outp, *inp, &n_in, NULL);
        if (LZ4F_isError(r)) {
                *n_outp = 0;
                return UNPACK_E_MALFORMED;
        }
        *inp += n_in;
        *n_inp -= n_in;
        if (n_in || *n_outp)
                *at_borderp = r == 0;
        return 0;
}

const UnpackMethod unpack_lz4 = { "lz4", { 0x04, 0x22, 0x4D, 0x18 }, 4, start, stop, step };
