/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Recording facts
 *
 * Facts that the page of a recording shows beside the samples: what was recorded, how, and what was lost.
 */

#include "desk/page/page.h"
#include "host/service/config/config.h"
#include "host/service/control/summary.h"

enum { RECORDING_MAX_FACTS = 8, RECORDING_MAX_LOSSES = 32, RECORDING_TEXT_MAX = 256 };

typedef struct RecordingFacts {
        PageOptions options;            /* points into the rest: the struct stays where it was made */
        char title[RECORDING_TEXT_MAX];
        char values[RECORDING_MAX_FACTS][RECORDING_TEXT_MAX];
        PageFact facts[RECORDING_MAX_FACTS];
        char reasons[RECORDING_MAX_LOSSES][32];
        PageLoss losses[RECORDING_MAX_LOSSES];
} RecordingFacts;

/* Files whose unwind tables were still to be read at the end. @n: of how many; 0 = nothing is added. */
void recording_facts_add_tables(RecordingFacts *recording, uint32_t n_made, uint32_t n);

/*
 * @command: its name, without arguments, which may hold secrets; NULL = none. Counters are read from
 * util/stat.
 */
void recording_facts_make(RecordingFacts *recording, const Config *config, const char *command,
                          const Summary *summary);
