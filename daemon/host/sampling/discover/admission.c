/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Rows are read from the top down, and the first one that applies decides. Facts that cost nothing stand
 * first: only a sample that they do not decide makes its caller look at the process.
 */

#include "host/sampling/discover/admission.h"

#include <string.h>

const AdmissionRow admission_rows[ADMISSION_N_ROWS] = {
        { { .is_known = true }, ADMISSION_TAKE },
        { { .is_targets_only = true }, ADMISSION_REJECT_SAMPLE },
        { { .is_before_target = true }, ADMISSION_REJECT_SAMPLE },
        { { .is_unread = true }, ADMISSION_IDENTIFY },
        /* The program that the process runs now may be chosen, so its id is not rejected. */
        { { .is_refused = true, .is_replaced = true }, ADMISSION_REJECT_SAMPLE },
        { { .is_refused = true }, ADMISSION_REJECT_PROCESS },
        { { .is_chosen = true, .is_replaced = true }, ADMISSION_ADD_ENDED },
        { { .is_chosen = true, .is_gone = true }, ADMISSION_ADD_ENDED },
        { { .is_chosen = true }, ADMISSION_ADD_LIVING },
        { { .is_replaced = true }, ADMISSION_REJECT_SAMPLE },
        { { .has_rejected_name = true }, ADMISSION_REJECT_NAME },
        { { .is_silent = true, .is_gone = true }, ADMISSION_REJECT_PROCESS },
        { { .is_silent = true, .is_kernel = true }, ADMISSION_REJECT_PROCESS },
        { { .is_silent = true }, ADMISSION_AWAIT_PUBLICATION },
        { { .is_known = false }, ADMISSION_REJECT_PROCESS },
};

static bool applies(const AdmissionRow *row, const AdmissionFacts *facts) {
        bool required[sizeof(*facts)], is_true[sizeof(*facts)];

        _Static_assert(sizeof(bool) == 1, "a field of AdmissionFacts is a byte");
        memcpy(required, &row->required, sizeof(required));
        memcpy(is_true, facts, sizeof(is_true));
        for (size_t i = 0; i < sizeof(*facts); i++)
                if (required[i] && !is_true[i])
                        return false;
        return true;
}

const AdmissionRow *admission_find(const AdmissionFacts *facts) {
        const AdmissionRow *row = admission_rows;

        while (!applies(row, facts))
                row++;
        return row;
}
