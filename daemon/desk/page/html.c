/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The page: page.html with its style and script, and the packed model as base64 where the template has room
 * for it. Nothing of a recording stands in the file in any other form.
 */
#include <errno.h>
#include <string.h>

#include "core/base/file/gzip.h"
#include "core/base/util/error.h"
#include "desk/page/build.h"
#include "desk/page/page-encode.h"
#include "desk/page/page-html.h"

static void write_base64(const uint8_t *data, size_t size, FILE *out) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        char line[4 * 1024];
        size_t n = 0;

        for (size_t i = 0; i < size; i += 3) {
                uint32_t bits = (uint32_t)data[i] << 16 | (i + 1 < size ? (uint32_t)data[i + 1] << 8 : 0) |
                                (i + 2 < size ? data[i + 2] : 0);

                line[n++] = digits[bits >> 18];
                line[n++] = digits[bits >> 12 & 63];
                line[n++] = i + 1 < size ? digits[bits >> 6 & 63] : '=';
                line[n++] = i + 2 < size ? digits[bits & 63] : '=';
                if (n == sizeof(line)) {
                        fwrite(line, 1, n, out);
                        n = 0;
                }
        }
        fwrite(line, 1, n, out);
}

static int write_model(const PageModel *model, FILE *out) {
        _cleanup_(freep) uint8_t *data = NULL, *packed = NULL;
        size_t size, packed_size;
        int r = page_encode(model, &data, &size);

        if (!r)
                r = gzip_compress(data, size, &packed, &packed_size);
        if (r)
                return error_fold(r);
        fwrite(page_html_head, 1, page_html_head_size, out);
        write_base64(packed, packed_size, out);
        fwrite(page_html_tail, 1, page_html_tail_size, out);
        return 0;
}

int page_write_diff(const Window *before, const Window *after, const PageOptions *options, FILE *out) {
        _cleanup_(page_model_freep) PageModel *model = NULL;
        int r = page_model_new(&model, before, after, options);

        return r ? error_fold(r) : write_model(model, out);
}

int page_write(const Window *window, const PageOptions *options, FILE *out) {
        return page_write_diff(window, NULL, options, out);
}
