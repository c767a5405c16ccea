/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Boosts
 *
 * Processes that are sampled more often for a while, as `spanprof boost` has asked: a few at a time, each with
 * an end. All of them have one rate, that of the highest.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/sampling/process/process.h"

enum {
        BOOSTS_MAX = 4,
        BOOST_UNIT_SIZE = 128,
        BOOST_MAX_FREQUENCY = 1000,     /* Hz */
        BOOST_MAX_SECONDS = 600,
};

typedef struct Boost {
        char unit[BOOST_UNIT_SIZE];     /* glob; "" = a process is meant */
        uint32_t pid;
        uint64_t start_time_ns;         /* start of that process */
        uint32_t frequency;             /* Hz, as asked */
        uint64_t length_ns, end_ns;     /* MONOTONIC */
} Boost;

/* Zeros: there is none. */
typedef struct Boosts {
        Boost items[BOOSTS_MAX];
        uint32_t n;
} Boosts;

enum {
        _BOOST_E_SUCCESS,
        BOOST_E_MALFORMED,
};

/*
 * Pure. Reads /unit/NAME or /process/PID, with /frequency/HZ and /for/SECONDS, in any order. Return: 0,
 * BOOST_E_MALFORMED.
 */
int boost_parse(const char *path, Boost *boostp);

/* Pure. */
bool boost_means(const Boost *boost, const Process *process);
bool boosts_mean(const Boosts *boosts, const Process *process);

/* Adds one, or replaces one of the same process or unit. Return: whether there was room. */
bool boosts_add(Boosts *boosts, const Boost *boost);

/* Drops those that end by @now_ns. Return: how many. */
uint32_t boosts_expire(Boosts *boosts, uint64_t now_ns);

/* Pure. Ticks of a CPU for one that others have, which is @frequency of the configuration; 1 = no more. */
uint32_t boosts_ticks(const Boosts *boosts, uint32_t frequency);
