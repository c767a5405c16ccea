/* SPDX-License-Identifier: Apache-2.0 */

/* A file for speedscope that somebody made: what is read is a window that closes. */

#include <stdlib.h>
#include <string.h>

#include "desk/convert/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ignore(const char *text, void *userdata) {
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const ConvertOptions options = { .notice = ignore };
        /* not opened: source_open_memory() unpacks, and fuzzers of the formats do that */
        Source source = { .name = "x", .fd = -1, .data = (uint8_t *)data, .size = size };
        Convert convert = { .options = &options };
        Text problem = { 0 };
        int r;

        if (window_new(&convert.window, 0, 0, NULL))
                abort();
        convert_read_speedscope.recognize(data, size);
        r = convert_read_speedscope.read(&convert, &source, &problem);
        if (r < 0 || (r == CONVERT_E_INPUT) != (problem.size > 0))
                abort();
        if (window_close(convert.window, 1))
                abort();
        window_free(convert.window);
        text_deinit(&problem);
        return 0;
}
