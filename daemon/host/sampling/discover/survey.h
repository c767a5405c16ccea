/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Survey
 *
 * One look at every process: what the selectors say of it and what context it publishes. The same
 * questions and answers as those of the daemon (targets.h), but without a daemon, for people.
 */

#include <stdbool.h>
#include <stddef.h>

#include "host/sampling/context/publication.h"
#include "host/sampling/discover/selector.h"
#include "host/sampling/process/process.h"

typedef struct SurveyEntry {
        const Process *process;         /* with its identity */
        /* ring, process context, stations; if it is chosen, how its threads publish, too */
        const Publication *publication;
        SelectorReason reason;
        bool hidden;                    /* we may not read its memory: it may have a ring for all we know */
} SurveyEntry;

/* Return: 0, or negative to end the survey. */
typedef int (*SurveyVisit)(void *userdata, const SurveyEntry *entry);

/*
 * Visits all processes, kernel threads included: those that are chosen by their ids, then all others in the
 * order of these.
 * @what: parts of the identity (IDENTITY_*) that are wanted beside those that the selectors need.
 * Return: 0, what @visit returned, -errno.
 */
int survey_processes(const Selector *selector, unsigned what, SurveyVisit visit, void *userdata);
