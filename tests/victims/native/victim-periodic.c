/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-periodic MS [SECONDS]: work that repeats in step with a sampler
 *
 * Burns one CPU: in each period of MS milliseconds (10 or 10.101 hit 100 and
 * 99 Hz) the first 30 % in work_a(), the rest in work_b(), by the monotonic
 * clock. A sampler with a fixed period always meets the same phase.
 *
 * Prints first, then at the end the CPU time of both by the thread's clock:
 *     pid 4711 period_ns 10101000
 *     work_a 300122913
 *     work_b 699790321
 */
#include "victim.h"

enum { CHUNK_ROUNDS = 2000 };           /* some 3 µs between two looks at the clock */

STEP void work_a(void);
STEP void work_b(void);

STEP void work_a(void) {
        KEEP_FRAME();
        victim_sink = victim_spin(victim_sink + 1, CHUNK_ROUNDS);
}

STEP void work_b(void) {
        KEEP_FRAME();
        victim_sink = victim_spin(victim_sink + 2, CHUNK_ROUNDS);
}

/* Return: the CPU time that it took. */
static uint64_t work_until(void (*work)(void), uint64_t end_ns) {
        uint64_t start_ns = victim_cpu_ns();

        while (!victim_stopped && victim_clock_ns(CLOCK_MONOTONIC) < end_ns)
                work();
        return victim_cpu_ns() - start_ns;
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-periodic MS [SECONDS]";
        uint64_t period_ns = (uint64_t)(victim_argument(argc, argv, 1, 10, 0.1, 1000, usage) * 1e6 + 0.5);
        uint64_t turn_ns, a_ns = 0, b_ns = 0;

        victim_stop_after(victim_argument(argc, argv, 2, 0, 0, 1e6, usage));
        printf("pid %d period_ns %lu\n", getpid(), period_ns);
        fflush(stdout);
        turn_ns = victim_clock_ns(CLOCK_MONOTONIC);
        while (!victim_stopped) {
                a_ns += work_until(work_a, turn_ns + period_ns * 3 / 10);
                turn_ns += period_ns;
                b_ns += work_until(work_b, turn_ns);
        }
        printf("work_a %lu\nwork_b %lu\n", a_ns, b_ns);
        return 0;
}
