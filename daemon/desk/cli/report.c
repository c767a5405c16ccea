/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `report`: reads its inputs into a report or a window, chooses the form by options and suffix, and prints
 * tables, a page, a comparison or an annotated source.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/data/heap.h"
#include "core/base/file/outfile.h"
#include "core/base/terminal/terminal.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/text.h"
#include "desk/cli/comparison.h"
#include "desk/cli/inputs.h"
#include "desk/cli/line-options.h"
#include "desk/cli/outputs.h"
#include "desk/cli/remote-symbols.h"
#include "desk/cli/report-process.h"
#include "desk/cli/report-trace.h"
#include "desk/page/page.h"
#include "desk/report/annotate.h"
#include "desk/report/diff.h"
#include "desk/report/report.h"
#include "host/cli/cli.h"

/* Forms of a report: two for people, one for programs, the page, or the form of a writer. */
typedef enum Form { FORM_TEXT, FORM_MARKDOWN, FORM_JSON, FORM_PAGE, FORM_WRITER } Form;

typedef struct ReportRun {
        const Config *config;
        Form form;
        const ConvertWriter *writer;    /* set for FORM_WRITER */
        Inputs inputs;
        Symbolizer *symbolizer;
        RemoteSymbols remote;
        Report *report, *before;        /* before: of --diff */
        ReportTraces traces;            /* traces of coroutines */
        ReportProcess *process;         /* the running process that the report is about */
        size_t n_profiles;              /* inputs that are no traces */
        char *source;                   /* of --annotate, owned, and the lines around each with a sample */
        uint32_t context;
        FILE *out;
        Outfile file;                   /* destination of `out`, if that is a file */
        uint64_t n_repeated, n_filtered, n_untimed;
} ReportRun;

/* Forms */

static bool has_suffix(const char *path, const char *suffix) {
        size_t size = strlen(path), n = strlen(suffix);

        return size >= n && !strcmp(path + size - n, suffix);
}

static int find_form(ReportRun *run) {
        const char *output = run->config->command.output, *format = run->config->command.format;
        bool by_suffix = !strcmp(format, "auto");

        run->form = FORM_WRITER;
        if (run->config->command.json || !strcmp(format, "json") ||
            (by_suffix && has_suffix(output, ".json") && !has_suffix(output, ".speedscope.json") &&
             !has_suffix(output, ".firefox.json")))
                run->form = FORM_JSON;
        else if (!strcmp(format, "markdown") || (by_suffix && has_suffix(output, ".md")))
                run->form = FORM_MARKDOWN;
        else if (!strcmp(format, "text") ||
                 (by_suffix && (!*output || !strcmp(output, "-") || has_suffix(output, ".txt"))))
                run->form = FORM_TEXT;
        if (run->form != FORM_WRITER)
                return 0;
        run->writer = outputs_find_writer(*output ? output : "-", format);
        return run->writer ? 0 : STATUS_USAGE;
}

/* A reader that left by itself, as of `spanprof report FILE | head`, needs no message. */
static int cannot_write(const ReportRun *run, int r) {
        if (r == -EPIPE && (!*run->config->command.output || !strcmp(run->config->command.output, "-")))
                return STATUS_FAILURE;
        log_error("%s: cannot be written: %s", *run->config->command.output ? run->config->command.output : "standard output",
                  outfile_problem(r));
        return STATUS_FAILURE;
}

/* Opens the output. A file appears under its name only when it is whole. */
static int open_output(ReportRun *run) {
        OutfileOptions options = { .mode = 0666, .readers = run->inputs.readers, .for_caller = true };
        const char *path = run->config->command.output;
        int fd, r;

        run->out = stdout;
        if (!*path || !strcmp(path, "-"))
                return 0;
        r = outfile_open(&run->file, path, &options);
        if (r)
                return cannot_write(run, r);
        fd = fcntl(run->file.fd, F_DUPFD_CLOEXEC, 0);
        run->out = fd < 0 ? NULL : fdopen(fd, "w");
        if (run->out)
                return 0;
        r = -errno;
        closep(&fd);
        return cannot_write(run, r);
}

static int close_output(ReportRun *run) {
        FILE *out = take(run->out);
        int r = 0;

        if (fflush(out) || ferror(out))
                r = errno ? -errno : -EIO;
        if (out != stdout && fclose(out) && !r)
                r = -errno;
        if (!r)
                r = outfile_finish(&run->file);
        return r ? cannot_write(run, r) : 0;
}

