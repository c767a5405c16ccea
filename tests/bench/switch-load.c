/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch-load SECONDS [ring]: two processes on one CPU hand a byte to each other; each hand-over is a wait, a
 * wake-up and a switch. With `ring`, each works for a span. Prints first:
 *     pid 4711 4712
 * and last: round trips, and the CPU time of both processes for one, in ns:
 *     123456 1234
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spanprof/context.h"

static uint64_t clock_ns(clockid_t id) {
        struct timespec ts;

        clock_gettime(id, &ts);
        return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void work_for(int spans) {
        if (spans)
                spanprof_context_set(1, 2, (uint64_t)getpid());
}

/* Ends with its other end. Return: CPU time, ns. */
static uint64_t answer(int from, int to, int spans) {
        char byte;

        work_for(spans);
        while (read(from, &byte, 1) == 1)
                if (write(to, &byte, 1) != 1)
                        break;
        return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int main(int argc, char **argv) {
        double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
        int there[2], back[2], result[2], spans = argc > 2 && !strcmp(argv[2], "ring");
        uint64_t n = 0, cpu_ns, other_ns = 0, end_ns;
        cpu_set_t set;
        char byte = 0;
        pid_t child;

        CPU_ZERO(&set);
        CPU_SET(0, &set);
        if (sched_setaffinity(0, sizeof(set), &set) || pipe(there) || pipe(back) || pipe(result) ||
            (spans && spanprof_context_start(NULL)))
                return 1;
        child = fork();
        if (!child) {
                close(there[1]);
                close(back[0]);
                cpu_ns = answer(there[0], back[1], spans);
                return write(result[1], &cpu_ns, sizeof(cpu_ns)) != sizeof(cpu_ns);
        }
        close(there[0]);
        close(back[1]);
        printf("pid %d %d\n", getpid(), child);
        fflush(stdout);
        work_for(spans);
        end_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
        for (; n % 64 || clock_ns(CLOCK_MONOTONIC) < end_ns; n++)
                if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
                        return 1;
        cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        close(there[1]);
        if (read(result[0], &other_ns, sizeof(other_ns)) != sizeof(other_ns))
                return 1;
        waitpid(child, NULL, 0);
        printf("%llu %llu\n", (unsigned long long)n, (unsigned long long)((cpu_ns + other_ns) / n));
        return 0;
}
