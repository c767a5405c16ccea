/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rules of the Recorder
 *
 * Traces that are kept without being asked for: with a span that lasted longer than a limit, or much longer
 * than spans of its operation usually do. A span's length is what its samples and waits say (span-reach.h),
 * so it is not overstated, and a span without any is not seen.
 */

#include "core/base/util/macro.h"
#include "core/profile/window.h"
#include "host/service/recorder/recorder-ask.h"

enum {
        RECORDER_RULES_MAX_SPANS = 16384,       /* spans of a window, and those before it that go on */
        RECORDER_RULES_MAX_OPERATIONS = 512,
        RECORDER_RULES_LEAST = 1000,            /* spans of an operation, before what is usual is known */
        RECORDER_RULES_MINUTE = 30,             /* traces that are kept in a minute */
};

typedef struct RecorderLimits {
        uint64_t slower_ns;             /* 0 = no such rule, as for the next one */
        uint64_t above_usual;           /* times the 99th percentile */
} RecorderLimits;

typedef struct RecorderRules RecorderRules;

/* Return: 0, -ENOMEM. */
int recorder_rules_new(RecorderRules **rulesp);
RecorderRules *recorder_rules_free(RecorderRules *rules);
DEFINE_CLEANUP(RecorderRules, recorder_rules_free)

/*
 * Looks at a closed window, and judges spans that had no sample in its last second. @number: of its first
 * request in the recorder, which gets it afterwards. @asks: what is to be kept, *n_asksp of them. Return: 0,
 * -ENOMEM.
 */
int recorder_rules_window(RecorderRules *rules, const RecorderLimits *limits, const Window *window,
                          uint64_t number, RecorderAsk asks[static RECORDER_RULES_MINUTE], size_t *n_asksp);