/* Drops an unfinished output; an earlier file of that name stays. */
static void drop_output(ReportRun *run) {
        if (run->out && run->out != stdout)
                fclose(run->out);
        outfile_deinit(&run->file);
}

/* Reports: each input is a window of its own, so that memory does not grow with their number. */

static void note_counts(ReportRun *run, const Convert *convert) {
        run->n_repeated += convert->n_repeated;
        run->n_filtered += convert->counts.n_filtered;
        run->n_untimed += convert->counts.n_untimed;
}

static int add_input(ReportRun *run, size_t index) {
        _cleanup_(source_deinit) Source source = { .fd = -1 };
        Convert convert = { 0 };
        int r = inputs_open(&run->inputs, index, &source);

        if (r)
                return MIN(r, 0);
        if (report_is_trace(&source))
                return report_add_trace(&run->traces, &run->inputs, &source, run->symbolizer);
        run->n_profiles++;
        r = convert_init(&convert, &run->inputs.options);
        if (!r)
                r = inputs_add_source(&run->inputs, &source, &convert);
        if (!r) {
                inputs_fix_times(&run->inputs, &convert);
                r = convert_close(&convert);
        }
        if (!r)
                r = report_add(run->report, convert.window);
        note_counts(run, &convert);
        convert_deinit(&convert);
        return r;
}

static int print_profiles(const ReportRun *run) {
        ReportFormat format = { .top = (uint32_t)run->config->report.top,
                                .width = cli_output_width(),
                                .markdown = run->form == FORM_MARKDOWN,
                                .explain = run->config->report.explain,
                                .n_files = run->inputs.n_read + run->inputs.n_partly - run->traces.n_files,
                                .n_repeated = run->n_repeated,
                                .n_filtered = run->n_filtered,
                                .n_untimed = run->n_untimed };

        if (run->before && run->form == FORM_JSON)
                return report_diff_print_json(run->before, run->report, &format, run->out);
        if (run->before)
                return report_diff_print(run->before, run->report, &format, run->out);
        if (run->form == FORM_JSON)
                return report_print_json(run->report, &format, run->out);
        return report_print(run->report, &format, run->out);
}

/*
 * Names an address of a coroutine: by the running process, if there is one, else by the code in the traces.
 */
static const char *name_place(void *userdata, const Coroutine *coroutine, uint64_t address) {
        const ReportRun *run = userdata;
        const char *name = report_process_name(run->process, address);

        return name || !run->traces.names
                ? name
                : trace_names_get(run->traces.names, coroutine ? &coroutine->code : NULL, address);
}

static int print_traces(const ReportRun *run) {
        CoroutineFormat format = { .top = (uint32_t)run->config->report.top,
                                   .width = cli_output_width(),
                                   .markdown = run->form == FORM_MARKDOWN,
                                   .n_files = run->traces.n_files,
                                   .n_malformed = run->traces.n_malformed,
                                   .name = name_place,
                                   .userdata = (void *)run };

        if (run->form == FORM_JSON)
                return coroutine_report_print_json(run->traces.report, &format, run->out);
        if (run->form == FORM_PAGE)
                return coroutine_report_print_page(run->traces.report, &format, run->out);
        return coroutine_report_print(run->traces.report, &format, run->out);
}

static int print_report(const ReportRun *run) {
        int r = 0;

        if (run->traces.report)
                r = print_traces(run);
        if (run->traces.report && run->n_profiles && run->form != FORM_JSON)
                fputc('\n', run->out);
        return r || !run->n_profiles ? r : print_profiles(run);
}

/*
 * A page of coroutines is another one than that of profiles. Looks at files alone: standard input can be read
 * once.
 */
static bool are_traces(const ReportRun *run) {
        bool are = run->inputs.n_paths;

        for (size_t i = 0; are && i < run->inputs.n_paths; i++) {
                _cleanup_(source_deinit) Source source = { .fd = -1 };
                Text problem = { 0 };

                are = strcmp(run->inputs.paths[i], "-") &&
                        !source_open(&source, run->inputs.paths[i], &problem) && report_is_trace(&source);
                text_deinit(&problem);
        }
        return are;
}

/* Makes the inputs read so far the first side of the comparison, and begins the second. */
static int next_side(ReportRun *run, const ReportOptions *options) {
        run->before = take(run->report);
        inputs_forget(&run->inputs);
        return report_new(&run->report, options);
}

