/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares ticks with the CPU time of the targets, and names the first cause that explains what is missing:
 * a pause, stolen time, lost ticks.
 */

#include "host/service/control/coverage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file/file.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"

#define TOLERANCE 0.05
#define LEAST_STOLEN 0.01

/* Chance alone takes or adds 5 % of fewer ticks. */
enum { LEAST_EXPECTED = 400, STAT_MAX = 1 << 20 };

/* proc_stat(5): user nice system idle iowait irq softirq steal; guest times are in the first two. */
enum { FIELD_STEAL = 7, N_FIELDS = 8 };

static uint64_t without(uint64_t all, uint64_t part) {
        return all - MIN(part, all);
}

void coverage_count(CoverageFacts *facts) {
        uint64_t strangers = stat_get(COUNTER_LOST_NOT_TARGET) + stat_get(COUNTER_UNDECIDED_LOST);

        facts->ticks = without(stat_get(COUNTER_TICKS), strangers);
        facts->lost = without(stat_lost(), strangers);
        facts->n_throttled = stat_get(COUNTER_THROTTLED);
}

void coverage_clock_read(CoverageClock *clock) {
        _cleanup_(freep) char *text = NULL;
        char *at;
        size_t size;

        *clock = (CoverageClock){ 0 };
        if (file_read("/proc/stat", STAT_MAX, &text, &size) || strncmp(text, "cpu ", 4))
                return;
        at = text + 4;
        for (unsigned i = 0; i < N_FIELDS; i++) {
                uint64_t value = strtoull(at, &at, 10);

                clock->all += value;
                if (i == FIELD_STEAL)
                        clock->stolen = value;
        }
}

double coverage_stolen(const CoverageClock *begin, const CoverageClock *end) {
        if (end->all <= begin->all || end->stolen <= begin->stolen)
                return 0;
        return MIN(1.0, (double)(end->stolen - begin->stolen) / (double)(end->all - begin->all));
}

static double samples(const CoverageFacts *facts) {
        return (double)without(facts->ticks, facts->lost);
}

double coverage_ratio(const CoverageFacts *facts) {
        return facts->expected > 0 ? samples(facts) / facts->expected : 0;
}

CoverageCause coverage_cause(const CoverageFacts *facts) {
        double missing = facts->expected - samples(facts);

        if (facts->expected < LEAST_EXPECTED ||
            (missing <= TOLERANCE * facts->expected && missing >= -TOLERANCE * facts->expected))
                return COVERAGE_WHOLE;
        if (missing < 0)
                return facts->stolen >= LEAST_STOLEN ? COVERAGE_STOLEN : COVERAGE_UNSEEN;
        if (2.0 * (double)facts->lost >= missing)
                return COVERAGE_LOST;
        if (facts->n_throttled)
                return COVERAGE_THROTTLED;
        return 2 * facts->stolen * facts->expected >= missing ? COVERAGE_STOLEN : COVERAGE_LATE;
}

static const struct {
        const char *name, *text, *fix;
} causes[] = {
        [COVERAGE_WHOLE] = { "", "", "" },
        [COVERAGE_LOST] = { "lost", "records were lost, as told by their reasons",
                            "spanprof status | grep ^lost   # by which reason; OPERATING.md says what each means" },
        [COVERAGE_THROTTLED] = { "throttled", "the kernel held timers back",
                                 "sudo sysctl -w kernel.perf_cpu_time_max_percent=50   # or a lower frequency" },
        [COVERAGE_STOLEN] = { "stolen", "the host takes CPU time: ticks and the kernel's books differ",
                              "grep '^cpu ' /proc/stat   # the eighth number grows: the host has too few CPUs" },
        [COVERAGE_LATE] = { "late", "timers came late or not at all",
                            "grep -E 'LOC|RES' /proc/interrupts   # an idle guest or a CPU taken offline has no ticks" },
        [COVERAGE_UNSEEN] = { "unseen", "CPU time was missed, of processes that came and went",
                              "spanprof status --json   # true of many short processes: counts are sound, the ratio is not" },
};

const char *coverage_cause_fix(CoverageCause cause) {
        return causes[cause].fix;
}

CoverageCause coverage_cause_in(const char *line) {
        for (CoverageCause cause = COVERAGE_LOST; cause <= COVERAGE_UNSEEN; cause++)
                if (strstr(line, causes[cause].text))
                        return cause;
        return COVERAGE_WHOLE;
}

const char *coverage_cause_name(CoverageCause cause) {
        return causes[cause].name;
}

const char *coverage_cause_text(CoverageCause cause) {
        return causes[cause].text;
}
