/* SPDX-License-Identifier: Apache-2.0 */

/* Folded stacks, line by line. */

#include <inttypes.h>

#include "formats/convert/format.h"
#include "formats/folded/folded.h"

typedef struct Reading {
        Window *window;
        uint32_t profile;
        uint64_t n_lines, n_malformed, first_malformed;
} Reading;

static int begin(Convert *convert, Reading *reading) {
        Window *window = convert->window;
        WindowProfileNames names = { 0 };
        uint32_t resource;
        int r = window_string(window, "samples", 7, &names.type);

        r = r ? r : window_string(window, "count", 5, &names.unit);
        r = r ? r : window_resource(window, UINT64_MAX - convert->n_inputs, &resource);
        return r ? r : window_profile_named(window, resource, &names, 0, &reading->profile);
}

static int take_line(void *userdata, const char *line, size_t size) {
        Reading *reading = userdata;
        int r;

        reading->n_lines++;
        if (!size || *line == '#')
                return 0;
        r = folded_add_line(reading->window, reading->profile, line, size);
        if (r != FOLDED_E_MALFORMED)
                return r;
        if (!reading->n_malformed++)
                reading->first_malformed = reading->n_lines;
        return 0;
}

static int read_folded(Convert *convert, const Source *source, Text *problem) {
        Reading reading = { .window = convert->window };
        int r = begin(convert, &reading);

        if (!r)
                r = source_lines(source, take_line, &reading);
        if (r < 0)
                return r;
        if (r)
                text_printf(problem, "more than a profile can hold: what came first is in it");
        else if (reading.n_malformed)
                text_printf(problem,
                            "%" PRIu64 " lines have no stack and number and were left out, line %" PRIu64
                            " first",
                            reading.n_malformed, reading.first_malformed);
        return r || reading.n_malformed ? CONVERT_E_INPUT : 0;
}

static bool recognize(const uint8_t *data, size_t size) {
        return folded_recognize(data, size);
}

const ConvertReader convert_read_folded = { .name = "folded", .recognize = recognize, .read = read_folded };
