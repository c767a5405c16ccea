/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prints the hottest functions, spans and waits as tables, and a hint for what has no name.
 */

#include "desk/live/tables.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/terminal/terminal.h"
#include "core/base/terminal/text-table.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"
#include "desk/live/code-hint.h"
#include "desk/report/glossary.h"

enum {
        INDENT = 2,
        LINE_INDENT = 13,               /* of text behind `  samples    ` */
        MOSTLY_WAITS = 4,               /* targets that had less than this part of a CPU mostly waited */
};

static double percent(uint64_t part, uint64_t whole) {
        return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* Prints the table and says how many of its @n rows are left out. */
static int end_table(TextTable *table, size_t n, const TablesFormat *format, FILE *out) {
        int r = text_table_print(table, INDENT, format->width, out);

        if (!r && n > format->rows)
                fprintf(out, "%*s… and %zu more\n", INDENT, "", n - format->rows);
        text_table_deinit(table);
        return r;
}

static int print_functions(const Counts *counts, const TablesFormat *format, FILE *out) {
        static const Column columns[] = { { "self", COLUMN_RIGHT },
                                          { "total", COLUMN_RIGHT },
                                          { "function", COLUMN_NAME },
                                          { "in", COLUMN_CUT } };
        _cleanup_(freep) CountsRow *rows = NULL;
        TextTable table;
        size_t n;
        int r = counts_rows(counts, COUNTS_FUNCTIONS, COUNTS_BY_SELF, &rows, &n);

        if (r)
                return r;
        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < MIN(n, format->rows); i++) {
                text_table_add(&table, "%.1f %%", percent(rows[i].self, counts->n_events));
                text_table_add(&table, "%.1f %%", percent(rows[i].total, counts->n_events));
                text_table_add(&table, "%s", rows[i].texts[0]);
                text_table_add(&table, "%s", rows[i].texts[1]);
        }
        return end_table(&table, n, format, out);
}

/* A table: the share first, then texts of a row in the order of @texts. Without rows it is not there. */
typedef struct Shares {
        CountsTable table;
        size_t n_columns;
        Column columns[COUNTS_MAX_TEXTS];
        unsigned texts[COUNTS_MAX_TEXTS - 1];
} Shares;

static int print_shares(const Counts *counts, const Shares *shares, uint64_t whole,
                        const TablesFormat *format, FILE *out) {
        _cleanup_(freep) CountsRow *rows = NULL;
        TextTable table;
        size_t n;
        int r = counts_rows(counts, shares->table, COUNTS_BY_SELF, &rows, &n);

        if (r || !n)
                return r;
        fprintf(out, "\n");
        text_table_init(&table, shares->columns, shares->n_columns);
        for (size_t i = 0; i < MIN(n, format->rows); i++) {
                text_table_add(&table, "%.1f %%", percent(rows[i].self, whole));
                for (size_t k = 0; k + 1 < shares->n_columns; k++)
                        text_table_add(&table, "%s", rows[i].texts[shares->texts[k]]);
        }
        return end_table(&table, n, format, out);
}

static const Shares operations = {
        COUNTS_OPERATIONS, 3,
        { { "share", COLUMN_RIGHT }, { "operation", COLUMN_CUT }, { "of", COLUMN_CUT } },
        { 0, 1 },
};

/* Tasks of asyncio, and coroutines that have stations. */
static const Shares tasks = {
        COUNTS_COROUTINES, 3,
        { { "share", COLUMN_RIGHT }, { "task", COLUMN_CUT }, { "of", COLUMN_CUT } },
        { 4, 3 },
};

static const Shares spans = {
        COUNTS_SPANS, 5,
        { { "share", COLUMN_RIGHT }, { "span", COLUMN_LEFT }, { "of trace", COLUMN_LEFT }, { "of", COLUMN_CUT },
          { "which says", COLUMN_CUT } },
        { 0, 1, 3, 2 },
};

/* Time without a CPU (--off-cpu): of which threads, on what, in which function of the program. */
static const Shares waits = {
        COUNTS_WAITS, 6,
        { { "waits", COLUMN_RIGHT }, { "thread", COLUMN_LEFT }, { "state", COLUMN_LEFT }, { "on", COLUMN_CUT },
          { "in", COLUMN_NAME }, { "ended by", COLUMN_CUT } },
        { 0, 1, 2, 3, 4 },
};

/* Something that a recording does not have, and what it says of it. */
typedef struct Loss {
        enum counter counter;
        const char *words;
} Loss;

