/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `convert`: reads all inputs into one window through libspanprof-convert, then writes it to a file or
 * sends it to a receiver, and says what was left out.
 */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <systemd/sd-event.h>

#include "core/base/data/heap.h"
#include "core/base/terminal/text-table.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"
#include "desk/cli/inputs.h"
#include "desk/cli/line-options.h"
#include "desk/cli/outputs.h"
#include "desk/cli/remote-symbols.h"
#include "desk/coro/trace/trace.h"
#include "host/cli/cli.h"
#include "host/service/config/config-exporter.h"

enum {
        SEND_BYTES = 4 << 20,                   /* bytes of a request */
        /* a person waits for the command: retry for less long than a daemon */
        SEND_AGE_SECONDS = 30,
};

typedef struct ConvertRun {
        const Config *config;
        Inputs inputs;
        spanprof_convert *library;      /* all conversion is done by its functions */
        Convert *convert;               /* the library's own state, for sizes and for sending */
        OtlpPayload payload;            /* as the receiver wants it */
        const ConvertWriter *writer;    /* NULL = only sent */
        Symbolizer *symbolizer;
        RemoteSymbols remote;
        Outputs outputs;
        Text diagnostics;
        uint64_t begin_ns, read_ns, write_ns, sent_ns;
        sd_event *event;
        Exporter *exporter;
} ConvertRun;

static bool asked(const Config *config, const char *option) {
        return inputs_asked(config, option);
}

static int check_output(ConvertRun *run) {
        const Config *config = run->config;

        if (!*config->command.output && !asked(config, "endpoint")) {
                log_error("where to? -o FILE, or --endpoint URL to send");
                return STATUS_USAGE;
        }
        if (!*config->command.output)
                return 0;
        run->writer = outputs_find_writer(config->command.output, config->command.format);
        return run->writer ? 0 : STATUS_USAGE;
}

static int make_symbolizer(ConvertRun *run) {
        bool needs_lines = run->writer && run->writer->lines;   /* no writer: what a receiver gets */
        SymbolizerOptions options = { 0 };
        int r = remote_symbols_init(&run->remote, run->config);

        line_options_put(run->config, needs_lines, &options);
        remote_symbols_put(&run->remote, &options);
        return r ? r : symbolizer_new(&run->symbolizer, &options);
}

static int begin(ConvertRun *run, const Cli *cli) {
        int r = check_output(run);

        if (!r)
                r = inputs_init(&run->inputs, cli);
        if (!r && ((run->writer && (run->writer->names || run->config->names.lines)) ||
                   backend_wants_names(run->config)))
                r = make_symbolizer(run);
        run->payload = backend_payload(run->config);
        run->payload.reshape.limits = &format_limits;
        run->inputs.options.reshape = &run->payload.reshape;
        run->inputs.options.one_value = run->payload.encoding.one_value;
        run->inputs.options.symbolizer = run->symbolizer;
        run->inputs.options.timestamps_asked |= run->writer && run->writer->times;
        run->inputs.options.below_zero = !run->writer || run->writer->below_zero;
        return r;
}

/* Sending: one request after the other, so that the queue never has to drop one. */

static int send_document(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles,
                         void *userdata) {
        ConvertRun *run = userdata;
        int r = exporter_submit(run->exporter, &(ExportRequest){ data, size, n_events, n_profiles });

        while (!r && exporter_queued_events(run->exporter))
                if (sd_event_run(run->event, UINT64_MAX) < 0)
                        return STATUS_FAILURE;
        return r;
}

static int open_exporter(ConvertRun *run) {
        ExporterConfig exporter = config_exporter(run->config, run->config->delivery.profiles_url);

        exporter.max_age_ns = SEND_AGE_SECONDS * NS_PER_SEC;
        if (sd_event_new(&run->event) < 0)
                return error_origin(-ENOMEM);
        return exporter_new(&run->exporter, run->event, &exporter) ? STATUS_FAILURE : 0;
}

static int send_all(ConvertRun *run) {
        OtlpPayload payload = run->payload;
        uint64_t n_lost = 0;
        int r = open_exporter(run);

        payload.encoding.timestamps = run->inputs.options.timestamps;
        payload.encoding.untimed_ns = run->convert->untimed_ns;
        /* a payload is in one request, however large it is */
        if (run->convert->payload_bytes)
                payload.encoding.max_bytes = run->convert->payload_bytes + SEND_BYTES;
        if (!r)
                r = otlp_payload_encode(&payload, run->convert->window, send_document, run, &n_lost);
        run->sent_ns = clock_monotonic_ns();
        if (!r && (n_lost || stat_lost())) {
                log_error("%" PRIu64 " events were not delivered to %s", n_lost + stat_lost(),
                          run->config->delivery.shown_url);
                r = STATUS_FAILURE;
        }
        return r;
}

