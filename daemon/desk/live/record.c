/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `record`: runs a session with a command or with targets, merges its windows, names them at the end, and
 * writes a page or another form, with tables on the terminal.
 */

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#include "core/base/file/outfile.h"
#include "core/base/terminal/terminal.h"
#include "core/base/util/clock.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/profile/merge.h"
#include "desk/cli/comparison.h"
#include "desk/cli/inputs.h"
#include "desk/cli/line-options.h"
#include "desk/cli/remote-symbols.h"
#include "desk/convert/convert.h"
#include "desk/live/counts.h"
#include "desk/live/jfr-start.h"
#include "desk/live/no-samples.h"
#include "desk/live/recording-facts.h"
#include "desk/live/session.h"
#include "desk/live/tables.h"
#include "host/cli/cli.h"
#include "host/sampling/discover/tracing-hint.h"
#include "host/service/config/config-selector.h"
#include "host/service/control/self.h"

#define DEFAULT_OUTPUT "spanprof.html"
#define WINDOW_NS (2 * NS_PER_SEC)              /* how often the recording takes in what was sampled */
#define PROGRESS_NS (200 * NS_PER_MS)
#define LEAST_MEMORY (UINT64_C(32) << 20)
#define DEFAULT_MAX_MEMORY (UINT64_C(2) << 30)

enum {
        MAX_NAMED = 5,                          /* processes, at the start */
        MAX_TRACING_LOOKS = 100,                /* at processes of a recording */
};

/* It says what ran on the machine. */
static const OutfileOptions recording = { .mode = 0600, .for_caller = true, .keeps_old = true };

typedef struct Record {
        Cli *cli;
        const char *path;
        const ConvertWriter *writer;
        ConvertOptions options;
        Convert convert;                /* its window takes all that was sampled */
        Outfile output;
        Session session;
        RemoteSymbols remote;
        Summary summary;
        RecordingFacts facts;
        JfrStart *recordings;           /* recordings that were started; NULL = none */
        Report *baseline;               /* of --compare … */
        Symbolizer *baseline_names;     /* … and what it borrows */
        uint64_t begin_ns;              /* REALTIME */
        size_t most_targets;            /* at one time */
        uint64_t n_kept;                /* samples, when the last was taken */
        uint32_t n_tables_made, n_tables;       /* of files, as the last window came; 0 = none was missing */
        Text tracing;                   /* how a process that was met would publish spans; empty = none */
        unsigned n_tracing_looks;
        uint64_t max_memory_bytes;
        bool is_full;                   /* it ended for that */
        bool progress_shown;
} Record;

/* ---- before it ---- */

static int check_targets(const Cli *cli) {
        if (cli->n_arguments && config_chooses(&cli->config.targets))
                log_error("a command and a choice of processes cannot be used together; -d TIME ends a recording");
        else if (!cli->n_arguments && !config_chooses(&cli->config.targets))
                log_error(
                        "record what? -- COMMAND…, or -p PID, -C NAME, -u UNIT, -a for everything (`spanprof record --help`)");
        else
                return 0;
        return STATUS_USAGE;
}

static int check_output(Record *record) {
        const Config *config = &record->cli->config;
        const char *format = strcmp(config->command.format, "auto") ? config->command.format : NULL;
        int r;

        record->path = *config->command.output ? config->command.output : DEFAULT_OUTPUT;
        record->writer = convert_find_writer(format, record->path);
        if (!record->writer) {
                log_error(
                        strcmp(record->path, "-")
                                ? "%s: its ending says no format: .html, .svg, .folded, .pb.gz, .otlp, .json, .speedscope.json, "
                                  ".firefox.json"
                                : "-o %s: say which --format",
                        record->path);
                return STATUS_USAGE;
        }
        if (!strcmp(record->path, "-") && isatty(STDOUT_FILENO) && strcmp(record->writer->name, "folded")) {
                log_error("-o -: standard output is a terminal, which is no place for %s",
                          record->writer->name);
                return STATUS_USAGE;
        }
        r = outfile_check(record->path, &recording);
        if (r)
                log_error("%s: cannot be written: %s", record->path, outfile_problem(r));
        return r ? STATUS_FAILURE : 0;
}

