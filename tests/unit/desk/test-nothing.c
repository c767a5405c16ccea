/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "desk/live/nothing.h"

static void check(NothingFacts facts, const Config *config, const char *words) {
        _cleanup_(text_deinit) Text text = { 0 };

        facts.period_ns = 10 * NS_PER_MS;
        nothing_explain(&facts, config, &text);
        cr_assert(strstr(text.data, words), "%s is not in: %s", words, text.data);
}

Test(nothing, says_what_was_missing_and_what_helps) {
        const Config plain = { .sampling.frequency = 99 };
        const Config fast = { .sampling.frequency = 9999, .waits.off_cpu = true };
        const Config typed = { .sampling.frequency = 99, .filter.types = { .n_items = 1 } };

        check((NothingFacts){ 0 }, &plain, "targets --verbose");
        check((NothingFacts){ .command = true }, &plain, "the command used 0.0 ms of CPU");
        check((NothingFacts){ .n_processes = 1, .cpu_ns = 3 * NS_PER_MS }, &plain,
              "what was chosen used 3.0 ms of CPU, and a sample stands for 10.0 ms; -F 3399 takes more; --off-cpu");
        check((NothingFacts){ .n_processes = 1, .cpu_ns = 3 * NS_PER_MS }, &fast, "stands for 10.0 ms");
        check((NothingFacts){ .n_processes = 1, .n_lost = 4 }, &plain, "4 were taken and lost");
        check((NothingFacts){ .command = true, .cpu_ns = NS_PER_SEC }, &plain, "`spanprof doctor`");
        check((NothingFacts){ .command = true, .cpu_ns = NS_PER_SEC }, &typed, "--type");
}