/* With `--log-level debug`: what readers have said, then sizes and times. */

static bool says_all(const Config *config) {
        return !strcmp(config->daemon.log_level, "debug");
}

static double milliseconds(uint64_t from_ns, uint64_t to_ns) {
        return (double)(to_ns - from_ns) / NS_PER_MS;
}

static void print_read(const ConvertRun *run, FILE *to) {
        text_print_lines(run->diagnostics.data ? run->diagnostics.data : "", to);
}

static void print_string(const Window *window, uint32_t index, FILE *to) {
        const char *text = window_get_string(window, index, NULL);

        text_print(text, strlen(text), to);
}

static void print_tables(FILE *to, const Window *window) {
        fprintf(to,
                "tables: %u strings, %u functions, %u frames, %u stacks, %u links, %u attributes, %u modules; %.1f MiB\n",
                window_n_strings(window) - 1, window_n_functions(window) - 1, window_n_frames(window) - 1,
                window_n_stacks(window) - 1, window_n_links(window) - 1, window_n_attributes(window) - 1,
                window_n_modules(window) - 1, (double)window_memory(window) / (1 << 20));
}

static void print_profiles(FILE *to, const Window *window) {
        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);

                fputs("profile ", to);
                print_string(window, profile->names.type, to);
                fputc('/', to);
                print_string(window, profile->names.unit, to);
                fprintf(to, ": %" PRIu64 " events in %u samples\n", profile->n_events, profile->n_samples);
        }
}

static void print_diagnostics(const ConvertRun *run) {
        FILE *to = stderr;
        struct rusage usage;

        print_read(run, to);
        print_profiles(to, run->convert->window);
        print_tables(to, run->convert->window);
        if (run->outputs.n_bytes)
                fprintf(to, "output: %" PRIu64 " bytes, %.3f of the input's %" PRIu64 "\n",
                        run->outputs.n_bytes,
                        run->convert->n_bytes ? (double)run->outputs.n_bytes / (double)run->convert->n_bytes
                                             : 0.0,
                        run->convert->n_bytes);
        getrusage(RUSAGE_SELF, &usage);
        fprintf(to, "time: %.1f ms reading, %.1f ms writing", milliseconds(run->begin_ns, run->read_ns),
                milliseconds(run->read_ns, run->write_ns));
        if (run->sent_ns)
                fprintf(to, ", %.1f ms sending", milliseconds(run->write_ns, run->sent_ns));
        fprintf(to, "; at most %.1f MiB of memory\n", (double)usage.ru_maxrss / 1024);
}

static void say_filtered(const ConvertRun *run) {
        const CopyCounts *counts = &run->convert->counts;

        if (run->convert->n_repeated)
                log_notice("%" PRIu64 " profiles were there before (same profile id) and count once",
                           run->convert->n_repeated);
        if (counts->n_untimed)
                log_notice("%" PRIu64
                           " events have no time, so that none can be chosen by it; they are left out",
                           counts->n_untimed);
}

/* Return: 0, also after messages, -ENOMEM. */
static int add_input(ConvertRun *run, size_t index) {
        _cleanup_(source_deinit) Source source = { .fd = -1 };
        _cleanup_(text_deinit) Text problem = { 0 };
        uint64_t n_before = window_n_events(run->convert->window);
        const char *path = run->inputs.paths[index];
        int r = inputs_open(&run->inputs, index, &source);

        if (r)
                return MIN(r, 0);
        if (!run->convert->first_path && strcmp(path, "-"))
                run->convert->first_path = path;
        r = convert_library_add(run->library, &source);
        if (r < 0)
                return r;
        if (r)
                text_printf(&problem, "%s", spanprof_convert_problem(run->library));
        inputs_judge(&run->inputs, &source, !r, window_n_events(run->convert->window) > n_before, &problem);
        return 0;
}

/* Return: 0, -ENODATA, -ENOMEM. */
static int read_inputs(ConvertRun *run) {
        int r = convert_library_open(&run->library, &run->inputs.options);

        if (r)
                return r;
        run->convert = convert_library_inside(run->library);
        if (says_all(run->config))
                run->convert->diagnostics = &run->diagnostics;
        for (size_t i = 0; i < run->inputs.n_paths && !r; i++)
                r = add_input(run, i);
        return r ? r : spanprof_convert_finish(run->library);
}

