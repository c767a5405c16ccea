/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks what a flight recorder has: ticks, memory, and where a daemon runs how far back its own one reaches.
 *
 *     configuration            ticks a second of a busy CPU, and how many of these are exported
 *     max-memory, memory.max   memory that it may have: 64 MiB, or a quarter of what caches may have
 *     /status of the daemon    its line `recorder`: windows that went for age, and those that went for room
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "host/sampling/sample/machine.h"
#include "host/service/control/control.h"
#include "host/service/doctor/doctor.h"
#include "host/service/limits/group-limit.h"
#include "host/service/recorder/recorder.h"

/* Windows that went for room leave less than the time that is asked for. */
static bool lost_room(const char *words) {
        const char *counts = strchr(words, ';');
        uint64_t n_room;

        return counts && sscanf(counts, "; %*u went for age, %" SCNu64 " for room", &n_room) == 1 && n_room;
}

static void judge_reach(Doctor *doctor, const char *words) {
        bool full = lost_room(words);

        doctor->of_daemon = doctor->view.pid;
        doctor_add(doctor, "recorder-reach", full ? DOCTOR_WARN : DOCTOR_OK,
                   "spanprof config show   # lower recorder-frequency or off-cpu-walks, or choose fewer targets",
                   "%s%s", words, full ? ": it was full before its time" : "");
        doctor->of_daemon = false;
}

static void judge_ticks(Doctor *doctor, size_t room, int64_t rate) {
        const ConfigSampling *config = &doctor->config->sampling;
        uint32_t n = config_ticks_per_sample(doctor->config);
        uint64_t ticks = config->frequency * n;
        char fix[DOCTOR_CURE_MAX];

        if (n == 1)
                doctor_add(doctor, "recorder", DOCTOR_WARN,
                           "spanprof config show   # set recorder-frequency to a multiple of frequency, up to 10,000 Hz",
                           "it has no more than the export: %" PRIu64 " ticks a second of a busy CPU", ticks);
        else if (rate && rate < (int64_t)ticks) {
                snprintf(fix, sizeof(fix), "sudo sysctl -w kernel.perf_event_max_sample_rate=%" PRIu64
                         "   # or a lower recorder-frequency", ticks);
                doctor_add(doctor, "recorder", DOCTOR_WARN, fix,
                           "%" PRIu64 " ticks a second of a busy CPU are wanted, %" PRId64
                           " allowed: its ticks will be lost, and the export's", ticks, rate);
        } else if (room < RECORDER_MAX_BYTES)
                doctor_add(doctor, "recorder", DOCTOR_WARN,
                           "spanprof config show   # raise max-memory, or memory.max of the unit or container",
                           "keeps %zu MiB at most, not %d: a quarter of what max-memory or memory.max leaves",
                           room >> 20, RECORDER_MAX_BYTES >> 20);
        else
                doctor_add(doctor, "recorder", DOCTOR_OK, NULL,
                           "%" PRIu64 " ticks a second of a busy CPU, one of %u is exported; %" PRIu64
                           " s are kept, in %zu MiB at most", ticks, n, config->recorder_ns / NS_PER_SEC, room >> 20);
}

void doctor_judge_recorder(Doctor *doctor, size_t room, int64_t rate, const char *status) {
        char words[DOCTOR_MAX_LINE];

        if (doctor->config->sampling.recorder_ns)
                judge_ticks(doctor, room, rate);
        else
                doctor_add(doctor, "recorder", DOCTOR_OK, NULL,
                           "none is asked for: recorder = 10m would keep all ticks of ten minutes in %zu MiB at most",
                           room >> 20);
        if (status && doctor_find_line(status, "recorder", words))
                judge_reach(doctor, words);
}

void doctor_check_recorder(Doctor *doctor) {
        const ConfigDaemon *config = &doctor->config->daemon;
        _cleanup_(text_deinit) Text answer = { 0 };
        GroupLimit group = { 0 };
        int64_t rate = 0;
        size_t room;
        int status;
        bool answers = !control_ask(config_control(doctor->config), "GET", "/status", &status, &answer) &&
                status == 200;

        group_limit_read(&group, "/proc/self");
        room = recorder_room(group_limit_spare(&group), config->max_memory_bytes);
        group_limit_deinit(&group);
        if (machine_setting("perf_event_max_sample_rate", &rate))
                rate = 0;
        doctor_judge_recorder(doctor, room, rate, answers ? answer.data : NULL);
}