/* Ends a line with those of @losses that there were, behind @begin. */
static void print_missing(const Loss *losses, size_t n, const char *begin, FILE *out) {
        for (size_t i = 0; i < n; i++)
                if (stat_get(losses[i].counter)) {
                        fprintf(out, "%s%s (%" PRIu64 ")", begin, losses[i].words, stat_get(losses[i].counter));
                        begin = ", ";
                }
        fprintf(out, "\n");
}

/* How long all threads waited together, and what of their waits is not in that. */
static void print_wait_time(const Counts *counts, FILE *out) {
        static const Loss losses[] = {
                { COUNTER_WAITS_THREADS_OVER_CAP, "of more threads than are followed" },
                { COUNTER_WAITS_EARLY_OVER_CAP, "under way as it began" },
                { COUNTER_WAITS_LOST, "without room" },
                { COUNTER_WAITS_UNSEEN, "whose end the kernel hid" },
                { COUNTER_WAITS_WINDOW_FULL, "beyond the recording's cap" },
        };

        if (!counts->wait_ns && !stat_get(COUNTER_WAITS))
                return;
        fprintf(out, "  waits      %.2f s of threads without a CPU", (double)counts->wait_ns / (double)NS_PER_SEC);
        print_missing(losses, ARRAY_SIZE(losses), "; not whole: waits ", out);
}

/* Page faults of targets, and which of them the recording does not have. */
static void print_faults(FILE *out) {
        static const Loss losses[] = {
                { COUNTER_FAULT_SAMPLES_RING_FULL, "samples that found the ring full" },
                { COUNTER_FAULT_SAMPLES_GONE, "samples of programs that were forgotten" },
                { COUNTER_FAULT_SAMPLES_WINDOW_FULL, "samples beyond the recording's cap" },
                { COUNTER_FAULTS_BUDGET, "faults of all programs, too many at once" },
        };
        uint64_t n = stat_get(COUNTER_FAULTS) - stat_get(COUNTER_FAULTS_NOT_TARGET),
                 n_samples = stat_get(COUNTER_FAULT_SAMPLES) - stat_get(COUNTER_FAULT_SAMPLES_NOT_TARGET);

        if (!n)
                return;
        fprintf(out, "  growth     %" PRIu64 " page faults by %" PRIu64 " samples: `report --type page_faults` of the "
                     "file has them",
                n, n_samples);
        print_missing(losses, ARRAY_SIZE(losses), "; not whole: without ", out);
}

/* A tick on a process that was not chosen is no loss to people, though the books must count it as one. */
static void print_losses(FILE *out) {
        uint64_t n_lost = stat_lost() - stat_get(COUNTER_LOST_NOT_TARGET);
        const char *separator = ": ";

        fprintf(out, "  lost       %" PRIu64, n_lost);
        for (enum counter counter = 0; counter < COUNTER_N; counter++) {
                const char *reason;

                if (strcmp(stat_metric(counter), "lost_total") || !stat_get(counter) ||
                    counter == COUNTER_LOST_NOT_TARGET)
                        continue;
                reason = strchr(stat_label(counter), '"') + 1;
                fprintf(out, "%s%.*s %" PRIu64, separator, (int)strcspn(reason, "\""), reason,
                        stat_get(counter));
                separator = ", ";
        }
        fprintf(out, "\n");
}

/* Stacks that lead through what was left out say `no_mapping`: here is why. */
static void print_mappings(FILE *out) {
        uint64_t n = stat_get(COUNTER_MAPPINGS_OVER_CAP);

        if (n)
                fprintf(out,
                        "  mappings   %" PRIu64 " executable ones are over the cap of a process: stacks end where "
                        "they lead through them\n",
                        n);
}

static int print_truncated(const Counts *counts, FILE *out) {
        _cleanup_(freep) CountsRow *rows = NULL;
        size_t n;
        int r = counts_rows(counts, COUNTS_REASONS, COUNTS_BY_SELF, &rows, &n);

        if (r)
                return r;
        fprintf(out, "  incomplete %.1f %% of the stacks", percent(counts->n_truncated, counts->n_events));
        for (size_t i = 0; i < n; i++) {
                const char *words = glossary_end(rows[i].texts[0]);

                fprintf(out, "%s", i ? ", " : ", ended at ");
                text_print(words, strlen(words), out);
                fprintf(out, " (%" PRIu64 ")", rows[i].self);
        }
        fprintf(out, "\n");
        return 0;
}

