/* SPDX-License-Identifier: Apache-2.0 */
#include <zstd.h>

#include "util/unpack.h"

enum { MAX_WINDOW_LOG = 27 };           /* 128 MiB: what `zstd -d` takes without --long */

static void *start(void) {
        ZSTD_DCtx *context = ZSTD_createDCtx();

        if (context)
                ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, MAX_WINDOW_LOG);
        return context;
}

static void stop(void *state) {
        ZSTD_freeDCtx(state);
}

static int step(void *state, const uint8_t **inp, size_t *n_inp, uint8_t *out, size_t *n_outp, bool *at_borderp) {
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
