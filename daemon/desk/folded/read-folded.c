/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Folded stacks, line by line. They say neither when they were taken nor what a sample stands for. So a
 * sample counts as one of its own type, and the time of a profile made of them is that of the file's last
 * change, or now for a pipe: OTLP has no profile without a time.
 */

#include <inttypes.h>

#include "desk/convert/format.h"
#include "desk/folded/folded.h"

typedef struct Reading {
        Folded folded;
        ConvertLines lines;
} Reading;

static int begin(Convert *convert, Reading *reading) {
        Window *window = convert->window;
        WindowProfileNames names;
        uint32_t resource;
        int r = window_string(window, "samples", 7, &names.type);

        r = r ? r : window_string(window, "count", 5, &names.unit);
        names.period_type = names.type;
        names.period_unit = names.unit;
        r = r ? r : window_resource(window, UINT64_MAX - convert->n_inputs, &resource);
        return r ? r : window_profile_named(window, resource, &names, 0, &reading->folded.profile);
}

static int take_line(void *userdata, const char *line, size_t size) {
        Reading *reading = userdata;
        int r = 0;

        if (!reading->lines.n) {
                size_t bom = folded_bom((const uint8_t *)line, size);

                line += bom;
                size -= bom;
        }
        if (size && *line != '#')
                r = folded_add_line(&reading->folded, line, size);
        return convert_lines_add(&reading->lines, r, FOLDED_E_MALFORMED);
}

static void say_doubts(const Convert *convert, const Source *source, const Folded *folded) {
        if (folded->n_rounded)
                convert_notice(convert,
                               "%s: %" PRIu64 " numbers are not whole, and are rounded: their sum is right within 1",
                               source->name, folded->n_rounded);
        if (folded->n_over)
                convert_notice(convert, "%s: %" PRIu64 " numbers are above 2^63 - 1, and count as that",
                               source->name, folded->n_over);
        if (folded->n_cut)
                convert_notice(convert, "%s: %" PRIu64 " stacks have more than 4,096 frames: the innermost are cut",
                               source->name, folded->n_cut);
}

static int read_folded(Convert *convert, const Source *source, Text *problem) {
        Reading reading = { .folded = { .window = convert->window, .carry = 0.5L } };
        int r = begin(convert, &reading);

        convert->untimed_ns = MAX(convert->untimed_ns, source_time_ns(source));
        if (!r)
                r = source_lines(source, take_line, &reading);
        if (r < 0)
                return r;
        say_doubts(convert, source, &reading.folded);
        return convert_lines_judge(&reading.lines, r, "have no stack and number", problem);
}

static bool recognize(const uint8_t *data, size_t size) {
        return folded_recognize(data, size);
}

const ConvertReader convert_read_folded = { .name = "folded", .recognize = recognize, .read = read_folded };