/* The daemon would pause above it for ever, as no recording becomes less: the limit is ours instead. */
static int take_limit(Record *record) {
        Config *config = &record->cli->config;
        uint64_t limit = config->daemon.max_memory_bytes;

        if (limit && limit < LEAST_MEMORY) {
                log_error("--max-memory: %" PRIu64 " bytes: spanprof alone has some 30 MiB; is the unit missing?",
                          limit);
                return STATUS_USAGE;
        }
        if (!limit)
                limit = inputs_is_set(config, "max-memory") ? UINT64_MAX : DEFAULT_MAX_MEMORY;
        record->max_memory_bytes = limit;
        config->daemon.max_memory_bytes = 0;
        return 0;
}

/* Before anything is recorded: a mistake shall not cost the recording. */
static int read_baseline(Record *record) {
        const Config *config = &record->cli->config;
        int r;

        if (!*config->report.compare && inputs_asked(config, "fail-above"))
                log_error("--fail-above is of comparisons: use it with --compare");
        if (!*config->report.compare)
                return inputs_asked(config, "fail-above") ? STATUS_USAGE : 0;
        r = symbolizer_new(&record->baseline_names, NULL);
        if (!r)
                r = comparison_read_baseline(config->report.compare, record->baseline_names,
                                             &record->baseline);
        if (r < 0)
                log_error("%s: cannot be read: %s", config->report.compare, strerror(-r));
        return r < 0 ? STATUS_FAILURE : r;
}

static int check(Record *record) {
        const char *obstacle;
        int r = check_targets(record->cli);

        if (!r)
                r = take_limit(record);
        if (!r)
                r = check_output(record);
        if (!r)
                r = read_baseline(record);
        if (r)
                return r;
        obstacle = session_obstacle();
        if (obstacle)
                log_error("%s", obstacle);
        return obstacle ? STATUS_CONFIG : 0;
}

/* Starts recordings of JVMs that are asked for by their ids. Return: 0, STATUS_*. */
static int start_recordings(Record *record) {
        const Config *config = &record->cli->config;
        const ConfigPids *pids = &config->targets.pids;
        int r = 0;

        if (config->sampling.jfr && pids->n_items)
                r = jfr_start_new(&record->recordings, pids->items, pids->n_items);
        if (r < 0)
                log_error("--jfr: %s", strerror(-r));
        return r ? STATUS_FAILURE : 0;
}

/* ---- while it runs ---- */

static void hide_progress(Record *record) {
        if (record->progress_shown)
                fprintf(stderr, "\r\033[K");
        record->progress_shown = false;
}

/* All that was sampled stays in memory until it is written, so there is an end to it. */
static int end_when_full(Record *record) {
        if (record->is_full || self_resident_bytes() <= record->max_memory_bytes)
                return 0;
        record->is_full = true;
        hide_progress(record);
        log_warning("the recording takes %" PRIu64 " MiB, which is max-memory: it ends here. Raise --max-memory, lower "
                    "--frequency, or let the daemon (`spanprof run`) send what has no end",
                    record->max_memory_bytes >> 20);
        return session_end(&record->session);
}

/* While it runs: a command is gone when the tables are printed. */
static void look_for_tracing(void *userdata, const Process *process, SelectorReason reason) {
        Record *record = userdata;
        const TracingHint *hint;

        if (record->tracing.size || record->n_tracing_looks >= MAX_TRACING_LOOKS)
                return;
        record->n_tracing_looks++;
        hint = tracing_hint_read((pid_t)process->pid);
        if (hint)
                text_printf(&record->tracing, "process %" PRIu32 " runs %s and publishes no spans; this switches it on: %s",
                            process->pid, hint->library, hint->line);
}

