/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Says which boosts the daemon that runs has, and what stands against one. Its status has
 *
 *     boost        unit shop.service at 495 Hz, for 40 s more      a line for each
 *     sampling     paused …                                        none can begin
 *     sampling     49 Hz on 2 CPUs (lowered by a limit)            none would last
 *     recorder     … max-cpu leaves no room                        none can begin
 *
 * and the configuration max-cpu, which ends them, and a frequency that may leave none to have.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "host/service/doctor/doctor.h"
#include "host/service/limits/boosts.h"

#define RAISE_LIMIT "spanprof config show   # raise max-cpu, or choose fewer targets"

static void judge_none(Doctor *doctor, const char *status) {
        const Boosts highest = { { { .frequency = BOOST_MAX_FREQUENCY } }, 1 };
        const uint64_t frequency = doctor->config->sampling.frequency;
        const uint64_t max_cpu = doctor->config->daemon.max_cpu;
        char sampling[DOCTOR_MAX_LINE] = "";

        (void)doctor_find_line(status, "sampling", sampling);
        if (boosts_ticks(&highest, (uint32_t)frequency) < 2)
                doctor_add(doctor, "boost", DOCTOR_OK, NULL,
                           "none can be had: %" PRIu64 " Hz is too near to the %d of the highest", frequency,
                           BOOST_MAX_FREQUENCY);
        else if (!strncmp(sampling, "paused", strlen("paused")))
                doctor_add(doctor, "boost", DOCTOR_OK, NULL, "none can begin: nothing is sampled");
        else if (strstr(status, "max-cpu leaves no room"))
                doctor_add(doctor, "boost", DOCTOR_WARN, RAISE_LIMIT, "none can begin: max-cpu leaves no room");
        else if (strstr(sampling, "lowered by a limit"))
                doctor_add(doctor, "boost", DOCTOR_WARN, RAISE_LIMIT,
                           "none would last: a limit has lowered the frequency of all");
        else if (max_cpu)
                doctor_add(doctor, "boost", DOCTOR_OK, NULL,
                           "none is on; one ends as soon as our own CPU time would be above max-cpu (%" PRIu64
                           " %% of one CPU)", max_cpu);
        else
                doctor_add(doctor, "boost", DOCTOR_OK, NULL,
                           "none is on; `spanprof boost` samples one service more often for a while");
}

void doctor_judge_boosts(Doctor *doctor, const char *status) {
        const uint64_t max_cpu = doctor->config->daemon.max_cpu;
        char words[DOCTOR_MAX_LINE], more[32] = "";
        uint32_t n = 0;

        for (const char *at = strstr(status, "\nboost "); at; at = strstr(at + 1, "\nboost "))
                n++;
        if (!doctor_find_line(status, "boost", words)) {
                judge_none(doctor, status);
                return;
        }
        if (n > 1)
                snprintf(more, sizeof(more), " (the first of %" PRIu32 ")", n);
        doctor_add(doctor, "boost", DOCTOR_OK, NULL, "%s%s; %s", words, more,
                   max_cpu ? "max-cpu may end it before" : "no max-cpu ends it before");
}