static int write_output(ConvertRun *run) {
        run->outputs.path = run->config->command.output;
        run->outputs.readers = run->inputs.readers;
        return outputs_write_library(&run->outputs, run->writer, run->library);
}

static int nothing(const ConvertRun *run) {
        if (says_all(run->config))
                print_read(run, stderr);
        log_error("nothing to write: no input has an event that counts");
        return STATUS_FAILURE;
}

/* Return: enum status, or -errno. */
static int convert_all(ConvertRun *run) {
        int r;

        run->begin_ns = clock_monotonic_ns();
        r = read_inputs(run);
        run->read_ns = clock_monotonic_ns();
        if (r && r != -ENODATA)
                return r;
        say_filtered(run);
        if (r)
                return nothing(run);
        r = run->writer ? write_output(run) : 0;
        run->write_ns = clock_monotonic_ns();
        line_options_say_missing(run->config, run->symbolizer);
        if (!r && asked(run->config, "endpoint"))
                r = send_all(run);
        if (r >= 0 && says_all(run->config))
                print_diagnostics(run);
        return r ? r : run->inputs.status;
}

/* By the ending, which no other form has. */
static bool is_trace(const Config *config) {
        TraceForm form;

        return !strcmp(config->command.format, "auto") && *config->command.output &&
               strcmp(config->command.output, "-") && !trace_form_of(config->command.output, &form);
}

static int run(Cli *cli) {
        ConvertRun run = { .config = &cli->config };
        int r;

        if (is_trace(&cli->config)) {
                log_error("%s: traces are turned into each other no more: `spanprof coro -o` writes .jsonl or .db, `spanprof corotracer -export csv` or `sqlite` makes these of JSON lines",
                          cli->config.command.output);
                return STATUS_USAGE;
        }
        heap_prepare();
        r = begin(&run, cli);
        if (!r)
                r = convert_all(&run);
        exporter_free(run.exporter);
        sd_event_unref(run.event);
        spanprof_convert_close(run.library);
        symbolizer_free(run.symbolizer);
        remote_symbols_deinit(&run.remote);
        inputs_deinit(&run.inputs);
        text_deinit(&run.diagnostics);
        if (r < 0) {
                log_error("cannot convert: %s", strerror(-r));
                return STATUS_FAILURE;
        }
        return r;
}

const Verb verb_convert = {
        .name = "convert",
        .bit = VERB_CONVERT,
        .arguments = "FILE…",
        .min_arguments = 1,
        .max_arguments = INT_MAX,
        .summary = "turn recordings and profiles of other tools into OTLP and other formats",
        .description =
                "Reads files of any known format, told by their content: recordings of Java programs (JFR) by the JDK,\n"
                "async-profiler or Datadog's profiler, OTLP profiles requests (protobuf, JSON, files of a collector, batches\n"
                "of a spool), pprof, folded stacks, perf script, traces of coroutines. Packed by gzip, zstd or lz4, too; `-` is\n"
                "standard input, a directory all files in it. Several files become one output, with one resource for each\n"
                "process; a profile that is there twice (same id) counts once.\n"
                "\n"
                "Writes by the suffix of -o, or --format: .html (one page with flame graph, timeline and tables, without\n"
                "network), .svg (a flame graph as a picture), .otlp, .pb (OTLP protobuf), .json (OTLP/JSON), .folded (stacks\n"
                "for flame graphs), .pb.gz (pprof), .speedscope.json, .firefox.json (for profiler.firefox.com); what a form\n"
                "cannot hold is said. Into all but OTLP go names that files of this machine know. With --endpoint the result\n"
                "is sent to a receiver, too. A damaged input is told with the place and ends with status 1, but everything\n"
                "readable before it is written.\n"
                "\n"
                "Of a recording, samples of CPU time, wall clock, allocations and locks are taken, with their spans and context\n"
                "attributes. Its environment variables, system properties and lists of processes are never looked into;\n"
                "command lines only with --include-arguments. Beyond a million timed samples their times are left out, unless\n"
                "--timestamps is given.\n"
                "\n"
                "Of traces of coroutines (JSON lines, CSV, SQLite) it takes how long coroutines were suspended, by function\n"
                "(else by address).\n"
                "\n"
                "  spanprof convert app.jfr -o app.html\n"
                "  spanprof convert app.jfr -o app.pb --resource service.name=shop\n"
                "  spanprof convert *.jfr.lz4 --endpoint http://collector:4318 --log-level debug\n"
                "  cat app.jfr | spanprof convert - -o - --format folded | flamegraph.pl\n"
                "  spanprof convert profiles/*.pb -o all.json\n",
        .run = run,
};