static int on_window(void *userdata, const Window *window, uint64_t *n_lostp) {
        Record *record = userdata;
        int r;

        daemon_each_target(record->session.daemon, look_for_tracing, record);
        daemon_tables_progress(record->session.daemon, &record->n_tables_made, &record->n_tables);

        record->most_targets = MAX(record->most_targets, daemon_n_targets(record->session.daemon));
        r = window_merge(record->convert.window, window, n_lostp);
        return r ? r : end_when_full(record);
}

typedef struct Chosen {
        Text names;
        size_t n;
} Chosen;

static void name_target(void *userdata, const Process *process, SelectorReason reason) {
        Chosen *chosen = userdata;

        if (chosen->n++ >= MAX_NAMED)
                return;
        text_printf(&chosen->names, "%s", chosen->n > 1 ? ", " : ": ");
        text_append_masked(&chosen->names, process->comm);
        text_printf(&chosen->names, " (%" PRIu32 ")", process->pid);
}

/* Whom, before time goes into a recording of others, or of nobody. */
static void say_whom(Daemon *daemon) {
        _cleanup_(text_deinit) Text more = { 0 };
        Chosen chosen = { 0 };

        daemon_each_target(daemon, name_target, &chosen);
        if (chosen.n > MAX_NAMED)
                text_printf(&more, " and %zu more", chosen.n - MAX_NAMED);
        if (chosen.n)
                log_notice("chosen: %zu process%s%s%s", chosen.n, chosen.n == 1 ? "" : "es",
                           chosen.names.data ? chosen.names.data : "", more.data ? more.data : "");
        else
                log_notice("none of the processes that run is chosen; what begins meanwhile may be");
        text_deinit(&chosen.names);
}

static int on_started(void *userdata, Daemon *daemon) {
        Record *record = userdata;

        record->begin_ns = clock_read_ns(CLOCK_REALTIME);
        record->most_targets = daemon_n_targets(daemon);
        if (!record->cli->n_arguments)
                say_whom(daemon);
        return 0;
}

/* Events that they have written by then are still read. */
static void on_ending(void *userdata) {
        Record *record = userdata;

        jfr_start_stop(record->recordings);
}

static void show_progress(void *userdata, Daemon *daemon) {
        Record *record = userdata;
        uint64_t limit_ns = record->cli->config.daemon.duration_ns,
                 passed_ns = clock_read_ns(CLOCK_REALTIME) - record->begin_ns;
        uint64_t n_samples = stat_get(COUNTER_TICKS) -
                MIN(stat_get(COUNTER_TICKS), stat_get(COUNTER_LOST_NOT_TARGET));
        size_t n = daemon_n_targets(daemon);
        uint32_t n_made, n_tables;

        daemon_tables_progress(daemon, &n_made, &n_tables);
        fprintf(stderr, "\rrecording %.1f", (double)passed_ns / (double)NS_PER_SEC);
        if (limit_ns)
                fprintf(stderr, " of %.0f", (double)limit_ns / (double)NS_PER_SEC);
        fprintf(stderr, " s: %zu process%s, %" PRIu64 " samples, %" PRIu64 " lost", n, n == 1 ? "" : "es", n_samples,
                stat_lost() - stat_get(COUNTER_LOST_NOT_TARGET));
        if (n_tables)
                fprintf(stderr, "; reading tables %" PRIu32 "/%" PRIu32, n_made, n_tables);
        fprintf(stderr, "; Ctrl-C ends it\033[K");
        fflush(stderr);
        record->progress_shown = true;
}

/* A command that writes to the terminal is not written over, unless that is asked for. */
static bool wants_progress(const Record *record) {
        bool shared = record->cli->n_arguments && isatty(STDOUT_FILENO);

        return log_level() >= LOG_NOTICE && isatty(STDERR_FILENO) && !shared;
}

/* ---- what came out ---- */

static int write_document(const uint8_t *data, size_t size, uint64_t n_events, void *userdata) {
        Record *record = userdata;
        int r = outfile_write(&record->output, data, size);

        if (!r)
                return 0;
        log_error("%s: cannot be written: %s", record->path, strerror(-r));
        return STATUS_FAILURE;
}

