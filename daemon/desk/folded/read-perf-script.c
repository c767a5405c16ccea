/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads what `perf script` prints. A profile made of it has the time of the file's last change, or now for a
 * pipe: perf's clock begins when the machine does.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/base/util/error.h"
#include "desk/convert/format.h"
#include "desk/folded/perf-script.h"

typedef struct Reading {
        PerfScript *script;
        ConvertLines lines;
} Reading;

static int take_line(void *userdata, const char *line, size_t size) {
        Reading *reading = userdata;

        return convert_lines_add(&reading->lines, perf_script_add_line(reading->script, line, size),
                                 PERF_SCRIPT_E_MALFORMED);
}

static void say_doubts(const Convert *convert, const Source *source, const PerfScript *script) {
        if (script->n_cut)
                convert_notice(convert, "%s: %" PRIu64 " stacks have more than 4,096 frames: the outermost are cut",
                               source->name, script->n_cut);
        if (script->n_over)
                convert_notice(convert, "%s: %" PRIu64 " periods are above 2^63 - 1, and count as that",
                               source->name, script->n_over);
}

static int read_perf_script(Convert *convert, const Source *source, Text *problem) {
        _cleanup_(freep) PerfScript *script = calloc(1, sizeof(*script));
        Reading reading = { .script = script };
        int r;

        if (!script)
                return error_origin(-ENOMEM);
        script->window = convert->window;
        script->key = UINT64_MAX - convert->n_inputs;
        convert->untimed_ns = MAX(convert->untimed_ns, source_time_ns(source));
        r = source_lines(source, take_line, &reading);
        if (!r)
                r = perf_script_end(script);
        if (r < 0)
                return r;
        say_doubts(convert, source, script);
        return convert_lines_judge(&reading.lines, r, "are neither a sample nor a frame of perf script,",
                                   problem);
}

static bool recognize(const uint8_t *data, size_t size) {
        return perf_script_recognize(data, size);
}

const ConvertReader convert_read_perf_script = {
        .name = "perf script", .recognize = recognize, .read = read_perf_script
};
