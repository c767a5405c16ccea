/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Coverage
 *
 * How many of the samples that the targets' CPU time stands for there are, and where it is not nearly all of
 * them, why. The kernel's books of CPU time are the one side, ticks the other.
 */

#include <stddef.h>
#include <stdint.h>

typedef struct CoverageFacts {
        double expected;                /* ticks that the targets' CPU time stands for */
        uint64_t ticks;                 /* on targets */
        uint64_t lost;                  /* ticks that were counted, and made no sample */
        uint64_t n_throttled;           /* times that the kernel held the sampler's events back */
        double stolen;                  /* share of all CPU time that the host gave to others, 0 to 1 */
} CoverageFacts;

typedef enum CoverageCause {
        COVERAGE_WHOLE,                 /* within 5 %; or too few ticks were expected to tell */
        COVERAGE_LOST,                  /* records were lost: lost_total says by what */
        COVERAGE_THROTTLED,             /* by the kernel */
        COVERAGE_STOLEN,                /* the host runs others: its books and our ticks do not agree */
        COVERAGE_LATE,                  /* timers came late, or not at all */
        COVERAGE_UNSEEN,                /* more ticks than CPU time: that of processes which came and went */
} CoverageCause;

/* CPU time of the machine since it started, in ticks of /proc/stat. */
typedef struct CoverageClock {
        uint64_t all, stolen;
} CoverageClock;

/*
 * Sets ticks, lost and n_throttled by the counters. Those of the kernel half are read once a second, ours
 * count at once: what is ahead of the other is taken for none.
 */
void coverage_count(CoverageFacts *facts);

/* Reads the machine's clocks of CPU time. A value that cannot be read is 0. */
void coverage_clock_read(CoverageClock *clock);

/* Pure. The share that the host has taken between two readings. */
double coverage_stolen(const CoverageClock *begin, const CoverageClock *end);

/* Pure. Samples there are ÷ samples that were expected; 0 = none were. */
double coverage_ratio(const CoverageFacts *facts);

/* Pure. What explains the larger part of what is missing, or is too much. */
CoverageCause coverage_cause(const CoverageFacts *facts);

/* `lost`, `throttled` …, "" for COVERAGE_WHOLE; the same for people; a command that says more. Static. */
const char *coverage_cause_name(CoverageCause cause);
const char *coverage_cause_text(CoverageCause cause);
const char *coverage_cause_fix(CoverageCause cause);

/* Pure. The cause that @line tells, a line with its text. */
CoverageCause coverage_cause_in(const char *line);
