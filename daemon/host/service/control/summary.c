/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Adds up the counters of losses by cause, compares the sum with the ticks, and prints all as lines of the
 * log and as JSON.
 */

#include "host/service/control/summary.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/data/json-writer.h"
#include "core/base/file/outfile.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"

/* ratio of ticks that differences between the clocks of ticks and books explain */
#define MAX_RATIO 1.05

enum {
        CHANCE_TICKS = 30,              /* ticks that chance may add to a few: none of them was missed */
        LABEL_MAX = 64,                 /* bytes of the value of a label */
        MAX_UNKNOWN_PERCENT = 2,        /* share of the ticks that coverage counts */
};

double summary_rate(const Summary *summary) {
        double cpu_seconds = (double)summary->duration_ns / (double)NS_PER_SEC * summary->n_cpus;

        return cpu_seconds > 0 ? summary->programmed / cpu_seconds : 0;
}

double summary_expected(const Summary *summary) {
        return (double)summary->target_cpu_ns / (double)NS_PER_SEC * summary_rate(summary) +
                (double)summary->n_boosted;
}

/*
 * Ticks on processes that were undecided and then rejected belong to no target's CPU time. Ticks that were
 * lost before their process was judged may belong to either: they are left out, and where they are many the
 * ratio would say little. More ticks than the CPU time stands for mean that time was missed, of processes
 * that came and went between two looks of a daemon that was held up: that is no ratio of anything either.
 */
double summary_coverage(const Summary *summary) {
        double expected = summary_expected(summary);
        uint64_t unknown = stat_get(COUNTER_UNDECIDED_LOST),
                 ticks = stat_get(COUNTER_TICKS) - stat_get(COUNTER_LOST_NOT_TARGET) - unknown;

        if (expected <= 0)
                return 0;
        if (unknown * 100 > ticks * MAX_UNKNOWN_PERCENT ||
            (double)ticks > MAX_RATIO * expected + CHANCE_TICKS)
                return NAN;
        return (double)ticks / expected;
}

CoverageCause summary_coverage_cause(const Summary *summary) {
        CoverageFacts facts = {
                .expected = summary_expected(summary),
                .stolen = summary->stolen,
        };

        coverage_count(&facts);
        return coverage_cause(&facts);
}

/* The value in a label's text: reason="stop" → stop. */
static int label_value(enum counter counter, const char **textp) {
        const char *label = stat_label(counter), *quote = strchr(label, '"');

        if (!quote)
                return 0;
        *textp = quote + 1;
        return (int)strcspn(quote + 1, "\"");
}

/* The same into @label. Return: whether the counter has one. */
static bool copy_label(enum counter counter, char label[static LABEL_MAX]) {
        const char *value = "";
        int length = label_value(counter, &value);

        snprintf(label, LABEL_MAX, "%.*s", length, value);
        return length;
}

/* All but COUNTER_LOST_NOT_TARGET. */
static void append_losses(Text *text) {
        for (enum counter counter = 0; counter < COUNTER_N; counter++) {
                const char *reason = "";
                int length;

                if (strcmp(stat_metric(counter), "lost_total") || !stat_get(counter) ||
                    counter == COUNTER_LOST_NOT_TARGET)
                        continue;
                length = label_value(counter, &reason);
                text_printf(text, " %.*s=%" PRIu64, length, reason, stat_get(counter));
        }
}

static uint64_t sum_of(const char *metric) {
        uint64_t sum = 0;

        for (enum counter counter = 0; counter < COUNTER_N; counter++)
                if (!strcmp(stat_metric(counter), metric))
                        sum += stat_get(counter);
        return sum;
}

