/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-crowd N THREADS [MS [PERIOD_S]]: many processes
 *
 * N processes of THREADS threads each, which all burn MS ms of CPU in crowd_burn() each PERIOD_S seconds
 * (default 10; the first time at a moment of their own within it) and sleep between. MS 0, the default: they
 * only sleep.
 *
 * victim-crowd storm N RATE [PROGRAM]: many processes, one after the other
 *
 * N children at RATE a second (0 = as fast as it goes), which execute PROGRAM, or without one end at once.
 *
 * Prints first `pid 4711`; the crowd `ready` when all are there, the storm `spawned K` each 10,000 and at the
 * end
 *     spawned 100000 seconds 50.003
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "victim.h"

enum { STACK_BYTES = 64 << 10 };

static uint64_t burn_ns;
static double period_s;

STEP void crowd_burn(void);

STEP void crowd_burn(void) {
        uint64_t end_ns = victim_cpu_ns() + burn_ns;

        KEEP_FRAME();
        while (victim_cpu_ns() < end_ns)
                victim_sink = victim_spin(victim_sink, 2000);
}

static void sleep_s(double s) {
        struct timespec ts = { (time_t)s, (long)((s - (double)(time_t)s) * 1e9) };

        nanosleep(&ts, NULL);
}

static void *live(void *seed) {
        uint64_t random = victim_spin((uintptr_t)seed * 2654435761, 3);

        if (!burn_ns)
                for (;;)
                        pause();
        sleep_s(period_s * (double)(random >> 40) / (1 << 24));
        for (;;) {
                crowd_burn();
                sleep_s(period_s);
        }
        return NULL;
}

static void be_one(unsigned nth, unsigned n_threads) {
        pthread_attr_t attributes;
        pthread_t thread;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        for (unsigned i = 1; i < n_threads; i++)
                if (pthread_create(&thread, &attributes, live, (void *)(uintptr_t)(nth * n_threads + i + 1)))
                        _exit(1);
        live((void *)(uintptr_t)(nth * n_threads + 1));
}

static int crowd(unsigned n, unsigned n_threads) {
        for (unsigned i = 0; i < n; i++) {
                pid_t pid = fork();

                if (!pid)
                        be_one(i, n_threads);
                if (pid < 0) {
                        fprintf(stderr, "victim-crowd: fork: %s\n", strerror(errno));
                        return 1;
                }
        }
        printf("ready\n");
        fflush(stdout);
        while (!victim_stopped)
                pause();
        kill(0, SIGKILL);
        return 0;
}

static int spawn(char *program) {
        pid_t pid = program ? vfork() : fork();

        if (!pid) {
                if (program)
                        execl(program, program, (char *)NULL);
                _exit(0);
        }
        return pid < 0 || waitpid(pid, NULL, 0) != pid;
}

static int storm(unsigned n, double rate, char *program) {
        uint64_t begin_ns = victim_clock_ns(CLOCK_MONOTONIC);

        for (unsigned i = 1; i <= n; i++) {
                double early_s = rate ? i / rate - (double)(victim_clock_ns(CLOCK_MONOTONIC) - begin_ns) / 1e9
                                      : 0;

                if (early_s > 0)
                        sleep_s(early_s);
                if (spawn(program))
                        return 1;
                if (i % 10000 == 0) {
                        printf("spawned %u\n", i);
                        fflush(stdout);
                }
        }
        printf("spawned %u seconds %.3f\n", n, (double)(victim_clock_ns(CLOCK_MONOTONIC) - begin_ns) / 1e9);
        return 0;
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-crowd N THREADS [MS [PERIOD_S]] | storm N RATE [PROGRAM]";
        unsigned n;

        printf("pid %d\n", getpid());
        fflush(stdout);
        if (argc > 1 && !strcmp(argv[1], "storm")) {
                n = (unsigned)victim_argument(argc, argv, 2, 1000, 1, 1e8, usage);
                return storm(n, victim_argument(argc, argv, 3, 0, 0, 1e6, usage), argc > 4 ? argv[4] : NULL);
        }
        setpgid(0, 0);
        victim_stop_after(0);
        n = (unsigned)victim_argument(argc, argv, 1, 10, 1, 1e6, usage);
        burn_ns = (uint64_t)(victim_argument(argc, argv, 3, 0, 0, 1e6, usage) * 1e6);
        period_s = victim_argument(argc, argv, 4, 10, 0.001, 1e6, usage);
        return crowd(n, (unsigned)victim_argument(argc, argv, 2, 1, 1, 1000, usage));
}