static int write_file(Record *record) {
        Text problem = { 0 };
        int r = outfile_open(&record->output, record->path, &recording);

        if (r) {
                log_error("%s: cannot be written: %s", record->path, outfile_problem(r));
                return STATUS_FAILURE;
        }
        r = record->writer->write(&record->convert, write_document, record, &problem);
        if (r == CONVERT_E_OUTPUT && problem.data)
                log_error("%s: %s", record->path, problem.data);
        text_deinit(&problem);
        if (!r && !record->output.size && !strcmp(record->writer->name, "json"))
                /* without a sample there is no request, but a document there is */
                r = outfile_write(&record->output, "{}\n", 3);
        session_unwatch_signals(&record->session);      /* from here on it is written */
        if (r > 0)
                return STATUS_FAILURE;
        if (!r)
                r = outfile_finish(&record->output);
        if (r)
                log_error("%s: cannot be written: %s", record->path, outfile_problem(r));
        return r ? STATUS_FAILURE : 0;
}

/*
 * Where tables go. Standard output is the recording's, if that is its name, or the command's: who keeps its
 * output in a file or a pipe wants no table in it.
 */
static FILE *tables_out(const Record *record) {
        bool taken = !strcmp(record->path, "-") || (record->cli->n_arguments && !isatty(STDOUT_FILENO));

        return taken ? stderr : stdout;
}

static int print_tables(const Record *record) {
        const Config *config = &record->cli->config;
        TablesFormat format = { .rows = inputs_is_set(config, "top") ? config->report.top : 10,
                                .width = cli_output_width(),
                                .has_java = config_has_runtime(config, "hotspot"),
                                .has_python = config_has_runtime(config, "python"),
                                .has_v8 = config_has_runtime(config, "v8"),
                                .lacks_waits = !config->waits.off_cpu && !config->targets.all,
                                .is_all = config->targets.all,
                                .tracing = record->tracing.data };
        FILE *out = tables_out(record);
        Counts counts;
        int r;

        counts_init(&counts);
        r = counts_add(&counts, record->convert.window);
        if (!r)
                r = tables_print(&counts, &record->summary, &format, out);
        counts_deinit(&counts);
        fflush(out);
        return r;
}

/* With the recording that --compare names. Return: 0, STATUS_SLOWER, STATUS_FAILURE, -ENOMEM. */
static int compare(const Record *record) {
        const Config *config = &record->cli->config;
        _cleanup_(report_freep) Report *after = NULL;
        int r;

        if (!record->baseline)
                return 0;
        if (!window_n_events(record->convert.window))   /* which was said */
                return inputs_is_set(config, "fail-above") ? STATUS_FAILURE : 0;
        r = report_new(&after, &(ReportOptions){ 0 });
        if (!r)
                r = report_add(after, record->convert.window);
        if (!r)
                r = comparison_print(config, record->baseline, after, tables_out(record));
        fflush(tables_out(record));
        return r ? r : comparison_check(config, record->baseline, after);
}

/* A map of code that is written at half time, or as the program ends, names what was sampled before. */
static int name_late(Window *window, void *userdata) {
        Record *record = userdata;
        uint32_t n;
        int r = daemon_name_late(record->session.daemon, window, &n);

        if (!r && n)
                log_info("%" PRIu32 " places in code that was made at run time got their names at the end", n);
        return r;
}

/* Names for what had none yet, and the period that was the true one over all of the time. */
static int close_window(Record *record) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = NULL;
        double rate = summary_rate(&record->summary);
        SymbolizerOptions options = { 0 };
        int r;

        line_options_put(&record->cli->config, false, &options);
        remote_symbols_put(&record->remote, &options);
        r = symbolizer_new(&symbolizer, &options);
        if (r)
                return r;
        record->options.symbolizer = symbolizer;
        if (rate > 0)
                window_set_period(record->convert.window, PROFILE_CPU, (int64_t)((double)NS_PER_SEC / rate));
        convert_cover(&record->convert, record->begin_ns, clock_read_ns(CLOCK_REALTIME));
        record->options.closed = name_late;
        record->options.userdata = record;
        r = convert_close(&record->convert);
        line_options_say_missing(&record->cli->config, symbolizer);
        record->options.symbolizer = NULL;
        return r;
}