/* Processes are chosen by the report itself, which says how many it has left out. */
/* Inputs that were read, whole or in part. */
static size_t count_read(const ReportRun *run) {
        return run->inputs.n_read + run->inputs.n_partly;
}

static int make_report(ReportRun *run) {
        const Config *config = run->config;
        ReportOptions options = { .symbolizer = run->symbolizer,
                                  .by_line = inputs_is_set(run->config, "lines"),
                                  .spans = run->inputs.spans,
                                  .pids = config->targets.pids.items,
                                  .n_pids = config->targets.pids.n_items,
                                  .names = config->targets.comms.items,
                                  .n_names = config->targets.comms.n_items,
                                  .by_total = !strcmp(config->report.sort, "total"),
                                  .wall = config->report.wall };
        FilterOptions *filter = &run->inputs.options.filter;
        size_t n_first = 0;             /* read of what was before, in a difference */
        int r = report_new(&run->report, &options);

        filter->n_pids = filter->comms.n_items = 0;
        for (size_t i = 0; i < run->inputs.n_paths && !r; i++) {
                if (config->report.diff && i == run->inputs.n_first) {
                        n_first = count_read(run);
                        r = next_side(run, &options);
                }
                if (!r)
                        r = add_input(run, i);
        }
        /* each side of a difference needs an input: an unreadable one is no empty profile */
        if (r || count_read(run) == n_first || (config->report.diff && !n_first))
                return r ? r : STATUS_FAILURE;
        r = open_output(run);
        if (r)
                return r;
        r = print_report(run);
        if (!r)
                r = close_output(run);
        return r || !run->before ? r : comparison_check(config, run->before, run->report);
}

/* Forms that other programs read: one window, with the names that this machine knows. */
static int write_window(ReportRun *run) {
        Outputs outputs = { .path = *run->config->command.output ? run->config->command.output : "-" };
        Convert convert = { 0 };
        int r;

        run->inputs.options.symbolizer = run->symbolizer;
        run->inputs.options.timestamps_asked |= run->writer->times;
        r = convert_init(&convert, &run->inputs.options);
        for (size_t i = 0; i < run->inputs.n_paths && !r; i++)
                r = inputs_add(&run->inputs, i, &convert);
        if (!r)
                r = convert_close(&convert);
        if (!r && !window_n_events(convert.window)) {
                log_error("nothing to write: no input has an event that counts");
                r = STATUS_FAILURE;
        }
        outputs.readers = run->inputs.readers;
        if (!r)
                r = outputs_write(&outputs, run->writer, &convert);
        convert_deinit(&convert);
        return r;
}

static int print_annotation(ReportRun *run, const Window *window) {
        const char *path = run->source;
        ReportFormat format = { .width = cli_output_width(), .markdown = run->form == FORM_MARKDOWN,
                                .page = run->form == FORM_WRITER, .context = run->context };
        _cleanup_(text_deinit) Text problem = { 0 };
        struct stat status;
        int r;

        if (!stat(path, &status))
                outfile_note_input(&run->inputs.readers, &status);
        r = open_output(run);
        if (!r)
                r = annotate_print(window, path, &format, run->out, &problem);
        if (r == ANNOTATE_E_SOURCE) {
                log_error("%s: %s", path, problem.data ? problem.data : "cannot be shown");
                return STATUS_FAILURE;
        }
        return r ? r : close_output(run);
}

static int write_annotation(ReportRun *run) {
        Convert convert = { 0 };
        int r;

        run->inputs.options.symbolizer = run->symbolizer;
        r = convert_init(&convert, &run->inputs.options);
        for (size_t i = 0; i < run->inputs.n_paths && !r; i++)
                r = inputs_add(&run->inputs, i, &convert);
        if (!r)
                r = convert_close(&convert);
        if (!r && !(run->inputs.n_read + run->inputs.n_partly))
                r = STATUS_FAILURE;
        if (!r)
                r = print_annotation(run, convert.window);
        convert_deinit(&convert);
        return r;
}

/* The page of differences. */
static int read_side(ReportRun *run, Convert *convert, size_t first, size_t end) {
        int r = convert_init(convert, &run->inputs.options);

        for (size_t i = first; i < end && !r; i++)
                r = inputs_add(&run->inputs, i, convert);
        return r ? r : convert_close(convert);
}

