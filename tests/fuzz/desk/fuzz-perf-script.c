/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Text of perf that somebody else wrote: the events are the samples that were counted, and a line that is
 * refused adds none.
 */

#include <stdlib.h>
#include <string.h>

#include "desk/folded/perf-script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *at = (const char *)data, *end = at + size;
        PerfScript *script = calloc(1, sizeof(*script));
        Window *window;

        if (!script || window_new(&window, 0, 0, NULL))
                abort();
        script->window = window;
        perf_script_recognize(data, size);
        while (at < end) {
                const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
                uint64_t before = script->n_samples;
                int r = perf_script_add_line(script, at, (size_t)(stop - at));

                if (r < 0 || (r == PERF_SCRIPT_E_MALFORMED && script->n_samples != before))
                        abort();
                at = stop + 1;
        }
        if (perf_script_end(script) < 0 || window_close(window, 1) ||
            window_n_events(window) != script->n_samples)
                abort();
        window_free(window);
        free(script);
        return 0;
}
