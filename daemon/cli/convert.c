/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <systemd/sd-event.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/convert-trace.h"
#include "config-exporter.h"
#include "convert/convert.h"
#include "otlp/encode.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/stat.h"

enum {
        PROGRESS_FIRST_NS = NS_PER_SEC,         /* quick work says nothing */
        PROGRESS_NEXT_NS = NS_PER_SEC / 5,
        SEND_BYTES = 4 << 20,                   /* of one request */
        SEND_AGE_SECONDS = 30,                  /* somebody waits for the command: retry for less long than a daemon */
};

typedef struct ConvertRun {
        const Config *config;
        ConvertOptions options;
        Convert convert;
        const ConvertWriter *writer;    /* NULL = only sent */
        const char **resource;
        Text diagnostics;
        uint64_t begin_ns, read_ns, write_ns, sent_ns;
        uint64_t next_progress_ns;
        bool progress_shown;
        int fd;                         /* of the output */
        uint64_t n_bytes, n_documents, n_events;
        sd_event *event;
        Exporter *exporter;
} ConvertRun;

static bool asked(const Config *config, const char *option) {
        return config->origins[option_index(option_find(option, strlen(option)))].level == CONFIG_COMMAND_LINE;
}

/* --start, --end */

/* Digits and a fraction of up to nine more. */
static int parse_seconds(const char *text, uint64_t *nsp) {
        size_t n = strspn(text, "0123456789"), n_fraction = 0;
        uint64_t seconds, fraction = 0;
        char digits[24];

        if (!n || n >= sizeof(digits))
                return 1;
        memcpy(digits, text, n);
        digits[n] = 0;
        if (text_u64(digits, UINT64_MAX / NS_PER_SEC, &seconds))
                return 1;
        if (text[n] == '.') {
                n_fraction = strspn(text + n + 1, "0123456789");
                for (size_t i = 0; i < 9; i++)
                        fraction = fraction * 10 + (i < n_fraction ? (uint64_t)(text[n + 1 + i] - '0') : 0);
                n += 1 + n_fraction;
        }
        if (text[n] && strcmp(text + n, "s"))
                return 1;
        *nsp = seconds * NS_PER_SEC + fraction;
        return 0;
}

/* 2026-01-31T12:00:00[.5]Z or with +01:00; without either it is UTC. */
static int parse_date(const char *text, uint64_t *nsp) {
        struct tm tm = { 0 };
        const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
        int hours, minutes, used = 0;
        uint64_t fraction = 0;
        time_t seconds;
        char sign;

        if (!rest)
                return 1;
        if (*rest == '.') {
                size_t n = strspn(rest + 1, "0123456789");

                for (size_t i = 0; i < 9; i++)
                        fraction = fraction * 10 + (i < n ? (uint64_t)(rest[1 + i] - '0') : 0);
                rest += 1 + n;
        }
        seconds = timegm(&tm);
        if (sscanf(rest, "%c%2d:%2d%n", &sign, &hours, &minutes, &used) == 3 && strchr("+-", sign) && !rest[used])
                seconds -= (sign == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
        else if (*rest && strcmp(rest, "Z"))
                return 1;
        if (seconds < 0)
                return 1;
        *nsp = (uint64_t)seconds * NS_PER_SEC + fraction;
        return 0;
}

static int parse_time(const char *option, const char *text, uint64_t *nsp, bool *relativep) {
        *relativep = *text == '+';
        if (!*text || !parse_seconds(text + *relativep, nsp) || (!*relativep && !parse_date(text, nsp)))
                return 0;
        log_error("--%s: `%s` is no time (2026-01-31T12:00:00Z, 1769860800, +10s)", option, text);
        return STATUS_USAGE;
}

/* Progress: only for people who look at it, and only on work that takes a while. */
static void show_progress(const char *name, uint64_t done, uint64_t size, void *userdata) {
        ConvertRun *run = userdata;
        uint64_t now_ns = clock_monotonic_ns();

        if (now_ns < run->next_progress_ns)
                return;
        run->next_progress_ns = now_ns + PROGRESS_NEXT_NS;
        run->progress_shown = true;
        fprintf(stderr, "\r%s: %3.0f %% of %.1f MiB\033[K", name, size ? 100.0 * (double)done / (double)size : 100.0,
                (double)size / (1 << 20));
}

static void hide_progress(ConvertRun *run) {
        if (run->progress_shown)
                fprintf(stderr, "\r\033[K");
        run->progress_shown = false;
}

static int check_output(ConvertRun *run) {
        const Config *config = run->config;
        const char *format = strcmp(config->format, "auto") ? config->format : NULL;

        if (!*config->output && !asked(config, "endpoint")) {
                log_error("where to? -o FILE, or --endpoint URL to send");
                return STATUS_USAGE;
        }
        if (!*config->output)
                return 0;
        run->writer = convert_find_writer(format, config->output);
        if (run->writer)
                return 0;
        if (!strcmp(config->output, "-"))
                log_error("-o -: say which --format");
        else
                log_error("%s: its suffix names no format; say which --format", config->output);
        return STATUS_USAGE;
}

static int set_options(ConvertRun *run) {
        const Config *config = run->config;
        ConvertOptions *options = &run->options;
        const char **resource = calloc(config->resources.n_items + 1, sizeof(*resource));
        int r;

        if (!resource)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < config->resources.n_items; i++)
                resource[i] = config->resources.items[i];
        run->resource = resource;
        *options = (ConvertOptions){ .end_ns = UINT64_MAX, .timestamps = config->timestamps,
                                     .timestamps_asked = asked(config, "timestamps"), .payload = config->include_payload,
                                     .arguments = config->include_arguments, .pretty = config->pretty,
                                     .version = SPANPROF_VERSION, .resource = resource, .userdata = run };
        if (isatty(STDERR_FILENO))
                options->progress = show_progress;
        run->next_progress_ns = clock_monotonic_ns() + PROGRESS_FIRST_NS;
        r = parse_time("start", config->start, &options->start_ns, &options->start_relative);
        if (!r)
                r = parse_time("end", config->end, &options->end_ns, &options->end_relative);
        if (!r && options->start_relative == options->end_relative && options->start_ns >= options->end_ns) {
                log_error("--start is not before --end");
                r = STATUS_USAGE;
        }
        return r ? r : check_output(run);
}

