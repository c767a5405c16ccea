/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compresses and expands zstd, whole and as a stream for unpack.c. A whole buffer has its size beforehand;
 * a stream's window has a cap.
 */

#include "core/base/file/zstd.h"

#include <errno.h>
#include <zstd.h>

#include "core/base/file/unpack.h"
#include "core/base/util/error.h"

enum {
        MAX_WINDOW_LOG = 27,            /* 128 MiB: what `zstd -d` takes without --long */
        LEVEL = 3,                      /* zstd's own default */
};

int zstd_compress(const void *data, size_t size, uint8_t **datap, size_t *sizep) {
        size_t room = ZSTD_compressBound(size), n;
        _cleanup_(freep) uint8_t *to = malloc(room);

        if (!to)
                return error_origin(-ENOMEM);
        n = ZSTD_compress(to, room, data, size, LEVEL);
        if (ZSTD_isError(n))
                return error_origin(-ENOMEM);
        *sizep = n;
        *datap = take(to);
        return 0;
}

int zstd_expand(const void *data, size_t size, size_t expected, uint8_t **datap) {
        _cleanup_(freep) uint8_t *to = malloc(expected ? expected : 1);

        if (!to)
                return error_origin(-ENOMEM);
        if (ZSTD_decompress(to, expected, data, size) != expected)
                return ZSTD_E_MALFORMED;
        *datap = take(to);
        return 0;
}

static void *start(void) {
        ZSTD_DCtx *context = ZSTD_createDCtx();

        if (context)
                ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, MAX_WINDOW_LOG);
        return context;
}

static void stop(void *state) {
        ZSTD_freeDCtx(state);
}

static int step(void *state, const uint8_t **inp, size_t *n_inp, uint8_t *out, size_t *n_outp,
                bool *at_borderp) {
        ZSTD_inBuffer from = { *inp, *n_inp, 0 };
        ZSTD_outBuffer to = { out, *n_outp, 0 };
        size_t r = ZSTD_decompressStream(state, &to, &from);

        *inp += from.pos;
        *n_inp -= from.pos;
        *n_outp = to.pos;
        if (ZSTD_isError(r))
                return UNPACK_E_MALFORMED;
        /* without input and output nothing was begun: still at the border where it was */
        if (from.pos || to.pos)
                *at_borderp = r == 0;
        return 0;
}

const UnpackMethod unpack_zstd = { "zstd", { 0x28, 0xB5, 0x2F, 0xFD }, 4, start, stop, step };
