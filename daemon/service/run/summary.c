/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/summary.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/log.h"
#include "base/util/outfile.h"
#include "base/util/stat.h"
#include "base/util/text.h"

double summary_rate(const Summary *summary) {
        double cpu_seconds = (double)summary->duration_ns / (double)NS_PER_SEC * summary->n_cpus;

        return cpu_seconds > 0 ? summary->programmed / cpu_seconds : 0;
}

/* Ticks on processes that were undecided and then rejected belong to no target's CPU time. */
double summary_coverage(const Summary *summary) {
        double expected = (double)summary->target_cpu_ns / (double)NS_PER_SEC * summary_rate(summary);

        return expected > 0 ? (double)(stat_get(COUNTER_TICKS) - stat_get(COUNTER_LOST_NOT_TARGET)) / expected
                            : 0;
}

/* The value in a label's text: reason="stop" → stop. */
static int label_value(enum counter counter, const char **textp) {
        const char *label = stat_label(counter), *quote = strchr(label, '"');

        if (!quote)
                return 0;
        *textp = quote + 1;
        return (int)strcspn(quote + 1, "\"");
}

/* @except: left out, COUNTER_N = none. */
static void append_losses(Text *text, const char *format, enum counter except) {
        for (enum counter counter = 0; counter < COUNTER_N; counter++) {
                const char *reason = "";
                int length;

                if (strcmp(stat_metric(counter), "lost_total") || !stat_get(counter) || counter == except)
                        continue;
                length = label_value(counter, &reason);
                text_printf(text, format, length, reason, stat_get(counter));
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

/* A tick on a process that nobody chose is no loss to people, though the books must count it as one. */
void summary_log(const Summary *summary) {
        uint64_t samples = sum_of("contexts_total"), strangers = stat_get(COUNTER_LOST_NOT_TARGET);
        Text losses = { 0 };

        append_losses(&losses, " %.*s=%" PRIu64, COUNTER_LOST_NOT_TARGET);
        log_info("stopped after %.1f s: %" PRIu64 " ticks = %" PRIu64 " samples delivered + %" PRIu64
                 " lost%s%s",
                 (double)summary->duration_ns / (double)NS_PER_SEC, stat_get(COUNTER_TICKS) - strangers,
                 stat_get(COUNTER_SAMPLES_DELIVERED), stat_lost() - strangers, losses.data ? ":" : "",
                 losses.data ? losses.data : "");
        if (strangers)
                log_info("%" PRIu64 " more ticks were on processes that turned out not to be chosen",
                         strangers);
        if (stat_get(COUNTER_SPOOL_WRITTEN) != stat_get(COUNTER_SPOOL_TAKEN))
                log_info("%" PRIu64 " samples went into the spool, %" PRIu64 " left it",
                         stat_get(COUNTER_SPOOL_WRITTEN), stat_get(COUNTER_SPOOL_TAKEN));
        if (samples)
                log_info("%.1f%% of the samples carry a span, %.1f%% of the user stacks are complete",
                         percent(stat_get(COUNTER_CONTEXT_PRESENT), samples),
                         percent(stat_get(COUNTER_STACKS_COMPLETE),
                                 samples - stat_get(COUNTER_STACKS_NO_USER)));
        if ((double)summary->target_cpu_ns / (double)NS_PER_SEC * summary_rate(summary) >= 1)
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
static void append_metric(Text *text, enum counter first) {
        const char *label, *separator = "";
        int length;

        text_printf(text, "\"%s\": ", stat_metric(first));
        if (!label_value(first, &label)) {
                text_printf(text, "%" PRIu64, stat_get(first));
                return;
        }
        text_printf(text, "{");
        for (enum counter counter = first; counter < COUNTER_N; counter++) {
                if (strcmp(stat_metric(counter), stat_metric(first)))
                        continue;
                length = label_value(counter, &label);
                text_printf(text, "%s\"%.*s\": %" PRIu64, separator, length, label, stat_get(counter));
                separator = ", ";
        }
        text_printf(text, "}");
}

static void append_counters(Text *text) {
        for (enum counter counter = 0; counter < COUNTER_N; counter++)
                if (is_first_of_metric(counter)) {
                        text_printf(text, "%s", counter ? ",\n  " : "\n  ");
                        append_metric(text, counter);
                }
}

static void append_summary(Text *text, const Summary *summary) {
        text_printf(text,
                    "{\"version\": \"%s\", \"duration_ns\": %" PRIu64 ", \"frequency\": %u, \"cpus\": %u,\n",
                    SPANPROF_VERSION, summary->duration_ns, summary->frequency, summary->n_cpus);
        text_printf(text,
                    " \"ticks\": %" PRIu64 ", \"delivered\": %" PRIu64 ", \"lost\": %" PRIu64
                    ", \"pending\": %" PRIu64 ",\n \"lost_by_reason\": {",
                    stat_get(COUNTER_TICKS), stat_get(COUNTER_SAMPLES_DELIVERED), stat_lost(),
                    summary->n_pending);
        append_losses(text, "\"%.*s\": %" PRIu64 ", ", COUNTER_N);
        if (text->data && text->data[text->size - 1] == ' ')
                text->data[text->size -= 2] = 0;
        text_printf(text,
                    "},\n \"target_cpu_ns\": %" PRIu64
                    ", \"coverage_ratio\": %.4f, \"sampler_entries\": %" PRIu64 ", \"rate_hz\": %.3f,\n",
                    summary->target_cpu_ns, summary_coverage(summary), summary->sampler_entries,
                    summary_rate(summary));
        text_printf(text,
                    " \"first_sample_ns\": %" PRIu64 ", \"first_delivery_ns\": %" PRIu64
                    ", \"bpf_map_bytes\": %zu,\n",
                    summary->first_sample_ns, summary->first_delivery_ns, summary->map_bytes);
        text_printf(text, " \"exports\": %s,\n", summary->exports ? summary->exports : "[]");
        text_printf(text, " \"counters\": {");
        append_counters(text);
        text_printf(text, "}}\n");
}

/* It says what runs on this machine. Nobody may keep the daemon from ending: a pipe needs a reader. */
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
