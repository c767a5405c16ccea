/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command line of coroTracer, so that scripts that call it work with spanprof in its place. Flags have
 * one dash or two, and their value behind `=` or in the next word; the first word that is none ends them.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/util/log.h"
#include "desk/coro/engine/engine.h"
#include "desk/coro/read/trace-source.h"
#include "desk/coro/trace/trace-read.h"
#include "desk/coro/trace/trace-writer.h"
#include "host/cli/cli.h"

typedef struct Flag {
        const char *name, *value;
} Flag;

enum {
        FLAG_N,
        FLAG_CMD,
        FLAG_SHM,
        FLAG_SOCK,
        FLAG_OUT,
        FLAG_EXPORT,
        FLAG_IN,
        FLAG_SQLITE_OUT,
        FLAG_CSV_OUT,
};

static const Flag defaults[] = {
        [FLAG_N] = { "n", "128" },
        [FLAG_CMD] = { "cmd", "" },
        [FLAG_SHM] = { "shm", "/tmp/corotracer.shm" },
        [FLAG_SOCK] = { "sock", "/tmp/corotracer.sock" },
        [FLAG_OUT] = { "out", "trace_output.jsonl" },
        [FLAG_EXPORT] = { "export", "" },
        [FLAG_IN] = { "in", "" },
        [FLAG_SQLITE_OUT] = { "sqlite-out", "" },
        [FLAG_CSV_OUT] = { "csv-out", "" },
        { "db-cli", "" }, { "db-host", "" }, { "db-port", "" }, { "db-user", "" },
        { "db-password", "" }, { "db-name", "" }, { "db-table", "" }, { "mysql-socket", "" },
        { "pg-maintenance-db", "" }, { "pg-sslmode", "" },
};

static Flag *find_flag(Flag *flags, const char *name, size_t size) {
        for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
                if (strlen(flags[i].name) == size && !memcmp(flags[i].name, name, size))
                        return &flags[i];
        return NULL;
}

/* Return: STATUS_*, -1 = go on. */
static int parse(Cli *cli, Flag *flags) {
        for (int i = 0; i < cli->n_arguments; i++) {
                const char *word = cli->arguments[i], *name = word + 1 + (word[0] == '-' && word[1] == '-');
                size_t size = strcspn(name, "=");
                Flag *flag;

                if (word[0] != '-' || !word[1] || !strcmp(word, "--"))
                        return -1;
                flag = find_flag(flags, name, size);
                if (!flag && (!strcmp(name, "h") || !strcmp(name, "help"))) {
                        help_print_verb(&verb_corotracer, true);
                        return STATUS_OK;
                }
                if (!flag || (!name[size] && i + 1 == cli->n_arguments)) {
                        log_error(flag ? "flag needs an argument: %s" : "flag provided but not defined: %s",
                                  word);
                        log_error("try `spanprof corotracer -help`");
                        return STATUS_USAGE;
                }
                flag->value = name[size] ? name + size + 1 : cli->arguments[++i];
        }
        return -1;
}

static int trace(const Flag *flags) {
        char *argv[] = { (char *)"sh", (char *)"-c", (char *)flags[FLAG_CMD].value, NULL };
        CoroOptions options = {
                .region_path = flags[FLAG_SHM].value,
                .socket_path = flags[FLAG_SOCK].value,
                .output = flags[FLAG_OUT].value,
                .form = TRACE_JSONL,
                .trace = { .append = true, .mode = 0644 },
                .term_on_interrupt = true,
        };
        int status = STATUS_FAILURE, r;
        CoroSummary summary;
        uint64_t n;

        if (text_u64(flags[FLAG_N].value, REGION_MAX_STATIONS, &n) || !n) {
                log_error("invalid value \"%s\" for flag -n: 1 to %d", flags[FLAG_N].value,
                          REGION_MAX_STATIONS);
                return STATUS_USAGE;
        }
        options.n_stations = (uint32_t)n;
        r = coro_run(&options, argv, &summary, &status);
        if (r)
                return STATUS_FAILURE;
        coro_summary_log(&summary);
        return status;
}

static int put_event(void *userdata, const CoroEvent *event) {
        trace_writer_event(userdata, event);
        return 0;
}

/* INPUT without its last suffix, and with @ending. */
static char *derive_name(const char *input, const char *ending) {
        const char *slash = strrchr(input, '/'), *dot = strrchr(slash ? slash : input, '.');
        char *name = NULL;

        if (asprintf(&name, "%.*s%s", (int)(dot ? dot - input : (long)strlen(input)), input, ending) < 0)
                return NULL;
        return name;
}

