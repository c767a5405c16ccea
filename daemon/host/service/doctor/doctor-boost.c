/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Says which boosts the daemon that runs has, and what stands against one. All of it is in its status: our
 * own configuration may be another one than the daemon's.
 *
 *     boost        unit shop.service at 495 Hz, for 40 s more      a line for each
 *     sampling     paused …                                        none can begin
 *     sampling     49 Hz on 2 CPUs (lowered by a limit)            one may be cut
 *     sampling     700 Hz on 2 CPUs                                none can be had: the highest is too near
 *     recorder     … max-cpu leaves no room                        none can begin
 *
 * A frequency is lowered by max-cpu, by what the control group has (cpu.max, memory.max), or by
 * max-export-rate. Which of them it was is in the daemon's log.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "host/service/doctor/doctor.h"
#include "host/service/limits/boosts.h"

#define SHOW_LIMIT "journalctl -u spanprof | grep -E 'from now on|Hz, before'   # says which limit"

static void judge_none(Doctor *doctor, const char *status) {
        const Boosts highest = { { { .frequency = BOOST_MAX_FREQUENCY } }, 1 };
        char sampling[DOCTOR_MAX_LINE] = "";
        uint32_t frequency = 0;

        (void)doctor_find_line(status, "sampling", sampling);
        (void)sscanf(sampling, "%" SCNu32 " Hz", &frequency);
        if (!strncmp(sampling, "paused", strlen("paused")))
                doctor_add(doctor, "boost", DOCTOR_OK, NULL, "none can begin: nothing is sampled");
        else if (strstr(status, "max-cpu leaves no room"))
                doctor_add(doctor, "boost", DOCTOR_WARN, SHOW_LIMIT,
                           "none can begin: a limit of CPU time leaves no room");
        else if (strstr(sampling, "lowered by a limit"))
                doctor_add(doctor, "boost", DOCTOR_WARN, SHOW_LIMIT,
                           "none is on, and one may be cut: a limit has lowered the frequency of all");
        else if (frequency && boosts_ticks(&highest, frequency) < 2)
                doctor_add(doctor, "boost", DOCTOR_OK, NULL,
                           "none can be had: %" PRIu32 " Hz is too near to the %d of the highest", frequency,
                           BOOST_MAX_FREQUENCY);
        else
                doctor_add(doctor, "boost", DOCTOR_OK, NULL,
                           "none is on; `spanprof boost` samples one service more often for a while");
}

void doctor_judge_boosts(Doctor *doctor, const char *status) {
        char words[DOCTOR_MAX_LINE], more[32] = "";
        uint32_t n = 0;

        for (const char *at = strstr(status, "\nboost "); at; at = strstr(at + 1, "\nboost "))
                n++;
        if (n > 1)
                snprintf(more, sizeof(more), " (the first of %" PRIu32 ")", n);
        doctor->of_daemon = doctor->view.pid;
        if (doctor_find_line(status, "boost", words))
                doctor_add(doctor, "boost", DOCTOR_OK, NULL, "%s%s", words, more);
        else
                judge_none(doctor, status);
        doctor->of_daemon = false;
}
