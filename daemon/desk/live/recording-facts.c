/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Collects facts of a recording as pairs of name and text, up to a cap: its command, targets, rate and
 * losses.
 */

#include "desk/live/recording-facts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/stat.h"

_printf_(3, 4) static void add_fact(RecordingFacts *recording, const char *name, const char *format, ...) {
        size_t n = recording->options.n_facts;
        va_list args;

        if (n == RECORDING_MAX_FACTS)
                return;
        va_start(args, format);
        vsnprintf(recording->values[n], RECORDING_TEXT_MAX, format, args);
        va_end(args);
        recording->facts[n] = (PageFact){ name, recording->values[n] };
        recording->options.n_facts++;
}

/* A word of the title; what does not fit is left out. */
static void add_word(RecordingFacts *recording, const char *word) {
        size_t used = strlen(recording->title);

        snprintf(recording->title + used, sizeof(recording->title) - used, "%s%s", used ? " " : "", word);
}

static void add_list(RecordingFacts *recording, const ConfigList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                add_word(recording, list->items[i]);
}

static void make_title(RecordingFacts *recording, const Config *config, const char *command) {
        const ConfigTargets *targets = &config->targets;
        const ConfigList *const lists[] = { &targets->comms,      &targets->exes,  &targets->cgroups,
                                            &targets->containers, &targets->users, &targets->units };
        char pid[24];

        if (command)
                add_word(recording, command);
        for (size_t i = 0; i < config->targets.pids.n_items; i++) {
                snprintf(pid, sizeof(pid), "pid %u", config->targets.pids.items[i]);
                add_word(recording, pid);
        }
        for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
                add_list(recording, lists[i]);
        if (config->targets.publishers)
                add_word(recording, "publishers of spans");
        if (config->targets.all)
                add_word(recording, "all of this machine");
}

/* A tick on a process that was not chosen is no loss to people. */
static void add_losses(RecordingFacts *recording) {
        for (enum counter counter = 0;
             counter < COUNTER_N && recording->options.n_losses < RECORDING_MAX_LOSSES; counter++) {
                size_t n = recording->options.n_losses;
                const char *reason = strchr(stat_label(counter), '"');

                if (strcmp(stat_metric(counter), "lost_total") || counter == COUNTER_LOST_NOT_TARGET ||
                    !stat_get(counter) || !reason)
                        continue;
                snprintf(recording->reasons[n], sizeof(recording->reasons[n]), "%.*s",
                         (int)strcspn(reason + 1, "\""), reason + 1);
                recording->losses[n] = (PageLoss){ recording->reasons[n], stat_get(counter) };
                recording->options.n_losses++;
        }
}

void recording_facts_add_tables(RecordingFacts *recording, uint32_t n_made, uint32_t n) {
        if (n)
                add_fact(recording, "unwind tables", "reading tables %" PRIu32 "/%" PRIu32 " when it ended: stacks that needed "
                                                     "the others are cut", n_made, n);
}

void recording_facts_make(RecordingFacts *recording, const Config *config, const char *command,
                          const Summary *summary) {
        *recording = (RecordingFacts){
                .options = { .losses_known = true, .coverage = summary_coverage(summary) },
        };
        recording->options.facts = recording->facts;
        recording->options.losses = recording->losses;
        make_title(recording, config, command);
        if (*recording->title)
                recording->options.title = recording->title;
        add_fact(recording, "frequency", "%.0f Hz on %u CPUs", summary_rate(summary), summary->n_cpus);
        add_fact(recording, "CPU time", "%.2f s, as the kernel counts",
                 (double)summary->target_cpu_ns / (double)NS_PER_SEC);
        add_losses(recording);
}
