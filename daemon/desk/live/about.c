/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Collects facts of a recording as pairs of name and text, up to a cap: its command, targets, rate and
 * losses.
 */

#include "desk/live/about.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/stat.h"

_printf_(3, 4) static void add_fact(About *about, const char *name, const char *format, ...) {
        size_t n = about->options.n_facts;
        va_list args;

        if (n == ABOUT_MAX_FACTS)
                return;
        va_start(args, format);
        vsnprintf(about->values[n], ABOUT_TEXT_MAX, format, args);
        va_end(args);
        about->facts[n] = (PageFact){ name, about->values[n] };
        about->options.n_facts++;
}

/* A word of the title; what does not fit is left out. */
static void add_word(About *about, const char *word) {
        size_t used = strlen(about->title);

        snprintf(about->title + used, sizeof(about->title) - used, "%s%s", used ? " " : "", word);
}

static void add_list(About *about, const ConfigList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                add_word(about, list->items[i]);
}

static void make_title(About *about, const Config *config, const char *command) {
        const ConfigTargets *targets = &config->targets;
        const ConfigList *const lists[] = { &targets->comms,      &targets->exes,  &targets->cgroups,
                                            &targets->containers, &targets->users, &targets->units };
        char pid[24];

        if (command)
                add_word(about, command);
        for (size_t i = 0; i < config->targets.pids.n_items; i++) {
                snprintf(pid, sizeof(pid), "pid %u", config->targets.pids.items[i]);
                add_word(about, pid);
        }
        for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
                add_list(about, lists[i]);
        if (config->targets.publishers)
                add_word(about, "publishers of spans");
        if (config->targets.all)
                add_word(about, "all of this machine");
}

/* A tick on a process that was not chosen is no loss to people. */
static void add_losses(About *about) {
        for (enum counter counter = 0; counter < COUNTER_N && about->options.n_losses < ABOUT_MAX_LOSSES;
             counter++) {
                size_t n = about->options.n_losses;
                const char *reason = strchr(stat_label(counter), '"');

                if (strcmp(stat_metric(counter), "lost_total") || counter == COUNTER_LOST_NOT_TARGET ||
                    !stat_get(counter) || !reason)
                        continue;
                snprintf(about->reasons[n], sizeof(about->reasons[n]), "%.*s", (int)strcspn(reason + 1, "\""),
                         reason + 1);
                about->losses[n] = (PageLoss){ about->reasons[n], stat_get(counter) };
                about->options.n_losses++;
        }
}

void about_make(About *about, const Config *config, const char *command, const Summary *summary) {
        *about = (About){ .options = { .losses_known = true, .coverage = summary_coverage(summary) } };
        about->options.facts = about->facts;
        about->options.losses = about->losses;
        make_title(about, config, command);
        if (*about->title)
                about->options.title = about->title;
        add_fact(about, "frequency", "%.0f Hz on %u CPUs", summary_rate(summary), summary->n_cpus);
        add_fact(about, "CPU time", "%.2f s, as the kernel counts",
                 (double)summary->target_cpu_ns / (double)NS_PER_SEC);
        add_losses(about);
}
