/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Chooses between the reasons by the counters of the recording: nothing ran, too little ran, or all was
 * filtered.
 */

#include "desk/live/no-samples.h"

#include <inttypes.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"

enum { MOST_HZ = 10000 };

static double ms(uint64_t ns) {
        return (double)ns / (double)NS_PER_MS;
}

/* A rate at which so much CPU time gives some ten samples. */
static uint64_t better_rate(uint64_t cpu_ns) {
        uint64_t rate = cpu_ns ? 10 * NS_PER_SEC / cpu_ns : MOST_HZ;

        return rate >= MOST_HZ ? MOST_HZ - 1 : rate / 100 * 100 + 99;
}

static void explain_little(const NoSamplesFacts *facts, const Config *config, Text *text) {
        text_printf(text, "%s used %.1f ms of CPU, and a sample stands for %.1f ms",
                    facts->command ? "the command" : "what was chosen", ms(facts->cpu_ns), ms(facts->period_ns));
        if (facts->cpu_ns && better_rate(facts->cpu_ns) > config->sampling.frequency)
                text_printf(text, "; -F %" PRIu64 " takes more", better_rate(facts->cpu_ns));
        if (!config->waits.off_cpu)
                text_printf(text, "; --off-cpu shows what it waits for");
}

void no_samples_explain(const NoSamplesFacts *facts, const Config *config, Text *text) {
        text_printf(text, "not one sample: ");
        if (!facts->command && !facts->n_processes && config->targets.publishers)
                text_printf(text, "no process published spans meanwhile; `spanprof targets --verbose` names those "
                                  "that could, and the line that switches it on");
        else if (!facts->command && !facts->n_processes)
                text_printf(text, "no process that ran meanwhile was chosen; `spanprof targets --verbose` with the same "
                                  "options says why");
        else if (config->filter.types.n_items)
                text_printf(text, "none is of the --type that was asked for; without --type all are kept");
        else if (facts->n_lost)
                text_printf(text, "%" PRIu64 " were taken and lost, for the reasons below", facts->n_lost);
        else if (facts->cpu_ns < 10 * facts->period_ns)
                explain_little(facts, config, text);
        else
                text_printf(text, "although %.2f s of CPU time were used; `spanprof doctor` says what does not work here",
                            (double)facts->cpu_ns / (double)NS_PER_SEC);
}