/* Return: 0, TRACE_E_*, -errno; *problem says what is wrong with the input. */
static int copy(const Source *source, const char *output, TraceForm form, TraceReadCounts *counts,
                Text *problem) {
        _cleanup_(trace_writer_freep) TraceWriter *writer = NULL;
        TraceOptions options = { .mode = 0644,
                                 .whole = true,
                                 .payload_column = trace_mentions_payload(source->name) };
        TraceTakers to = { .event = put_event };
        uint64_t n_dropped;
        const char *failed = NULL;
        int r;

        outfile_note_input(&options.readers, &source->status);
        r = trace_writer_new(&writer, output, form, &options);
        to.userdata = writer;
        if (!r)
                r = trace_source_read(source, &to, counts, problem);
        if (!r)
                r = trace_writer_close(writer, &n_dropped, &failed);
        if (failed)
                text_printf(problem, "%s", failed);
        return r;
}

static int write_export(const char *input, const char *output, TraceForm form) {
        _cleanup_(source_deinit) Source source = { .fd = -1 };
        _cleanup_(text_deinit) Text problem = { 0 };
        TraceReadCounts counts = { 0 };
        int r = source_open(&source, input, &problem);

        if (!r)
                r = copy(&source, output, form, &counts, &problem);
        if (r == TRACE_E_FOREIGN)
                log_error("%s: there is a file that is no database; it is left alone", output);
        else if (r && r != TRACE_E_REFUSED)
                log_error("cannot convert %s to %s: %s", input, output,
                          problem.size ? problem.data : strerror(r < 0 ? -r : errno));
        else if (!r)
                log_info("%" PRIu64 " events from %s to %s", counts.n_events, input, output);
        if (!r && counts.n_malformed)
                log_warning("%" PRIu64 " lines of %s are no events and were left out", counts.n_malformed,
                            input);
        return r ? STATUS_FAILURE : STATUS_OK;
}

static int export_trace(const Flag *flags) {
        const char *kind = flags[FLAG_EXPORT].value,
                   *input = *flags[FLAG_IN].value ? flags[FLAG_IN].value : flags[FLAG_OUT].value;
        bool sqlite = !strcasecmp(kind, "sqlite");
        const char *output = flags[sqlite ? FLAG_SQLITE_OUT : FLAG_CSV_OUT].value;
        _cleanup_(freep) char *derived = NULL;

        if (!sqlite && strcasecmp(kind, "csv") && strcasecmp(kind, "dataframe")) {
                log_error(
                        "unsupported export target \"%s\": sqlite, csv and dataframe are there; other databases load the CSV",
                        kind);
                return STATUS_FAILURE;
        }
        if (!*output)
                output = derived = derive_name(input, sqlite ? ".sqlite" : ".csv");
        return output ? write_export(input, output, sqlite ? TRACE_SQLITE : TRACE_CSV) : STATUS_FAILURE;
}

static int run(Cli *cli) {
        Flag flags[ARRAY_SIZE(defaults)];
        int r;

        memcpy(flags, defaults, sizeof(flags));
        r = parse(cli, flags);
        if (r >= 0)
                return r;
        if (!*flags[FLAG_CMD].value == !*flags[FLAG_EXPORT].value) {
                log_error(*flags[FLAG_CMD].value ? "-cmd and -export cannot be used together"
                                                 : "either -cmd or -export is required");
                return STATUS_FAILURE;
        }
        return *flags[FLAG_CMD].value ? trace(flags) : export_trace(flags);
}

const Verb verb_corotracer = {
        .name = "corotracer",
        .arguments = "FLAG…",
        .raw = true,
        .summary = "stand in for coroTracer, with its command line",
        .description =
                "Takes coroTracer's flags as they are and writes what it writes:\n"
                "\n"
                "  -n 128  -cmd 'SHELL TEXT'  -shm /tmp/corotracer.shm  -sock /tmp/corotracer.sock  -out trace_output.jsonl\n"
                "  -export sqlite|csv|dataframe  -in TRACE  -sqlite-out FILE  -csv-out FILE\n"
                "\n"
                "Called by the name `corotracer`, spanprof does the same. Losses are\n"
                "counted and said, the command's exit status is passed on, and a line that was cut fails no export.\n"
                "New scripts are better off with `spanprof coro` and `spanprof convert`.\n"
                "\n"
                "  spanprof corotracer -n 512 -cmd './server 4' -out trace.jsonl\n"
                "  spanprof corotracer -export sqlite -in trace.jsonl",
        .run = run,
};
