/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A profile.proto that somebody else wrote: whatever of it is taken must make a window that can be closed,
 * copied whole and filtered, with as many events.
 */

#include <stdlib.h>

#include "core/profile/copy.h"
#include "desk/pprof/pprof.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const WindowLimits limits = {
        .max_strings = 4096,
        .max_modules = 256,
        .max_functions = 4096,
        .max_frames = 4096,
        .max_stacks = 4096,
        .max_links = 256,
        .max_attributes = 4096,
        .max_samples = 4096,
        .max_resources = 64,
        .max_times = 4096,
        .max_bytes = 16 << 20,
};

static void check_copies(const Window *window) {
        static char word[] = "*1*";
        static char *const words[] = { word };
        const FilterOptions filter = { .threads = { words, 1 }, .end_ns = UINT64_MAX };
        CopyOptions options = { .limits = &limits };
        CopyCounts counts;
        Window *copy;

        if (window_copy(&copy, window, &options, &counts) ||
            window_n_events(copy) != window_n_events(window) || counts.n_kept != window_n_events(window))
                abort();
        window_free(copy);
        options.filter = &filter;
        if (window_copy(&copy, window, &options, &counts) ||
            counts.n_kept + counts.n_filtered != window_n_events(window))
                abort();
        window_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        PprofResult result;
        Text problem = { 0 };
        Window *window;
        int r;

        if (window_new(&window, 0, 0, &limits))
                abort();
        pprof_recognize(data, size);
        r = pprof_import(window, data, size, 1, true, &result, &problem);
        if (r < 0 || (r > 0 && !problem.size))
                abort();
        if (window_close(window, result.end_ns))
                abort();
        check_copies(window);
        window_free(window);
        text_deinit(&problem);
        return 0;
}
