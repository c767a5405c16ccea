/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/input.h"
#include "otlp/decode.h"
#include "otlp/import.h"
#include "report/raw.h"
#include "report/report.h"
#include "util/file.h"
#include "util/log.h"

enum {
        MAX_SPANS_BYTES = 1 << 30,
        WHERE_MAX = 256,
};

typedef struct ReportRun {
        const Config *config;
        Report *report;                 /* NULL with --raw */
        size_t n_files;                 /* read without a mistake */
        bool many;                      /* more than one file was named */
        Input input;
} ReportRun;

static int decode(const char *name, const char *data, size_t size, OtlpRequest **requestp) {
        static const char *const texts[] = {
                [OTLP_DECODE_E_TOO_LARGE] = "would take too much memory",
                [OTLP_DECODE_E_TOO_DEEP] = "is nested too deeply",
                [OTLP_DECODE_E_MALFORMED] = "is no profiles file (OTLP protobuf or JSON), or was cut off",
        };
        char where[WHERE_MAX] = "";
        int r = otlp_decode_request((const uint8_t *)data, size, requestp, where, sizeof(where));

        return r > 0 ? input_mistake(name, texts[r], where) : r;
}

static int add_request(ReportRun *run, const char *name, const OtlpRequest *request) {
        _cleanup_(window_freep) Window *window = NULL;
        char where[WHERE_MAX] = "";
        int r = otlp_import(&window, &request, 1, NULL, where, sizeof(where));

        if (r > 0)
                return input_mistake(name, "is no sound profiles file", where);
        if (r)
                return r;
        return report_add(run->report, window);
}

static int print_raw(const ReportRun *run, const char *name, const OtlpRequest *request) {
        bool titled = run->many || strchr(name, ',');

        if (titled)
                printf("%s:\n", name);
        raw_print(request, titled ? 2 : 0, stdout);
        return 0;
}

static int add_document(ReportRun *run, const char *name, const char *data, size_t size) {
        _cleanup_(otlp_request_freep) OtlpRequest *request = NULL;
        int r = decode(name, data, size, &request);

        if (r)
                return r;
        if (!request->n_resource_profiles && !request->dictionary)
                return input_mistake(name, "has no profiles in it", NULL);
        return run->report ? add_request(run, name, request) : print_raw(run, name, request);
}

static int add_documents(ReportRun *run, const char *name, const char *data, size_t size) {
        char numbered[PATH_MAX + 32];

        for (unsigned n = 1; size; n++) {
                size_t first = otlp_document_size((const uint8_t *)data, size);
                int r;

                snprintf(numbered, sizeof(numbered), "%s, document %u", name, n);
                r = add_document(run, n == 1 && first == size ? name : numbered, data, first);
                if (r)
                        return r;
                data += first;
                size -= first;
        }
        return 0;
}

/* Return: 0, STATUS_FAILURE after a message, -ENOMEM. */
static int add_file(ReportRun *run, const char *argument) {
        const char *name = input_name(argument);
        _cleanup_(freep) char *data = NULL;
        size_t size;
        int r = input_read(&run->input, argument, &data, &size);

        if (!r)
                r = add_documents(run, name, data, size);
        run->n_files += !r;
        return r;
}

static int add_files(ReportRun *run, const Cli *cli) {
        int status = STATUS_OK;

        run->many = cli->n_arguments > 1;
        for (int i = 0; i < cli->n_arguments; i++) {
                int r = add_file(run, cli->arguments[i]);

                if (r < 0)
                        return r;
                if (r)
                        status = r;
        }
        return status;
}

static int read_spans(const char *path, SpanList **listp) {
        _cleanup_(freep) char *data = NULL;
        SpanListProblem problem;
        size_t size;
        int r = file_read(path, MAX_SPANS_BYTES, &data, &size);

        if (r == FILE_E_UNREADABLE)
                return input_mistake(path, "cannot be read", strerror(errno));
        if (r == FILE_E_TOO_LARGE)
                return input_mistake(path, "is larger than 1 GiB", NULL);
        if (!r)
                r = span_list_new(listp, data, size, &problem);
        if (r == SPAN_LIST_E_INVALID) {
                log_error("%s:%lu: %s", path, (unsigned long)problem.line, problem.text);
                return STATUS_FAILURE;
        }
        return r;
}

static int print_report(const ReportRun *run) {
        ReportFormat format = { .top = (uint32_t)run->config->top, .width = cli_output_width(), .n_files = run->n_files };

        if (run->config->json)
                return report_print_json(run->report, &format, stdout);
        return report_print(run->report, &format, stdout);
}

static int make_report(ReportRun *run, const Cli *cli) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = NULL;
        _cleanup_(span_list_freep) SpanList *spans = NULL;
        _cleanup_(report_freep) Report *report = NULL;
        ReportOptions options = { .pids = cli->config.pids.items, .n_pids = cli->config.pids.n_items,
                                  .names = cli->config.comms.items, .n_names = cli->config.comms.n_items };
        int r = *cli->config.spans ? read_spans(cli->config.spans, &spans) : 0, status;

        if (!r)
                r = symbolizer_new(&symbolizer, NULL);
        options.symbolizer = symbolizer;
        options.spans = spans;
        if (!r)
                r = report_new(&report, &options);
        if (r)
                return r;
        run->report = report;
        status = add_files(run, cli);
        if (status < 0 || !run->n_files)
                return status;
        r = print_report(run);
        return r ? r : status;
}

static int check_options(const Config *config) {
        if (!config->raw)
                return 0;
        if (config->json || *config->spans || config->pids.n_items || config->comms.n_items) {
                log_error("--raw prints files as they are: it goes with no other option");
                return STATUS_USAGE;
        }
        return 0;
}

static int run(Cli *cli) {
        ReportRun run = { .config = &cli->config };
        int r = check_options(&cli->config);

        if (r)
                return r;
        r = cli->config.raw ? add_files(&run, cli) : make_report(&run, cli);
        if (r < 0) {
                log_error("cannot report: %s", strerror(-r));
                return STATUS_FAILURE;
        }
        return r;
}

const Verb verb_report = {
        .name = "report",
        .bit = VERB_REPORT,
        .arguments = "FILE…",
        .min_arguments = 1,
        .max_arguments = INT_MAX,
        .summary = "print OTLP profiles files for people",
        .description =
                "Reads OTLP profiles requests, protobuf or JSON by content, and prints what they say: how much was\n"
                "sampled and how well, and the functions, stacks and spans that it fell into. Several files are\n"
                "summed up; `-` is standard input; a profile that is in two files counts once.\n"
                "Native frames get names from files of this machine (.symtab, .dynsym, debug files) that have the\n"
                "build id of the profile. With --spans, samples are joined with the operations of their spans.\n"
                "\n"
                "  spanprof report profiles/*.pb                  what was hot\n"
                "  spanprof report --spans spans.csv *.pb         … by operation\n"
                "  spanprof report --pid 812 --top 50 *.pb        one process\n"
                "  spanprof report --raw 000001.pb                every field, for debugging payloads\n",
        .run = run,
};
