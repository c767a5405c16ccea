/* SPDX-License-Identifier: Apache-2.0 */

/* Folded stacks, line by line. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "convert/convert.h"
#include "convert/folded.h"
#include "util/error.h"

enum { PIECE = 1 << 20 };

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

static int take_line(Reading *reading, const char *line, size_t size) {
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

/* A line of more than PIECE bytes is taken in parts, of which none is a stack with a number but perhaps the last. */
static int take_lines(Reading *reading, const Source *source, char *buffer) {
        uint64_t offset = 0;
        int r = 0;

        while (!r && offset < source->size) {
                size_t n = source_read(source, buffer, PIECE, offset), used = 0;
                char *newline;

                if (!n)
                        break;
                while (!r && (newline = memchr(buffer + used, '\n', n - used))) {
                        r = take_line(reading, buffer + used, (size_t)(newline - buffer) - used);
                        used = (size_t)(newline - buffer) + 1;
                }
                if (!r && !used) {
                        r = take_line(reading, buffer, n);
                        used = n;
                }
                offset += used;
        }
        return r;
}

static int read_folded(Convert *convert, const Source *source, Text *problem) {
        Reading reading = { .window = convert->window };
        _cleanup_(freep) char *buffer = malloc(PIECE);
        int r = buffer ? begin(convert, &reading) : error_origin(-ENOMEM);

        if (!r)
                r = take_lines(&reading, source, buffer);
        if (r < 0)
                return r;
        if (r)
                text_printf(problem, "more than a profile can hold: what came first is in it");
        else if (reading.n_malformed)
                text_printf(problem, "%" PRIu64 " lines have no stack and number and were left out, line %" PRIu64 " first",
                            reading.n_malformed, reading.first_malformed);
        return r || reading.n_malformed ? CONVERT_E_INPUT : 0;
}

static bool recognize(const uint8_t *data, size_t size) {
        return folded_recognize(data, size);
}

const ConvertReader convert_read_folded = { .name = "folded", .recognize = recognize, .read = read_folded };