static void say_where(const Record *record) {
        if (record->session.signal)
                log_notice("ended by %s", strsignal(record->session.signal));
        if (strcmp(record->path, "-"))
                log_notice("%s: %.1f KiB", record->path, (double)record->output.size / 1024);
}

static void say_no_samples(const Record *record) {
        const Summary *summary = &record->summary;
        double rate = summary_rate(summary);
        const NoSamplesFacts facts = { .command = record->cli->n_arguments > 0,
                                       .n_processes = record->most_targets,
                                       .cpu_ns = summary->target_cpu_ns,
                                       .period_ns = rate > 0 ? (uint64_t)((double)NS_PER_SEC / rate) : 0,
                                       .n_lost = stat_lost() - stat_get(COUNTER_LOST_NOT_TARGET) };
        _cleanup_(text_deinit) Text text = { 0 };

        no_samples_explain(&facts, &record->cli->config, &text);
        log_warning("%s", text.data ? text.data : "not one sample");
}

/* A command has a status of its own, which is told whatever was sampled of it. */
static int status_of(const Record *record) {
        bool has_any = window_n_events(record->convert.window);

        return has_any || record->cli->n_arguments ? 0 : STATUS_FAILURE;
}

/* In a thread of its own: the main one is anywhere between the last sample and the end of the file. */
static void give_up(void *userdata) {
        const Record *record = userdata;

        log_warning("stopped once more: the recording is given up, %" PRIu64 " samples; %s is not written",
                    record->n_kept, strcmp(record->path, "-") ? record->path : "standard output");
        outfile_abandon(&record->output);
}

static int finish(Record *record) {
        int r, r_tables;

        daemon_summarize(record->session.daemon, &record->summary);
        r = close_window(record);
        if (r)
                return r;
        if (!window_n_events(record->convert.window))
                say_no_samples(record);
        recording_facts_make(&record->facts, &record->cli->config, record->session.command.name,
                             &record->summary);
        recording_facts_add_tables(&record->facts, record->n_tables_made, record->n_tables);
        record->convert.page = &record->facts.options;
        r = write_file(record);
        r_tables = print_tables(record);
        if (!r)
                say_where(record);
        if (!r && !r_tables)
                r = compare(record);
        return r ? r : r_tables ? r_tables : status_of(record);
}

/* ---- all of it ---- */

static int run_session(Record *record) {
        int r = session_run(&record->session), failure = 0;

        hide_progress(record);
        if (r == DAEMON_E_UNUSABLE)
                return STATUS_CONFIG;
        if (r)
                return r < 0 ? r : STATUS_FAILURE;
        if (command_has_ended(&record->session.command))
                failure = command_failure(&record->session.command);
        if (failure) {
                log_error("%s: cannot be started: %s", record->session.command.name, strerror(failure));
                return 0;
        }
        record->n_kept = window_n_events(record->convert.window);
        session_watch_signals(&record->session);
        r = finish(record);
        session_unwatch_signals(&record->session);
        return r;
}

/* Return: the signal that has ended the wait, 0 = none. */
static int wait_for_command(Record *record) {
        Command *command = &record->session.command;
        int number = command_wait(command, &record->session.signals);

        if (number)
                log_warning("%s, once more: does not wait for %s any longer, which runs on as process %d",
                            strsignal(number), command->name, (int)command->pid);
        return number;
}

