/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Folded stacks that somebody else wrote: read line by line, the events are the lines that were taken.
 */

#include <stdlib.h>
#include <string.h>

#include "desk/folded/folded.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *at = (const char *)data, *end = at + size;
        WindowProfileNames names = { 0 };
        Folded folded = { .carry = 0.5L };
        uint32_t resource;
        uint64_t n_taken = 0;
        Window *window;

        if (window_new(&window, 0, 0, NULL) || window_resource(window, 1, &resource) ||
            window_profile_named(window, resource, &names, 0, &folded.profile))
                abort();
        folded.window = window;
        folded_recognize(data, size);
        while (at < end) {
                const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
                uint64_t before = window_n_events(window);
                int r = folded_add_line(&folded, at, (size_t)(stop - at));

                if (r < 0 || (r == FOLDED_E_MALFORMED && window_n_events(window) != before))
                        abort();
                n_taken += window_n_events(window) - before;
                at = stop + 1;
        }
        if (window_close(window, 1) || window_n_events(window) != n_taken)
                abort();
        window_free(window);
        return 0;
}
