/* SPDX-License-Identifier: Apache-2.0 */
/*
 * example-convert FORM FILE…
 *
 * Turns recordings and profiles into one output, by libspanprof-convert. Writes to standard output.
 */
#include <stdio.h>
#include <string.h>

#include "spanprof-convert.h"

static int write_to(const void *data, size_t size, void *userdata) {
        return fwrite(data, 1, size, userdata) != size;
}

static int say(const spanprof_convert *convert, const char *what) {
        fprintf(stderr, "example-convert: %s: %s\n", what, spanprof_convert_problem(convert));
        return 1;
}

int main(int argc, char **argv) {
        spanprof_convert *convert;
        int status = 0;

        if (argc < 3) {
                fprintf(stderr, "usage: example-convert FORM FILE…\n");
                return 2;
        }
        if (spanprof_convert_open(&convert, NULL)) {
                fprintf(stderr, "example-convert: not enough memory\n");
                return 1;
        }
        for (int i = 2; i < argc; i++)
                if (spanprof_convert_add_file(convert, argv[i]))
                        status = say(convert, argv[i]);
        if (spanprof_convert_write(convert, argv[1], write_to, stdout))
                status = say(convert, argv[1]);
        fputs(spanprof_convert_notices(convert), stderr);
        spanprof_convert_close(convert);
        return status || fflush(stdout);
}
