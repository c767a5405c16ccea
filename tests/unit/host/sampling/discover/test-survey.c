/* SPDX-License-Identifier: Apache-2.0 */

/* What the survey visits of a real machine: this process and its parent are there for sure. */

#include <criterion/criterion.h>
#include <unistd.h>

#include "host/sampling/discover/survey.h"

typedef struct Visits {
        uint32_t own, parent;           /* how often each of them was visited */
        uint32_t first;                 /* process that was visited first */
} Visits;

static int count(void *userdata, const SurveyEntry *entry) {
        Visits *visits = userdata;

        if (!visits->own && !visits->parent)
                visits->first = entry->process->pid;
        visits->own += entry->process->pid == (uint32_t)getpid();
        visits->parent += entry->process->pid == (uint32_t)getppid();
        return 0;
}

Test(survey, visits_a_process_once_that_is_asked_for_twice) {
        const uint32_t pids[] = { (uint32_t)getpid(), (uint32_t)getppid(), (uint32_t)getpid() };
        const Selector selector = { .pids = pids, .n_pids = 3 };
        Visits visits = { 0 };

        cr_assert_eq(survey_processes(&selector, 0, count, &visits), 0);
        cr_assert_eq(visits.first, pids[0], "those that are asked for come first");
        cr_assert_eq(visits.own, 1, "%u", visits.own);
        cr_assert_eq(visits.parent, 1, "%u", visits.parent);
}
