/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "desk/live/recording-facts.h"

Test(recording_facts, tell_how_many_tables_of_files_were_not_in_at_the_end) {
        RecordingFacts facts;
        const Config config = { .targets.all = true };
        const Summary summary = { .n_cpus = 2 };
        size_t n;

        recording_facts_make(&facts, &config, NULL, &summary);
        n = facts.options.n_facts;
        recording_facts_add_tables(&facts, 0, 0);
        cr_assert_eq(facts.options.n_facts, n, "all were");
        recording_facts_add_tables(&facts, 120, 400);
        cr_assert_eq(facts.options.n_facts, n + 1);
        cr_assert_str_eq(facts.facts[n].name, "unwind tables");
        cr_assert_eq(strncmp(facts.facts[n].value, "reading tables 120/400 when it ended", 36), 0, "%s", facts.facts[n].value);
}
