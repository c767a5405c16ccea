/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares two reports or windows, prints what grew by more than is allowed, and says whether that fails
 * the command.
 */

#include "desk/cli/comparison.h"

#include <string.h>

#include "core/base/terminal/terminal.h"
#include "core/base/util/log.h"
#include "core/base/util/text.h"
#include "desk/cli/inputs.h"
#include "desk/convert/convert.h"
#include "desk/report/diff.h"

int comparison_check(const Config *config, const Report *before, const Report *after) {
        _cleanup_(text_deinit) Text text = { 0 };
        int n;

        if (!inputs_is_set(config, "fail-above"))
                return 0;
        n = report_diff_judge(before, after, (unsigned)config->report.fail_above, &text);
        if (n < 0)
                return n;
        for (char *line = text.data, *end; line && *line; line = end + 1) {
                end = strchr(line, '\n');
                log_write(n ? LOG_LEVEL_ERROR : LOG_LEVEL_NOTICE, "%.*s", (int)(end - line), line);
        }
        if (n == DIFF_NOT_JUDGED)
                return STATUS_FAILURE;
        return n ? STATUS_SLOWER : 0;
}

static int report_of(const Window *window, Symbolizer *symbolizer, bool by_total, Report **reportp) {
        ReportOptions options = { .symbolizer = symbolizer, .by_total = by_total };
        _cleanup_(report_freep) Report *report = NULL;
        int r = report_new(&report, &options);

        if (!r)
                r = report_add(report, window);
        if (!r)
                *reportp = take(report);
        return r;
}

int comparison_check_windows(const Config *config, Symbolizer *symbolizer, const Window *before,
                             const Window *after) {
        _cleanup_(report_freep) Report *left = NULL, *right = NULL;
        bool by_total = !strcmp(config->report.sort, "total");
        int r;

        if (!inputs_is_set(config, "fail-above"))
                return 0;
        r = report_of(before, symbolizer, by_total, &left);
        if (!r)
                r = report_of(after, symbolizer, by_total, &right);
        return r ? r : comparison_check(config, left, right);
}

static int read_window(const char *path, Convert *convert) {
        _cleanup_(source_deinit) Source source = { .fd = -1 };
        _cleanup_(text_deinit) Text problem = { 0 };
        int r = source_open(&source, path, &problem);

        if (!r)
                r = convert_add_source(convert, &source, &problem);
        if (!r)
                r = convert_close(convert);
        if (r > 0 || (!r && !window_n_events(convert->window))) {
                log_error("%s: %s", path, r && problem.data ? problem.data : "holds no event to compare with");
                return STATUS_FAILURE;
        }
        return r;
}

int comparison_read_baseline(const char *path, Symbolizer *symbolizer, Report **reportp) {
        ConvertOptions options = { .end_ns = UINT64_MAX, .filter = { .end_ns = UINT64_MAX },
                                   .version = SPANPROF_VERSION };
        Convert convert = { 0 };
        int r = convert_init(&convert, &options);

        if (!r)
                r = read_window(path, &convert);
        if (!r)
                r = report_of(convert.window, symbolizer, false, reportp);
        convert_deinit(&convert);
        return r;
}

int comparison_print(const Config *config, const Report *before, const Report *after, FILE *out) {
        ReportFormat format = { .top = inputs_is_set(config, "top") ? (uint32_t)config->report.top : 10,
                                .width = cli_output_width(), .n_files = 2 };

        return report_diff_print(before, after, &format, out);
}