static int print_diff_page(ReportRun *run, const Convert *before, const Convert *after) {
        PageOptions options = { .symbolizer = run->symbolizer,
                                .baseline = run->inputs.paths[0],
                                .comparison = run->inputs.paths[run->inputs.n_first],
                                .operation = run->inputs.options.filter.operation,
                                .userdata = run->inputs.options.filter.userdata };
        int r = open_output(run);

        if (!r)
                r = page_write_diff(before->window, after->window, &options, run->out);
        if (!r)
                r = close_output(run);
        return r ? r : comparison_check_windows(run->config, run->symbolizer, before->window, after->window);
}

static int write_diff_page(ReportRun *run) {
        Convert before = { 0 }, after = { 0 };
        int r = read_side(run, &before, 0, run->inputs.n_first);

        inputs_forget(&run->inputs);
        if (!r)
                r = read_side(run, &after, run->inputs.n_first, run->inputs.n_paths);
        if (!r && !(window_n_events(before.window) && window_n_events(after.window))) {
                log_error("nothing to compare: one of the two has no event that counts");
                r = STATUS_FAILURE;
        }
        if (!r)
                r = print_diff_page(run, &before, &after);
        convert_deinit(&before);
        convert_deinit(&after);
        return r;
}

static int check_wall(const ReportRun *run) {
        if (!run->config->report.wall || run->form != FORM_WRITER)
                return 0;
        log_error("--wall writes text, markdown or json");
        return STATUS_USAGE;
}

static int check_explain(const ReportRun *run) {
        if (!run->config->report.explain || run->form == FORM_TEXT || run->form == FORM_MARKDOWN)
                return 0;
        log_error("--explain writes text or markdown");
        return STATUS_USAGE;
}

/* `FILE:N`, unless a file has that name: N lines of context, else the whole file. */
static int take_source(ReportRun *run) {
        const char *text = run->config->report.annotate, *colon = strrchr(text, ':');
        size_t n_digits = colon ? strspn(colon + 1, "0123456789") : 0;
        bool has_context = n_digits && n_digits < 7 && !colon[1 + n_digits] && access(text, F_OK) < 0;

        run->context = has_context ? (uint32_t)strtoul(colon + 1, NULL, 10) : UINT32_MAX;
        run->source = strndup(text, has_context ? (size_t)(colon - text) : strlen(text));
        return run->source ? 0 : error_origin(-ENOMEM);
}

static int check_annotate(ReportRun *run) {
        const Config *config = run->config;
        bool is_page = run->form == FORM_WRITER && !strcmp(run->writer->name, "html");
        int r;

        if (!*config->report.annotate)
                return 0;
        if (config->report.diff || config->report.wall ||
            (run->form != FORM_TEXT && run->form != FORM_MARKDOWN && !is_page)) {
                log_error("--annotate writes text, markdown or html, without --diff and --wall");
                return STATUS_USAGE;
        }
        r = take_source(run);
        if (r)
                return r;
        return inputs_is_output(run->source, config->command.output) ? STATUS_USAGE : 0;
}

static int check_diff(const ReportRun *run) {
        if (!run->config->report.diff)
                return 0;
        if (run->form == FORM_WRITER && strcmp(run->writer->name, "html")) {
                log_error("--diff writes text, markdown, json or html");
                return STATUS_USAGE;
        }
        return 0;
}

static int check_options(const Cli *cli) {
        if (!cli->config.report.diff && inputs_asked(&cli->config, "fail-above")) {
                log_error("--fail-above is of comparisons: use it with --diff");
                return STATUS_USAGE;
        }
        if (cli->config.report.diff && cli->n_arguments != 2) {
                log_error("--diff takes two files or directories, what was before and what is after");
                return STATUS_USAGE;
        }
        return 0;
}

static int run_form(ReportRun *run) {
        if (*run->config->report.annotate)
                return write_annotation(run);
        if (run->config->report.diff && (!run->inputs.n_first || run->inputs.n_first == run->inputs.n_paths))
                return STATUS_FAILURE;          /* a side without files, which was said */
        if (run->config->report.diff && run->form == FORM_WRITER)
                return write_diff_page(run);
        if (run->form == FORM_WRITER && !strcmp(run->writer->name, "html") && are_traces(run))
                run->form = FORM_PAGE;
        return run->form == FORM_WRITER ? write_window(run) : make_report(run);
}