/* An input with a mistake does not end it: the others, and what could be read of this one, are written. */
static int add_inputs(ConvertRun *run, const Cli *cli) {
        int status = STATUS_OK;

        for (int i = 0; i < cli->n_arguments; i++) {
                const char *name = strcmp(cli->arguments[i], "-") ? cli->arguments[i] : "standard input";
                Text problem = { 0 };
                int r = convert_add(&run->convert, cli->arguments[i], &problem);

                hide_progress(run);
                if (r > 0) {
                        log_error("%s: %s", name, problem.data ? problem.data : "cannot be read");
                        status = STATUS_FAILURE;
                }
                text_deinit(&problem);
                if (r < 0)
                        return r;
        }
        return status;
}

/* Writing */

static int write_document(const uint8_t *data, size_t size, uint64_t n_events, void *userdata) {
        ConvertRun *run = userdata;
        int r = file_write(run->fd, data, size);

        if (r) {
                log_error("%s: cannot be written: %s", run->config->output, strerror(-r));
                return STATUS_FAILURE;
        }
        run->n_bytes += size;
        run->n_documents++;
        run->n_events += n_events;
        return 0;
}

static int write_output(ConvertRun *run) {
        const char *path = run->config->output;
        bool to_stdout = !strcmp(path, "-");
        Text problem = { 0 };
        int r;

        run->fd = to_stdout ? STDOUT_FILENO : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0644);
        if (run->fd < 0) {
                log_error("%s: cannot be written: %s", path, strerror(errno));
                return STATUS_FAILURE;
        }
        r = run->writer->write(&run->convert, write_document, run, &problem);
        if (r == CONVERT_E_OUTPUT && problem.data)
                log_error("%s: %s", path, problem.data);
        text_deinit(&problem);
        if (!to_stdout && close(run->fd) < 0 && !r) {
                log_error("%s: cannot be written: %s", path, strerror(errno));
                r = STATUS_FAILURE;
        }
        return r > 0 ? STATUS_FAILURE : r;
}

/* Sending: one request after the other, so that the queue never has to drop one. */

static int send_document(const uint8_t *data, size_t size, uint64_t n_events, void *userdata) {
        ConvertRun *run = userdata;
        int r = exporter_submit(run->exporter, data, size, n_events);

        while (!r && exporter_queued_events(run->exporter))
                if (sd_event_run(run->event, UINT64_MAX) < 0)
                        return STATUS_FAILURE;
        return r;
}

static int open_exporter(ConvertRun *run) {
        ExporterConfig exporter = config_exporter(run->config, run->config->profiles_url);

        if (!asked(run->config, "max-export-age"))
                exporter.max_age_ns = SEND_AGE_SECONDS * NS_PER_SEC;
        if (sd_event_new(&run->event) < 0)
                return error_origin(-ENOMEM);
        return exporter_new(&run->exporter, run->event, &exporter) ? STATUS_FAILURE : 0;
}

static int send_all(ConvertRun *run) {
        OtlpOptions options = { .scope_version = SPANPROF_VERSION, .timestamps = run->options.timestamps };
        uint64_t n_lost = 0;
        int r = open_exporter(run);

        /* a payload is in one request, however large it is */
        if (run->convert.payload_bytes)
                options.max_bytes = run->convert.payload_bytes + SEND_BYTES;
        if (!r)
                r = otlp_encode(run->convert.window, &options, send_document, run, &n_lost);
        run->sent_ns = clock_monotonic_ns();
        if (!r && (n_lost || stat_lost())) {
                log_error("%" PRIu64 " events were not delivered to %s", n_lost + stat_lost(), run->config->shown_url);
                r = STATUS_FAILURE;
        }
        return r;
}

/* Diagnostics: what readers have said, then sizes and times. */

static double milliseconds(uint64_t from_ns, uint64_t to_ns) {
        return (double)(to_ns - from_ns) / NS_PER_MS;
}