static int run_record(Record *record) {
        const SessionOptions options = {
                .config = &record->cli->config,
                .command = record->cli->n_arguments ? record->cli->arguments : NULL,
                .interval_ns = WINDOW_NS,
                .has_one_window = true,
                .progress_ns = wants_progress(record) ? PROGRESS_NS : 0,
                .window = on_window, .started = on_started, .ending = on_ending,
                .progress = show_progress, .give_up = give_up,
                .userdata = record,
        };
        Command *command = &record->session.command;
        const ConfigList *wanted = &record->cli->config.filter.types;
        FilterWords types = { wanted->items, wanted->n_items };
        int r, number = 0;

        record->options = (ConvertOptions){ .end_ns = UINT64_MAX,
                                            .timestamps = true,
                                            .filter = { .end_ns = UINT64_MAX, .types = types },
                                            .version = SPANPROF_VERSION };
        r = convert_init(&record->convert, &record->options);
        record->cli->arguments[record->cli->n_arguments] = NULL;        /* of argv, which ends with one too */
        if (!r)
                r = session_init(&record->session, &options);
        if (!r)
                r = run_session(record);
        if (r < 0)
                log_error("stopped by an error: %s", strerror(-r));
        if (command->pid && command->go < 0)
                number = wait_for_command(record);
        if (command->pid && (command->is_done || number) && (!r || command_exit_status(command)))
                r = number ? 128 + number : command_exit_status(command);
        session_deinit(&record->session);
        return r < 0 ? STATUS_FAILURE : r;
}

static int run(Cli *cli) {
        Record record = { .cli = cli, .output = OUTFILE_NONE };
        int r = check(&record);

        if (!r) {
                if (!inputs_is_set(&cli->config, "log-level"))
                        log_set_level(LOG_LEVEL_NOTICE);
                r = start_recordings(&record);
                if (!r)
                        r = remote_symbols_init(&record.remote, &cli->config);
                if (!r)
                        r = run_record(&record);
                remote_symbols_deinit(&record.remote);
                jfr_start_free(record.recordings);
        }
        text_deinit(&record.tracing);
        outfile_deinit(&record.output);
        convert_deinit(&record.convert);
        report_free(record.baseline);
        symbolizer_free(record.baseline_names);
        return r;
}

const Verb verb_record = {
        .name = "record",
        .bit = VERB_RECORD,
        .arguments = "[-- COMMAND…]",
        .max_arguments = INT_MAX,
        .takes_command = true,
        .summary = "record a command or processes of this host into a flame graph, without a receiver",
        .description =
                "Samples COMMAND with all processes that descend from it, from its first instruction until it ends, or\n"
                "processes that run already, until the duration or Ctrl-C ends it. What came out is written to a file\n"
                "(default: " DEFAULT_OUTPUT
                ") in the form that its ending says: .html (a page with a flame graph), .svg,\n"
                ".folded, .pb.gz (pprof), .otlp or .pb, .json, .speedscope.json, .firefox.json; `-o -` is standard output and\n"
                "needs --format. The file appears whole or not at all, and one that was there is kept as FILE.old. Ends with\n"
                "tables: the hottest functions and spans, coverage, losses.\n"
                "\n"
                "COMMAND is started as whoever has started spanprof: under sudo, as root, as with other profilers; for a\n"
                "program that should not be, `sudo spanprof record -- sudo -u \"$USER\" ./app`. A new recording belongs to\n"
                "the caller of sudo. If the duration ends first, COMMAND runs on, and spanprof waits for it. Once told to\n"
                "end, it gives up what it still does if it is told again a second later or more, and says so. The exit\n"
                "status is COMMAND's, 128 + N for signal N, 126 if it cannot be executed and 127 if it is not found;\n"
                "failures of spanprof itself are 1, 2 and 78, and 3 is what --fail-above found. Without a COMMAND it is a\n"
                "failure, too, if there is not one sample; what was missing is said.\n"
                "\n"
                "Tables go to standard error where standard output is a COMMAND's and no terminal.\n"
                "No configuration file is read. The daemon of this host may run meanwhile: each samples for itself.\n"
                "\n"
                "  spanprof record -- ./app -x                    a command, to " DEFAULT_OUTPUT "\n"
                "  spanprof record -d 10 -p 812 -o hot.pb.gz      a process for ten seconds, for pprof\n"
                "  spanprof record -a -d 30 -F 499 -o all.html    everything on this machine\n"
                "  spanprof record --compare main.pb --fail-above 5 -- ./bench   in CI: status 3 if a function grew so\n"
                "  spanprof record -u nginx -d 10 -o - --format folded | flamegraph.pl >nginx.svg\n",
        .run = run,
};
