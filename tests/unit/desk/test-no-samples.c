/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "desk/live/no-samples.h"

static void check(NoSamplesFacts facts, const Config *config, const char *words) {
        _cleanup_(text_deinit) Text text = { 0 };

        facts.period_ns = 10 * NS_PER_MS;
        no_samples_explain(&facts, config, &text);
        cr_assert(strstr(text.data, words), "%s is not in: %s", words, text.data);
}

Test(no_samples, says_what_was_missing_and_what_helps) {
        const Config plain = { .sampling.frequency = 99 };
        const Config fast = { .sampling.frequency = 9999, .waits.off_cpu = true };
        const Config publishing = { .sampling.frequency = 99, .targets.publishers = true };
        const Config typed = { .sampling.frequency = 99, .filter.types = { .n_items = 1 } };

        check((NoSamplesFacts){ 0 }, &plain, "targets --verbose");
        check((NoSamplesFacts){ 0 }, &publishing, "no process published spans meanwhile; `spanprof targets --verbose`");
        check((NoSamplesFacts){ .command = true }, &plain, "the command used 0.0 ms of CPU");
        check((NoSamplesFacts){ .n_processes = 1, .cpu_ns = 3 * NS_PER_MS }, &plain,
              "what was chosen used 3.0 ms of CPU, and a sample stands for 10.0 ms; -F 3399 takes more; --off-cpu");
        check((NoSamplesFacts){ .n_processes = 1, .cpu_ns = 3 * NS_PER_MS }, &fast, "stands for 10.0 ms");
        check((NoSamplesFacts){ .n_processes = 1, .n_lost = 4 }, &plain, "4 were taken and lost");
        check((NoSamplesFacts){ .command = true, .cpu_ns = NS_PER_SEC }, &plain, "`spanprof doctor`");
        check((NoSamplesFacts){ .command = true, .cpu_ns = NS_PER_SEC }, &typed, "--type");
}