static double percent(uint64_t part, uint64_t whole) {
        return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* A tick on a process that was not chosen is no loss to people, though the books must count it as one. */
void summary_log(const Summary *summary) {
        uint64_t samples = sum_of("contexts_total"), not_targets = stat_get(COUNTER_LOST_NOT_TARGET);
        const char *cause = coverage_cause_text(summary_coverage_cause(summary));
        Text losses = { 0 };

        append_losses(&losses);
        log_info("stopped after %.1f s: %" PRIu64 " ticks = %" PRIu64 " samples delivered + %" PRIu64
                 " lost%s%s",
                 (double)summary->duration_ns / (double)NS_PER_SEC, stat_get(COUNTER_TICKS) - not_targets,
                 stat_get(COUNTER_SAMPLES_DELIVERED), stat_lost() - not_targets, losses.data ? ":" : "",
                 losses.data ? losses.data : "");
        if (not_targets)
                log_info("%" PRIu64 " more ticks were on processes that turned out not to be chosen",
                         not_targets);
        if (stat_get(COUNTER_SPOOL_WRITTEN) != stat_get(COUNTER_SPOOL_TAKEN))
                log_info("%" PRIu64 " samples went into the spool, %" PRIu64 " left it",
                         stat_get(COUNTER_SPOOL_WRITTEN), stat_get(COUNTER_SPOOL_TAKEN));
        if (samples)
                log_info("%.1f%% of the samples carry a span, %.1f%% of the user stacks are complete",
                         percent(stat_get(COUNTER_CONTEXT_PRESENT), samples),
                         percent(stat_get(COUNTER_STACKS_COMPLETE),
                                 samples - stat_get(COUNTER_STACKS_NO_USER)));
        if (*cause)
                log_info("coverage is not whole: %s", cause);
        if (isnan(summary_coverage(summary)))
                log_info("coverage: not known, since CPU time of targets was missed, or ticks (%" PRIu64
                         ") were lost on processes that nobody had judged yet",
                         stat_get(COUNTER_UNDECIDED_LOST));
        else if ((double)summary->target_cpu_ns / (double)NS_PER_SEC * summary_rate(summary) >= 1)
                log_info(
                        "coverage: %.3f of the ticks that %.2f s of the targets' CPU time at %.1f Hz stand for",
                        summary_coverage(summary), (double)summary->target_cpu_ns / (double)NS_PER_SEC,
                        summary_rate(summary));
        text_deinit(&losses);
}

static int is_first_of_metric(enum counter counter) {
        for (enum counter earlier = 0; earlier < counter; earlier++)
                if (!strcmp(stat_metric(earlier), stat_metric(counter)))
                        return 0;
        return 1;
}

/* All counters of one metric: {"ring_full": 0, "stop": 3}, or a plain number where there is no label. */
static void append_metric(JsonWriter *json, enum counter first) {
        char label[LABEL_MAX];

        json_line(json, 2);
        if (!copy_label(first, label)) {
                json_number(json, stat_metric(first), stat_get(first));
                return;
        }
        json_open(json, stat_metric(first), '{');
        for (enum counter counter = first; counter < COUNTER_N; counter++) {
                if (strcmp(stat_metric(counter), stat_metric(first)))
                        continue;
                copy_label(counter, label);
                json_number(json, label, stat_get(counter));
        }
        json_close(json, '}');
}

static void append_json_losses(JsonWriter *json) {
        char label[LABEL_MAX];

        json_line(json, 1);
        json_open(json, "lost_by_reason", '{');
        for (enum counter counter = 0; counter < COUNTER_N; counter++) {
                if (strcmp(stat_metric(counter), "lost_total") || !stat_get(counter) ||
                    counter == COUNTER_LOST_NOT_TARGET)
                        continue;
                copy_label(counter, label);
                json_number(json, label, stat_get(counter));
        }
        json_close(json, '}');
}

static void append_sampling(JsonWriter *json, const Summary *summary) {
        uint64_t not_targets = stat_get(COUNTER_LOST_NOT_TARGET);

        json_text(json, "version", SPANPROF_VERSION);
        json_number(json, "duration_ns", summary->duration_ns);
        json_number(json, "frequency", summary->frequency);
        json_number(json, "cpus", summary->n_cpus);
        json_line(json, 1);
        json_number(json, "ticks", stat_get(COUNTER_TICKS) - not_targets);
        json_number(json, "delivered", stat_get(COUNTER_SAMPLES_DELIVERED));
        json_number(json, "lost", stat_lost() - not_targets);
        json_number(json, "pending", summary->n_pending);
        json_number(json, "not_target", not_targets);
        append_json_losses(json);
        json_line(json, 1);
        json_number(json, "target_cpu_ns", summary->target_cpu_ns);
        if (!isnan(summary_coverage(summary)))
                json_decimal(json, "coverage_ratio", summary_coverage(summary), 4);
        json_text(json, "coverage_cause", coverage_cause_name(summary_coverage_cause(summary)));
        json_decimal(json, "stolen_ratio", summary->stolen, 4);
        json_number(json, "sampler_entries", summary->sampler_entries);
        json_decimal(json, "rate_hz", summary_rate(summary), 3);
        json_line(json, 1);
        json_number(json, "first_sample_ns", summary->first_sample_ns);
        json_number(json, "first_delivery_ns", summary->first_delivery_ns);
        json_number(json, "bpf_map_bytes", summary->map_bytes);
}

static void append_summary(Text *text, const Summary *summary) {
        JsonWriter json = { .text = text, .is_spaced = true };

        json_open(&json, NULL, '{');
        append_sampling(&json, summary);
        json_line(&json, 1);
        json_raw(&json, "exports", summary->exports ? summary->exports : "[]");
        json_line(&json, 1);
        json_open(&json, "counters", '{');
        for (enum counter counter = 0; counter < COUNTER_N; counter++)
                if (is_first_of_metric(counter))
                        append_metric(&json, counter);
        json_close(&json, '}');
        json_close(&json, '}');
        json_end(&json);
}

/*
 * The summary says what runs on this machine. A pipe without a reader must not keep the daemon from ending.
 */
static const OutfileOptions ours_alone = { .mode = 0600, .impatient = true };

/* The file that summary_keep() has opened; `path` is "" while there is none. */
static struct {
        char path[PATH_MAX];
        Outfile file;
        Sweeper *sweeper;               /* gives the file its name; NULL = we may ourselves */
} kept = { .file = OUTFILE_NONE };

int summary_keep(const char *path) {
        int r;

        r = outfile_open(&kept.file, path, &ours_alone);
        if (r) {
                outfile_deinit(&kept.file);
                kept.file = OUTFILE_NONE;
                return r;
        }
        snprintf(kept.path, sizeof(kept.path), "%s", path);
        return 0;
}

const Outfile *summary_kept(void) {
        return *kept.path && kept.file.replaces ? &kept.file : NULL;
}

void summary_finish_by(Sweeper *sweeper) {
        kept.sweeper = sweeper;
}

static bool is_kept(const char *path) {
        return *kept.path && !strcmp(kept.path, path);
}

int summary_check(const char *path) {
        return is_kept(path) ? 0 : outfile_check(path, &ours_alone);
}

static int write_kept(const Text *text) {
        int r = outfile_write(&kept.file, text->data, text->size);

        if (!r)
                r = kept.sweeper && kept.file.replaces ? sweeper_finish_file(kept.sweeper) :
                                                         outfile_finish(&kept.file);
        outfile_deinit(&kept.file);
        kept.file = OUTFILE_NONE;
        *kept.path = '\0';
        return r;
}

static int write_text(const Text *text, const char *path) {
        _cleanup_(outfile_deinit) Outfile file = OUTFILE_NONE;
        int r = outfile_open(&file, path, &ours_alone);

        if (!r)
                r = outfile_write(&file, text->data, text->size);
        return r ? r : outfile_finish(&file);
}

int summary_write(const Summary *summary, const char *path) {
        Text text = { 0 };
        int r = -ENOMEM;

        append_summary(&text, summary);
        if (!text.failed)
                r = is_kept(path) ? write_kept(&text) : write_text(&text, path);
        text_deinit(&text);
        return r < 0 ? error_origin(r) : r;
}
