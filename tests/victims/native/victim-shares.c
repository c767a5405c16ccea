/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-shares [SECONDS [SEED]]: four functions with known shares of the CPU
 *
 * share_50(), share_30(), share_15() and share_5() do the same kind of work, in
 * slices of the same length, 50, 30, 15 and 5 % of them, in random order. One
 * thread. Without SECONDS until SIGTERM. With VICTIM_RESTS in the environment
 * it sleeps for most of the time.
 *
 * Prints first, then at the end the CPU time of each function by the thread's clock:
 *     pid 4711
 *     share_50 1003482751
 *     share_30 601093822
 *     share_15 300771532
 *     share_5 100338441
 */
#include <stdbool.h>

#include "victim.h"

enum { SLICE_ROUNDS = 200000 };         /* some 300 µs: long beside reading the clock */

#define SHARE(_n) \
        STEP void share_##_n(void); \
        STEP void share_##_n(void) { \
                KEEP_FRAME(); \
                victim_sink = victim_spin(victim_sink + _n, SLICE_ROUNDS); \
        }

SHARE(50)
SHARE(30)
SHARE(15)
SHARE(5)

static struct {
        const char *name;
        void (*run)(void);
        unsigned int percent;
        uint64_t cpu_ns;
} shares[] = {
        { "share_50", share_50, 50 },
        { "share_30", share_30, 30 },
        { "share_15", share_15, 15 },
        { "share_5", share_5, 5 },
};

static unsigned int draw(uint64_t *state) {
        unsigned int at, i = 0;

        *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
        at = (unsigned int)(*state >> 33) % 100;
        while (at >= shares[i].percent)
                at -= shares[i++].percent;
        return i;
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-shares [SECONDS [SEED]]";
        uint64_t state = (uint64_t)victim_argument(argc, argv, 2, 1, 0, 1e15, usage);
        bool rests = getenv("VICTIM_RESTS");
        uint64_t before_ns, now_ns;

        victim_stop_after(victim_argument(argc, argv, 1, 0, 0, 1e6, usage));
        printf("pid %d\n", getpid());
        fflush(stdout);
        before_ns = victim_cpu_ns();
        while (!victim_stopped) {
                unsigned int i = draw(&state);

                if (rests)
                        usleep(1500);
                shares[i].run();
                now_ns = victim_cpu_ns();
                shares[i].cpu_ns += now_ns - before_ns;
                before_ns = now_ns;
        }
        for (unsigned int i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
                printf("%s %lu\n", shares[i].name, shares[i].cpu_ns);
        return 0;
}