static void print_tables(FILE *to, const Window *window) {
        fprintf(to, "tables: %u strings, %u functions, %u frames, %u stacks, %u links, %u attributes, %u modules; %.1f MiB\n",
                window_n_strings(window) - 1, window_n_functions(window) - 1, window_n_frames(window) - 1,
                window_n_stacks(window) - 1, window_n_links(window) - 1, window_n_attributes(window) - 1,
                window_n_modules(window) - 1, (double)window_memory(window) / (1 << 20));
}

static void print_profiles(FILE *to, const Window *window) {
        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);

                fprintf(to, "profile %s/%s: %" PRIu64 " events in %u samples\n",
                        window_get_string(window, profile->names.type, NULL),
                        window_get_string(window, profile->names.unit, NULL), profile->n_events, profile->n_samples);
        }
}

static void print_diagnostics(const ConvertRun *run) {
        FILE *to = stderr;
        struct rusage usage;

        if (run->diagnostics.data)
                fputs(run->diagnostics.data, to);
        print_profiles(to, run->convert.window);
        print_tables(to, run->convert.window);
        if (run->n_bytes)
                fprintf(to, "output: %" PRIu64 " bytes, %.3f of the input's %" PRIu64 "\n", run->n_bytes,
                        run->convert.n_bytes ? (double)run->n_bytes / (double)run->convert.n_bytes : 0.0,
                        run->convert.n_bytes);
        getrusage(RUSAGE_SELF, &usage);
        fprintf(to, "time: %.1f ms reading, %.1f ms writing", milliseconds(run->begin_ns, run->read_ns),
                milliseconds(run->read_ns, run->write_ns));
        if (run->sent_ns)
                fprintf(to, ", %.1f ms sending", milliseconds(run->write_ns, run->sent_ns));
        fprintf(to, "; at most %.1f MiB of memory\n", (double)usage.ru_maxrss / 1024);
}

/* Return: enum status, or -errno. */
static int convert_all(ConvertRun *run, const Cli *cli) {
        int status, r;

        run->begin_ns = clock_monotonic_ns();
        r = convert_init(&run->convert, &run->options);
        if (r)
                return r;
        if (run->config->diagnostics)
                run->convert.diagnostics = &run->diagnostics;
        status = add_inputs(run, cli);
        if (status < 0)
                return status;
        r = convert_close(&run->convert);
        run->read_ns = clock_monotonic_ns();
        if (r)
                return r;
        if (!window_n_events(run->convert.window)) {
                if (run->config->diagnostics && run->diagnostics.data)
                        fputs(run->diagnostics.data, stderr);
                log_error("nothing to write: no input has an event that counts");
                return STATUS_FAILURE;
        }
        r = run->writer ? write_output(run) : 0;
        run->write_ns = clock_monotonic_ns();
        if (!r && asked(run->config, "endpoint"))
                r = send_all(run);
        if (r >= 0 && run->config->diagnostics)
                print_diagnostics(run);
        return r ? r : status;
}

static int run(Cli *cli) {
        ConvertRun run = { .config = &cli->config };
        int r;

        if (!strcmp(cli->config.format, "auto") && convert_is_trace(cli->config.output))
                return convert_traces(cli);
        r = set_options(&run);
        if (!r)
                r = convert_all(&run, cli);
        exporter_free(run.exporter);
        sd_event_unref(run.event);
        convert_deinit(&run.convert);
        text_deinit(&run.diagnostics);
        free((void *)run.resource);
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
                "async-profiler or Datadog's profiler, and OTLP profiles requests (protobuf or JSON). They may be packed by\n"
                "gzip, zstd or lz4; `-` is standard input. Several files become one output, with one resource for each process.\n"
                "\n"
                "Writes by the suffix of -o, or --format: .html (one page with flame graph, timeline and tables, without\n"
                "network), .svg (a flame graph as a picture), .otlp, .pb (OTLP protobuf), .json (OTLP/JSON), .folded (stacks for\n"
                "flame graphs), .pb.gz (pprof). With --endpoint the result is sent to a receiver, too. A damaged input is told\n"
                "with the place and ends with status 1, but everything readable before it is written.\n"
                "\n"
                "Of a recording, samples of CPU time, wall clock, allocations and locks are taken, with their spans and context\n"
                "attributes. Its environment variables, system properties and lists of processes are never looked into;\n"
                "command lines only with --include-arguments. Beyond a million timed samples their times are left out, unless\n"
                "--timestamps is given.\n"
                "\n"
                "Traces of coroutines (JSON lines, CSV, SQLite) become one another by the suffix of -o: .jsonl, .csv, .db.\n"
                "Into other formats goes how long coroutines were suspended, by address (of JSON lines and CSV).\n"
                "\n"
                "  spanprof convert app.jfr -o app.html\n"
                "  spanprof convert app.jfr -o app.pb --resource service.name=shop\n"
                "  spanprof convert *.jfr.lz4 --endpoint http://collector:4318 --diagnostics\n"
                "  cat app.jfr | spanprof convert - -o - --format folded | flamegraph.pl\n"
                "  spanprof convert profiles/*.pb -o all.json\n",
        .run = run,
};