static bool ends_with(const char *name, const char *end) {
        size_t n = strlen(name);

        return n >= strlen(end) && !strcmp(name + n - strlen(end), end);
}

static bool begins_with(const char *name, const char *start) {
        return !strncmp(name, start, strlen(start));
}

#define OFF(_language, _runtime) \
        "functions of " _language " are not read: `--runtimes` leaves " _runtime " out"

/* The file with most stacks that is a virtual machine's, of a program that is called otherwise. */
static const char *hint_by_files(const CountsRow *functions, size_t n) {
        const char *hint = NULL;
        uint64_t most = 0;

        for (size_t i = 0; i < n; i++) {
                const char *found = functions[i].total > most ? code_hint(functions[i].texts[1]) : NULL;

                hint = found ?: hint;
                most = found ? functions[i].total : most;
        }
        return hint;
}

/* What names code that a program makes while it runs, by the program that used most, else by its files. */
static const char *hint_for_code(const Counts *counts, const CountsRow *functions, size_t n_functions,
                                 const TablesFormat *format) {
        _cleanup_(freep) CountsRow *rows = NULL;
        const char *program = "", *hint;
        size_t n;

        /* a program that writes names has its flag set already */
        if (stat_get(COUNTER_CODE_RECORDS_OVER_CAP))
                return "its names are read, but are more than are kept: those that came first were dropped";
        if (stat_get(COUNTER_CODE_RECORDS))
                return "names that a program writes are read, but none of them is for this code";
        if (!counts_rows(counts, COUNTS_PROCESSES, COUNTS_BY_SELF, &rows, &n) && n)
                program = rows[0].texts[0];
        if (begins_with(program, "java") && !format->has_java)
                return OFF("Java", "hotspot");
        if (begins_with(program, "node") && !format->has_v8)
                return OFF("JavaScript", "v8");
        hint = code_hint(program) ?: hint_by_files(functions, n_functions);
        if (hint)
                return hint;
        return stat_get(COUNTER_OBJECTS_REMOTE)
                ? "files on FUSE or a network are not read; `spanprof targets` says which process has such"
                : "`node --perf-basic-prof`, `jcmd PID Compiler.perfmap` name such code";
}

/* Of an interpreter it is not its own symbols that people miss. */
static const char *hint_for_file(const char *object, bool has_python, const TablesFormat *format) {
        if (begins_with(object, "python") || begins_with(object, "libpython"))
                return !format->has_python ? OFF("Python", "python")
                        : has_python       ? "the interpreter itself, beside the functions of Python that it runs; packages "
                                             "of debug symbols name its own"
                                           : "the interpreter itself; `spanprof targets --verbose` says whether "
                                             "functions of Python are read";
        if (begins_with(object, "libjvm"))
                return !format->has_java ? OFF("Java", "hotspot")
                                         : "the JVM itself: its collectors and compilers; `spanprof targets "
                                           "--verbose` says whether functions of Java are read";
        return "packages of debug symbols name them, and --debuginfod fetches these";
}

/* `[libblas.so.3]`: all code of that file that has no name. */
static bool is_unnamed(const char *function, const char *object) {
        size_t n = strlen(object);

        if (*object == '[')
                return !strcmp(function, object);
        return *function == '[' && !strncmp(function + 1, object, n) && !strcmp(function + 1 + n, "]");
}

/*
 * What would name functions without one, which stand in the table by their files. A few are no reason to do
 * something about it, and names of code at run time come up to a second after the code.
 */
static int print_unnamed(const Counts *counts, const TablesFormat *format, FILE *out) {
        _cleanup_(freep) CountsRow *rows = NULL;
        bool has_python = false;
        uint64_t n_code = 0, n_files = 0, least = counts->n_events / 10;
        const char *most = "";
        size_t n;
        int r = counts_rows(counts, COUNTS_FUNCTIONS, COUNTS_BY_SELF, &rows, &n);

        for (size_t i = 0; i < n && !r; i++) {
                has_python |= ends_with(rows[i].texts[1], ".py");
                /* it calls into its runtime, which has names: what counts is where it took part */
                if (!strcmp(rows[i].texts[0], COUNTS_NO_NAME)) {
                        n_code = MAX(n_code, rows[i].total);
                } else if (is_unnamed(rows[i].texts[0], rows[i].texts[1])) {
                        most = n_files ? most : rows[i].texts[1];
                        n_files += rows[i].self;
                }
        }
        if (n_code > least)
                fprintf(out, "  unnamed    %.1f %% of the stacks go through code outside of files: %s\n",
                        percent(n_code, counts->n_events), hint_for_code(counts, rows, n, format));
        if (n_files > least) {
                fprintf(out, "  unnamed    %.1f %% in files without symbols, as ",
                        percent(n_files, counts->n_events));
                text_print(most, strlen(most), out);
                fprintf(out, ": %s\n", hint_for_file(most, has_python, format));
        }
        return r;
}

