/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes the page of the differences between two profiles, for tests of the page alone.
 *
 * usage: write-diff BEFORE AFTER [COVERAGE] > PAGE.html
 */

#include <stdio.h>
#include <stdlib.h>

#include "convert-file.h"
#include "desk/page/page.h"

static int read_input(Convert *convert, const ConvertOptions *options, const char *path) {
        Text problem = { 0 };
        int r = convert_init(convert, options);

        if (!r)
                r = convert_file(convert, path, &problem);
        if (!r)
                r = convert_close(convert);
        if (r)
                fprintf(stderr, "%s: %s\n", path, problem.data ? problem.data : "cannot be read");
        text_deinit(&problem);
        return r;
}

int main(int argc, char **argv) {
        ConvertOptions options = { .end_ns = UINT64_MAX, .timestamps = true, .timestamps_asked = true };
        const PageOptions page = { .title = "write-diff", .baseline = "monday", .comparison = "tuesday",
                                   .coverage = argc > 3 ? atof(argv[3]) : 0 };
        Convert before = { 0 }, after = { 0 };
        int r;

        if (argc < 3 || argc > 4)
                return 2;
        r = read_input(&before, &options, argv[1]);
        if (!r)
                r = read_input(&after, &options, argv[2]);
        if (!r)
                r = page_write_diff(before.window, after.window, &page, stdout);
        convert_deinit(&before);
        convert_deinit(&after);
        return r || ferror(stdout) ? 1 : 0;
}
