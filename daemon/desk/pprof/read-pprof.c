/* SPDX-License-Identifier: Apache-2.0 */

/* pprof (profile.proto; a source has unpacked it already). */

#include <inttypes.h>
#include <stdlib.h>

#include "desk/convert/format.h"
#include "desk/pprof/pprof.h"

#define MAX_BYTES ((size_t)1 << 30)

/* Tells of all that the file says and that no profile here has. */
static void say_doubts(const Convert *convert, const Source *source, const PprofResult *result) {
        if (result->n_negative)
                convert_notice(convert,
                               "%s: %" PRIu64
                               " values are below zero, as in a difference of two profiles, and are left out:"
                               " the sums lack them; convert keeps them in pprof and OTLP, and report --diff compares two"
                               " files",
                               source->name, result->n_negative);
        if (result->hides_unknown)
                convert_notice(convert,
                               "%s: its drop_frames are not applied, since the expression is not understood:"
                               " functions are shown that go tool pprof hides",
                               source->name);
        if (result->n_labels_cut)
                convert_notice(convert, "%s: %" PRIu64 " labels are left out: their samples have too many",
                               source->name, result->n_labels_cut);
}

static int read_pprof(Convert *convert, const Source *source, Text *problem) {
        _cleanup_(freep) uint8_t *data = NULL;
        PprofResult result;
        size_t size;
        int r = convert_read_all(source, MAX_BYTES, &data, &size, problem);

        if (r)
                return r;
        r = pprof_import(convert->window, data, size, convert->n_inputs, convert->options->below_zero,
                         &result, problem);
        if (r < 0)
                return r;
        if (result.end_ns > result.start_ns)
                convert_cover(convert, result.start_ns, result.end_ns);
        say_doubts(convert, source, &result);
        if (!r && result.n_dropped)
                text_printf(problem,
                            "%" PRIu64
                            " of its samples refer to what the file does not have and were left out",
                            result.n_dropped);
        if (!r && result.n_deep)
                text_printf(problem, "%s%" PRIu64 " of its samples have more than %d frames and were left out",
                            problem->size ? "; " : "", result.n_deep, WINDOW_MAX_DEPTH);
        return r || result.n_dropped || result.n_deep ? CONVERT_E_INPUT : 0;
}

const ConvertReader convert_read_pprof = { .name = "pprof",
                                           .recognize = pprof_recognize,
                                           .read = read_pprof };
