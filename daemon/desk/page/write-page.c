/* SPDX-License-Identifier: Apache-2.0 */

/* A page or a picture to look at, with the names that the files of this machine have. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/error.h"
#include "desk/convert/format.h"
#include "desk/page/page.h"

typedef int (*PageWrite)(const Window *window, const PageOptions *options, FILE *out);

static const char *file_name(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash && slash[1] ? slash + 1 : path;
}

static int write_page(const Convert *convert, PageWrite write, ConvertSink sink, void *userdata) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = NULL;
        PageOptions options = convert->page ? *convert->page : (PageOptions){ 0 };
        _cleanup_(freep) char *data = NULL;
        size_t size = 0;
        FILE *out;
        int r = symbolizer_new(&symbolizer, NULL);

        if (r)
                return error_fold(r);
        out = open_memstream(&data, &size);
        if (!out)
                return error_origin(-ENOMEM);
        convert_say_uneven(convert);
        options.symbolizer = symbolizer;
        options.unnamed_title = convert->first_path ? file_name(convert->first_path) : NULL;
        options.operation = convert->options->filter.operation;
        options.userdata = convert->options->filter.userdata;
        r = write(convert->window, &options, out);
        if (fclose(out) && !r)
                r = error_origin(-ENOMEM);
        return r ? r : sink((const uint8_t *)data, size, window_n_events(convert->window), userdata);
}

static int write_html(const Convert *convert, ConvertSink sink, void *userdata, Text *problem) {
        return write_page(convert, page_write, sink, userdata);
}

static int write_svg(const Convert *convert, ConvertSink sink, void *userdata, Text *problem) {
        return write_page(convert, page_write_svg, sink, userdata);
}

const ConvertWriter convert_write_html = {
        .name = "html", .suffixes = ".html .htm", .times = true, .write = write_html
};
const ConvertWriter convert_write_svg = { .name = "svg", .suffixes = ".svg", .write = write_svg };
