/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Common Parts of the Victims
 *
 * A victim is a small program with a known truth: what it spends its time on is
 * fixed by construction or measured by its own clocks, and printed. Tests and
 * benches sample it and compare. Each says in its first comment what it prints;
 * the first line always comes before the work begins, so a test can wait for it.
 */

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A function that a profile shows as one function by this name, in every compiler. */
#if defined(__clang__)
#define STEP __attribute__((__noinline__))
#else
#define STEP __attribute__((__noipa__))
#endif

/*
 * Gives the function a frame. gcc makes none for one that calls nothing and needs no stack, whatever
 * -fno-omit-frame-pointer says; a walk by frame pointers then loses its caller.
 */
#define KEEP_FRAME() __asm__ volatile("" : : "r"(__builtin_frame_address(0)))

static volatile sig_atomic_t victim_stopped;    /* SIGTERM, SIGINT, or the time is up */

static inline uint64_t victim_clock_ns(clockid_t id) {
        struct timespec ts;

        clock_gettime(id, &ts);
        return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static inline uint64_t victim_cpu_ns(void) {
        return victim_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline void victim_on_stop(int signal) {
        victim_stopped = 1;
}

/* Sets victim_stopped at SIGTERM and SIGINT, and after @seconds if that is not 0. */
static inline void victim_stop_after(double seconds) {
        struct itimerspec when = { .it_value = { (time_t)seconds,
                                                 (long)((seconds - (double)(time_t)seconds) * 1e9) } };
        timer_t timer;

        signal(SIGTERM, victim_on_stop);
        signal(SIGINT, victim_on_stop);
        signal(SIGALRM, victim_on_stop);
        if (seconds > 0 &&
            (timer_create(CLOCK_MONOTONIC, NULL, &timer) || timer_settime(timer, 0, &when, NULL)))
                abort();
}

/*
 * argv[@n] as a number in [@least, @most], or @otherwise if there is none; on anything else prints @usage,
 * exit 2.
 */
static inline double victim_argument(int argc, char **argv, int n, double otherwise, double least,
                                     double most, const char *usage) {
        double value = otherwise;
        char *end = NULL;

        if (n < argc) {
                value = strtod(argv[n], &end);
                if (end == argv[n] || *end || !(value >= least && value <= most)) {
                        fprintf(stderr, "usage: %s\n", usage);
                        exit(2);
                }
        }
        return value;
}

/* Some work: no call, no memory, the same time for each round. The result depends on all of it. */
static inline __attribute__((__always_inline__)) uint64_t victim_spin(uint64_t x, unsigned int rounds) {
        for (unsigned int i = 0; i < rounds; i++)
                x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9) + i;
        return x;
}

/* Where results go, so that no work can be left out. */
static volatile uint64_t victim_sink;
