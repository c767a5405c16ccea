/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * About
 *
 * What the page of a recording says of it beside the samples: what was recorded, how, and what was lost.
 */

#include "desk/page/page.h"
#include "host/service/config/config.h"
#include "host/service/control/summary.h"

enum { ABOUT_MAX_FACTS = 8, ABOUT_MAX_LOSSES = 32, ABOUT_TEXT_MAX = 256 };

typedef struct About {
        PageOptions options;            /* points into the rest: an About stays where it was made */
        char title[ABOUT_TEXT_MAX];
        char values[ABOUT_MAX_FACTS][ABOUT_TEXT_MAX];
        PageFact facts[ABOUT_MAX_FACTS];
        char reasons[ABOUT_MAX_LOSSES][32];
        PageLoss losses[ABOUT_MAX_LOSSES];
} About;

/*
 * @command: its name, without arguments, which may hold secrets; NULL = none. Counters are read from
 * util/stat.
 */
void about_make(About *about, const Config *config, const char *command, const Summary *summary);
