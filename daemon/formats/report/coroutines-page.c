/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A report of coroutines as one page without network. The data is the JSON of the report, with a timeline for
 * each coroutine; it stands in an element that is no script, holds no `<`, and reaches the page as text
 * alone.
 */
#include "formats/report/coroutines-page.h"

#include "base/util/error.h"
#include "formats/report/coroutines-json.h"

int coroutine_report_print_page(CoroutineReport *report, const CoroutineFormat *format, FILE *out) {
        JsonWriter json = { .out = out, .in_markup = true };
        CoroutineFormat all = *format;
        int r;

        all.top = COROUTINES_MAX_TIMELINES;
        fwrite(coroutines_html_head, 1, coroutines_html_head_size, out);
        r = coroutines_write_json(&json, report, &all, true);
        fwrite(coroutines_html_tail, 1, coroutines_html_tail_size, out);
        return r ? error_fold(r) : 0;
}
