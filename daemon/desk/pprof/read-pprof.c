/* SPDX-License-Identifier: Apache-2.0 */

/* pprof (profile.proto; a source has unpacked it already). */

#include <inttypes.h>
#include <stdlib.h>

#include "desk/convert/format.h"
#include "desk/pprof/pprof.h"

#define MAX_BYTES ((size_t)1 << 30)

static int read_pprof(Convert *convert, const Source *source, Text *problem) {
        _cleanup_(freep) uint8_t *data = NULL;
        PprofResult result;
        size_t size;
        int r = convert_read_all(source, MAX_BYTES, &data, &size, problem);

        if (r)
                return r;
        r = pprof_import(convert->window, data, size, convert->n_inputs, &result, problem);
        if (r < 0)
                return r;
        if (result.end_ns > result.start_ns)
                convert_cover(convert, result.start_ns, result.end_ns);
        if (!r && result.n_dropped)
                text_printf(problem,
                            "%" PRIu64
                            " of its samples refer to what the file does not have and were left out",
                            result.n_dropped);
        return r || result.n_dropped ? CONVERT_E_INPUT : 0;
}

const ConvertReader convert_read_pprof = { .name = "pprof",
                                           .recognize = pprof_recognize,
                                           .read = read_pprof };
