/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Governor
 *
 * What the daemon may use of the machine itself: decides, from its own CPU time and memory, at which
 * frequency it may sample and whether it may sample at all. Numbers in, decisions out; daemon-govern.c
 * carries them out.
 */

#include <stdbool.h>
#include <stdint.h>

/* CPU time is judged so often, over so many intervals: each ten seconds. */
#define GOVERNOR_INTERVAL_NS (500 * NS_PER_MS)
enum {
        GOVERNOR_N_INTERVALS = 20,
        GOVERNOR_CALM_INTERVALS = 20,   /* before the frequency is doubled */
        GOVERNOR_FORESEEN = 16,         /* part of the configured frequency that stays, below the limit */
};

typedef struct Governor {
        uint64_t max_cpu;               /* percent of one CPU, 0 = no limit */
        uint64_t max_memory_bytes;      /* 0 = no limit */
        uint32_t nominal;               /* Hz, as configured */
        uint32_t frequency;             /* Hz, now */
        uint64_t since_ns, cpu_ns;      /* when the interval began, and our CPU time then */
        double percent[GOVERNOR_N_INTERVALS];   /* use in the last intervals, the newest first */
        uint32_t n_intervals;
        uint32_t n_calm;                /* intervals far below the limit, one after the other */
        /* there are ticks beyond `frequency`; they are to go, as they do before it is halved */
        bool has_more, holds_more;
        bool too_large;
} Governor;

enum {
        _GOVERNOR_E_SUCCESS,
        /* `frequency` is half of what it was, or `holds_more` is set: we use more than the limit */
        GOVERNOR_E_LOWERED,
        GOVERNOR_E_FORESEEN,            /* the same, but we would over ten seconds at the present pace */
        GOVERNOR_E_RAISED,              /* twice, or `holds_more` is not set any more */
};

void governor_init(Governor *governor, uint32_t frequency, uint64_t max_cpu, uint64_t max_memory_bytes,
                   uint64_t now_ns, uint64_t cpu_ns);

/* Whether CPU time is judged at @now_ns: there is a limit, and the interval is over. */
bool governor_is_due(const Governor *governor, uint64_t now_ns);

/* Nothing unless it is due. @cpu_ns: CPU time of this process so far. Return: 0, GOVERNOR_E_*. */
int governor_cpu(Governor *governor, uint64_t now_ns, uint64_t cpu_ns);

/* Whether memory is above the limit, or was and has not gone down by a tenth. */
bool governor_memory(Governor *governor, uint64_t resident_bytes);
