/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The page: page.html with its style and script, and the packed model as base64 where the template has room
 * for it. Nothing that a stranger wrote stands in the file in any other form.
 */
#include <errno.h>
#include <string.h>

#include "base/util/error.h"
#include "base/util/gzip.h"
#include "formats/page/page-private.h"

enum { TITLE_PROCESSES = 3 };

/*
 * The value of the dimension of processes that has the most samples of those not in @said yet; 0 = no more.
 */
static uint32_t largest_process(const PageModel *model, const uint64_t *sums, const uint32_t *said,
                                uint32_t n_said) {
        uint32_t best = 0;

        for (uint32_t i = 2; i < model->dimensions[DIMENSION_PROCESS].values.n_items; i++) {
                bool is_said = false;

                for (uint32_t j = 0; j < n_said; j++)
                        is_said |= said[j] == i;
                if (!is_said && (!best || sums[i] > sums[best]))
                        best = i;
        }
        return best;
}

/* The processes with the most samples, as many as fit a line. */
static int put_processes(const PageModel *model, Text *title) {
        const PageDimension *processes = &model->dimensions[DIMENSION_PROCESS];
        _cleanup_(freep) uint64_t *sums = calloc(processes->values.n_items, sizeof(*sums));
        uint32_t said[TITLE_PROCESSES], n = processes->values.n_items - 2;

        if (!sums)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < model->n_rows; i++) {
                const PageContext *context = page_get_context(model, model->rows[i].context);

                if (context->kind == page_main_kind(model))
                        sums[context->values[DIMENSION_PROCESS]] += model->rows[i].value;
        }
        for (uint32_t i = 0; i < MIN(n, (uint32_t)TITLE_PROCESSES); i++) {
                said[i] = largest_process(model, sums, said, i);
                text_printf(title, "%s%s", i ? ", " : "", page_get_string(model, processes->labels[said[i]]));
        }
        if (n > TITLE_PROCESSES)
                text_printf(title, " and %u more", n - TITLE_PROCESSES);
        return 0;
}

int page_title(const PageModel *model, Text *title) {
        int r = 0;

        if (model->options->title)
                text_append_masked(title, model->options->title);
        else
                r = put_processes(model, title);
        return !r && title->failed ? error_origin(-ENOMEM) : r;
}

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