static int make_symbolizer(ReportRun *run) {
        bool needs_lines = (run->writer && run->writer->lines) || *run->config->report.annotate;
        SymbolizerOptions options = { 0 };
        int r = remote_symbols_init(&run->remote, run->config);

        line_options_put(run->config, needs_lines, &options);
        remote_symbols_put(&run->remote, &options);
        return r ? r : symbolizer_new(&run->symbolizer, &options);
}

static int run_forms(ReportRun *run, const Cli *cli) {
        int r = find_form(run);

        if (!r)
                r = check_diff(run);
        if (!r)
                r = check_wall(run);
        if (!r)
                r = check_explain(run);
        if (!r)
                r = check_annotate(run);
        if (!r)
                r = inputs_init(&run->inputs, cli);
        if (!r)
                r = make_symbolizer(run);
        if (!r)
                r = run_form(run);
        line_options_say_missing(run->config, run->symbolizer);
        r = r ? r : run->inputs.status;
        drop_output(run);
        report_free(run->report);
        report_free(run->before);
        free(run->source);
        report_traces_deinit(&run->traces);
        symbolizer_free(run->symbolizer);
        remote_symbols_deinit(&run->remote);
        inputs_deinit(&run->inputs);
        return r;
}

static int run(Cli *cli) {
        ReportProcess process;
        ReportRun run = { .config = &cli->config, .process = &process, .file = OUTFILE_NONE };
        int r = check_options(cli);

        if (r)
                return r;
        heap_prepare();
        r = report_process_trace(&process, cli);
        if (!r)
                r = run_forms(&run, cli);
        report_process_deinit(&process);
        if (r < 0) {
                log_error("cannot report: %s", strerror(-r));
                return STATUS_FAILURE;
        }
        return r;
}

const Verb verb_report = {
        .name = "report",
        .bit = VERB_REPORT,
        .arguments = "FILE…|PID",
        .min_arguments = 1,
        .max_arguments = INT_MAX,
        .summary = "print profiles and traces for people, or write them for other tools",
        .description =
                "Reads profiles of any known form, told by content (see `convert`), and prints what they say: how much was\n"
                "sampled and how well, and the functions, stacks and spans that it fell into. Several files are summed up;\n"
                "`-` is standard input, a directory all files in it; a profile that is there twice counts once. A file that\n"
                "cannot be read is named and makes the status 1; the others, and what is whole of it, count.\n"
                "Of traces of coroutines (spanprof coro -o; JSON lines, CSV, SQLite) it tells who ran and who waited, how long,\n"
                "where, and whose wake-up seems lost; as a page (-o FILE.html) with a timeline for each. With the id of a\n"
                "process instead of files it tells that of the process as it runs, after a look of --duration.\n"
                "Native frames get names from files of this machine with the build id of the profile: .symtab, .dynsym,\n"
                ".gopclntab, .gnu_debugdata, separate debug files; source lines and inlined functions from DWARF, those that a\n"
                "second is enough for. With --spans, samples are joined with the operations of their spans.\n"
                "\n"
                "Writes text to the terminal; by the suffix of -o, or --format: .txt, .md (Markdown), .json (a summary for\n"
                "programs), .html (a page), .svg, .folded, .speedscope.json, .firefox.json (Firefox Profiler), .pb.gz (pprof),\n"
                ".otlp and .pb, with the names that were found.\n"
                "\n"
                "  spanprof report profiles/                      what was hot\n"
                "  spanprof report --spans spans.csv *.pb         … by operation\n"
                "  spanprof report --process shop --thread 'io-*' --start +10s --end +20s *.pb\n"
                "  spanprof report cpu.pb.gz -o cpu.md            a profile of a Go program as Markdown\n"
                "  spanprof report --diff before.pb after.pb      which functions have become slower; -o FILE.html for a page\n"
                "  spanprof report --diff --fail-above 5 a.pb b.pb  in CI: status 3 if a share grew by over 5 points\n"
                "  spanprof report --annotate src/main.c *.pb     source with samples beside its lines\n"
                "  spanprof report --explain *.pb                 … and what each word of the report means\n"
                "  spanprof report trace.db -o coroutines.html    who never woke up\n"
                "  spanprof report 4711 -d 5s                     who waits in a process that runs, and since when\n"
                "\n"
                "To see every field of a request, use `spanprof convert FILE -o FILE.json --pretty`.\n",
        .run = run,
};
