/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CPU time from a window in memory to a page, as after a recording: no reading of a file is in it.
 *
 * usage: page-cost FILE [ROUNDS]        prints `N events, reading N ms, writing N ms` (of the rounds the
 * lowest)
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/util/clock.h"
#include "../../harness/c/convert-file.h"
#include "desk/page/page.h"

static uint64_t cpu_ns(void) {
        return clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static int write_once(const Window *window, uint64_t *lowestp) {
        uint64_t begin_ns = cpu_ns();
        FILE *out = fopen("/dev/null", "we");
        int r;

        if (!out)
                return 1;
        r = page_write(window, NULL, out);
        if (fclose(out) || r)
                return 1;
        *lowestp = MIN(*lowestp, cpu_ns() - begin_ns);
        return 0;
}

int main(int argc, char **argv) {
        ConvertOptions options = { .end_ns = UINT64_MAX, .timestamps = true, .timestamps_asked = true };
        uint64_t begin_ns = cpu_ns(), read_ns, lowest_ns = UINT64_MAX;
        Convert convert = { 0 };
        Text problem = { 0 };
        int r = argc < 2 ? 1 : convert_init(&convert, &options);

        if (!r)
                r = convert_file(&convert, argv[1], &problem);
        if (!r)
                r = convert_close(&convert);
        read_ns = cpu_ns() - begin_ns;
        for (int i = argc > 2 ? atoi(argv[2]) : 1; i > 0 && !r; i--)
                r = write_once(convert.window, &lowest_ns);
        if (!r)
                printf("%" PRIu64 " events, reading %.0f ms, writing %.0f ms\n",
                       window_n_events(convert.window), (double)read_ns / NS_PER_MS,
                       (double)lowest_ns / NS_PER_MS);
        convert_deinit(&convert);
        text_deinit(&problem);
        return r ? 1 : 0;
}
