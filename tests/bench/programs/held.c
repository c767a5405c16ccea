/* SPDX-License-Identifier: Apache-2.0 */

/*
 * For LD_PRELOAD (starts.py known): a program stays in its start, with all its libraries mapped, and never
 * comes to its main(). It is busy for a millisecond of each 200, so it has samples.
 */

#include <time.h>
#include <unistd.h>

static long now_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000000000L + now.tv_nsec;
}

__attribute__((constructor)) static void hold(void) {
        for (;;) {
                const struct timespec pause = { .tv_nsec = 199000000 };
                long end = now_ns() + 1000000;

                while (now_ns() < end)
                        ;
                nanosleep(&pause, NULL);
        }
}