/* A loop of asyncio whose samples are of no task that has a name. */
static int print_tasks_unread(const Counts *counts, FILE *out) {
        _cleanup_(freep) CountsRow *functions = NULL, *known = NULL;
        size_t n, n_known;
        bool has_loop = false;
        int r = counts_rows(counts, COUNTS_FUNCTIONS, COUNTS_BY_TOTAL, &functions, &n);

        if (!r)
                r = counts_rows(counts, COUNTS_COROUTINES, COUNTS_BY_SELF, &known, &n_known);
        for (size_t i = 0; !r && !n_known && i < n && !has_loop; i++)
                has_loop = ends_with(functions[i].texts[0], "_run_once") &&
                        !strcmp(functions[i].texts[1], "base_events.py");
        if (has_loop)
                fprintf(out, "  tasks      of asyncio have no names here: those are read of Python 3.14 and newer\n");
        return r;
}

static int print_quality(const Counts *counts, const Summary *summary, const TablesFormat *format,
                         FILE *out) {
        const char *cause = coverage_cause_text(summary_coverage_cause(summary));
        double coverage = summary_coverage(summary);
        int r;

        fprintf(out, "\n  samples    %" PRIu64 " in %.1f s at %.0f Hz a CPU, %.2f s of CPU time\n",
                counts->n_events, (double)summary->duration_ns / (double)NS_PER_SEC, summary_rate(summary),
                counts->cpu_ns / (double)NS_PER_SEC);
        if (coverage > 0)
                fprintf(out,
                        "  coverage   %.1f %% of the %.2f s of CPU time that the kernel counted for them\n",
                        100 * coverage, (double)summary->target_cpu_ns / (double)NS_PER_SEC);
        if (*cause)
                fprintf(out, "             not whole: %s\n", cause);
        print_losses(out);
        print_wait_time(counts, out);
        print_faults(out);
        if (format->lacks_waits && counts->n_events &&
            summary->target_cpu_ns < summary->duration_ns / MOSTLY_WAITS)
                fprintf(out, "  waits      not counted: samples are CPU time, and there was little of it; with "
                             "--off-cpu waits are counted, too, and `report --wall` of that file shows all time as one\n");
        if (format->is_all)
                fprintf(out, "  left out   the kernel's own threads (kworker, ksoftirqd): `perf record -a` samples them\n");
        if (!counts->n_linked && format->tracing)
                fprintf(out, "  in spans   none: %s\n", format->tracing);
        else
                fprintf(out, "  in spans   %.1f %%\n", percent(counts->n_linked, counts->n_events));
        r = print_unnamed(counts, format, out);
        if (!r)
                r = print_tasks_unread(counts, out);
        if (!r)
                r = print_truncated(counts, out);
        print_mappings(out);
        return r;
}

/* The lines below the tables, each within the terminal's width, if there is one. */
static int print_lines(const Counts *counts, const Summary *summary, const TablesFormat *format, FILE *out) {
        _cleanup_(freep) char *lines = NULL;
        size_t size;
        FILE *memory = open_memstream(&lines, &size);
        int r;

        if (!memory)
                return error_origin(-ENOMEM);
        r = print_quality(counts, summary, format, memory);
        if (fclose(memory))
                return error_origin(-ENOMEM);
        cli_print_wrapped(lines, format->width, LINE_INDENT, out);
        return r;
}

int tables_print(const Counts *counts, const Summary *summary, const TablesFormat *format, FILE *out) {
        TablesFormat wide = *format;
        int r;

        wide.width = wide.width ? MAX(wide.width, 60u) : 100;
        r = counts->n_events ? print_functions(counts, &wide, out) : 0;
        if (!r)
                r = print_shares(counts, &waits, counts->wait_ns, &wide, out);
        if (!r)
                r = print_shares(counts, &operations, counts->n_events, &wide, out);
        if (!r)
                r = print_shares(counts, &tasks, counts->n_events, &wide, out);
        if (!r)
                r = print_shares(counts, &spans, counts->n_events, &wide, out);
        return r ? r : print_lines(counts, summary, format, out);
}
