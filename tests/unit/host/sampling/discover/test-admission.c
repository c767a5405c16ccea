/* SPDX-License-Identifier: Apache-2.0 */

/* Which samples are taken, which are rejected, and which wait. */

#include <criterion/criterion.h>
#include <string.h>

#include "host/sampling/discover/admission.h"

typedef struct Case {
        const char *what;
        AdmissionFacts facts;
        AdmissionOutcome outcome;
} Case;

/* In the order of the rows: each case is written from what has to happen to such a sample. */
static const Case cases[] = {
        { "a target's sample", { .is_known = true, .is_unread = true }, ADMISSION_TAKE },
        { "a late sample, while targets alone are sampled",
          { .is_targets_only = true, .is_unread = true },
          ADMISSION_REJECT_SAMPLE },
        { "a sample from before the exec that made the process a target",
          { .is_before_target = true, .is_unread = true },
          ADMISSION_REJECT_SAMPLE },
        { "a sample of a process that nobody has looked at", { .is_unread = true }, ADMISSION_IDENTIFY },
        { "a chosen program without room, while the process runs another one",
          { .is_refused = true, .is_chosen = true, .is_replaced = true },
          ADMISSION_REJECT_SAMPLE },
        { "a chosen program without room",
          { .is_refused = true, .is_chosen = true },
          ADMISSION_REJECT_PROCESS },
        { "a chosen program that an exec has replaced",
          { .is_chosen = true, .is_replaced = true },
          ADMISSION_ADD_ENDED },
        { "a chosen program whose process is gone",
          { .is_chosen = true, .is_gone = true },
          ADMISSION_ADD_ENDED },
        { "a chosen program that runs", { .is_chosen = true }, ADMISSION_ADD_LIVING },
        { "a program that was not chosen, while the process runs another one",
          { .is_replaced = true },
          ADMISSION_REJECT_SAMPLE },
        { "a program of a name that is never chosen",
          { .has_rejected_name = true, .is_gone = true },
          ADMISSION_REJECT_NAME },
        { "a silent process that is gone", { .is_silent = true, .is_gone = true }, ADMISSION_REJECT_PROCESS },
        { "a kernel thread, where publishers are chosen",
          { .is_silent = true, .is_kernel = true },
          ADMISSION_REJECT_PROCESS },
        { "a process that may publish later", { .is_silent = true }, ADMISSION_AWAIT_PUBLICATION },
        { "a process that nothing chooses", { 0 }, ADMISSION_REJECT_PROCESS },
};

_Static_assert(sizeof(cases) / sizeof(*cases) == ADMISSION_N_ROWS, "a case for each row");

Test(admission, takes_rejects_or_holds_a_sample_by_the_row_that_is_made_for_it) {
        for (unsigned i = 0; i < ADMISSION_N_ROWS; i++) {
                const AdmissionRow *row = admission_find(&cases[i].facts);

                cr_expect_eq(row - admission_rows, i, "%s: row %td", cases[i].what, row - admission_rows);
                cr_expect_eq(row->outcome, cases[i].outcome, "%s", cases[i].what);
        }
}

Test(admission, reaches_each_outcome) {
        for (unsigned outcome = 0; outcome < ADMISSION_N_OUTCOMES; outcome++) {
                unsigned n = 0;

                for (unsigned i = 0; i < ADMISSION_N_ROWS; i++)
                        n += admission_find(&cases[i].facts)->outcome == outcome;
                cr_expect_gt(n, 0, "outcome %u", outcome);
        }
}

enum { N_FACTS = sizeof(AdmissionFacts) };

/* Facts by the bits of @bits, in the order of the fields. */
static AdmissionFacts facts_of(unsigned bits) {
        bool values[N_FACTS];
        AdmissionFacts facts;

        for (unsigned i = 0; i < N_FACTS; i++)
                values[i] = bits >> i & 1;
        memcpy(&facts, values, sizeof(facts));
        return facts;
}

static bool is_one_of(AdmissionOutcome outcome, AdmissionOutcome a, AdmissionOutcome b) {
        return outcome == a || outcome == b;
}

/* What holds of any sample, whatever else is known of it. */
Test(admission, never_decides_by_what_another_program_is) {
        for (unsigned bits = 0; bits < 1U << N_FACTS; bits++) {
                const AdmissionFacts facts = facts_of(bits);
                AdmissionOutcome outcome = admission_find(&facts)->outcome;

                if (facts.is_known)
                        cr_assert_eq(outcome, ADMISSION_TAKE);
                else if (facts.is_targets_only || facts.is_before_target)
                        cr_assert_eq(outcome, ADMISSION_REJECT_SAMPLE);
                else if (facts.is_unread)
                        cr_assert_eq(outcome, ADMISSION_IDENTIFY);
                else if (facts.is_replaced)
                        cr_assert(is_one_of(outcome, ADMISSION_ADD_ENDED, ADMISSION_REJECT_SAMPLE));
                if (is_one_of(outcome, ADMISSION_ADD_LIVING, ADMISSION_ADD_ENDED))
                        cr_assert(facts.is_chosen && !facts.is_refused);
                if (outcome == ADMISSION_ADD_LIVING)
                        cr_assert(!facts.is_gone && !facts.is_replaced);
        }
}

/* The caller asks again after such an outcome, with the fact that it has found out. */
Test(admission, comes_to_an_end) {
        for (unsigned bits = 0; bits < 1U << N_FACTS; bits++) {
                AdmissionFacts facts = facts_of(bits);

                if (admission_find(&facts)->outcome == ADMISSION_IDENTIFY)
                        facts.is_unread = false;
                if (is_one_of(admission_find(&facts)->outcome, ADMISSION_ADD_LIVING, ADMISSION_ADD_ENDED))
                        facts.is_refused = true;
                cr_assert_neq(admission_find(&facts)->outcome, ADMISSION_IDENTIFY);
                cr_assert(!is_one_of(admission_find(&facts)->outcome, ADMISSION_ADD_LIVING,
                                     ADMISSION_ADD_ENDED));
        }
}
