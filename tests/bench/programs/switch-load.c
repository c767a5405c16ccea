/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch-load SECONDS [ring|thread|LIBRARY]: two processes on one CPU hand a byte to each other; each
 * hand-over is a wait, a wake-up and a switch. Each works for a span: in a ring, in a thread context (static
 * TLS), or in one of the SDK's LIBRARY, which is loaded for it (dynamic TLS). Prints first:
 *     pid 4711 4712
 * Begins with a line on its standard input. Prints last: round trips, the CPU time of both processes for one,
 * and the 99th percentile of its length, in ns:
 *     123456 1234 5678
 *
 * switch-load SECONDS neighbour: a process that sleeps for 1 ms again and again. Prints last: how often, and
 * the 99th percentile of how late it woke up, in ns:
 *     1234 56789
 */
#include <dlfcn.h>
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

/* The first of these are kept. */
enum { MAX_LENGTHS = 1 << 20 };

static uint64_t lengths_ns[MAX_LENGTHS];
static size_t n_lengths;

static void keep_length(uint64_t ns) {
        if (n_lengths < MAX_LENGTHS)
                lengths_ns[n_lengths++] = ns;
}

static int compare(const void *a, const void *b) {
        const uint64_t *x = a, *y = b;

        return (*x > *y) - (*x < *y);
}

static unsigned long long percentile_99(void) {
        qsort(lengths_ns, n_lengths, sizeof(*lengths_ns), compare);
        return n_lengths ? lengths_ns[n_lengths * 99 / 100] : 0;
}

static int be_neighbour(double seconds) {
        uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9), before_ns, after_ns = 0;

        while (after_ns < end_ns) {
                before_ns = clock_ns(CLOCK_MONOTONIC);
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
                after_ns = clock_ns(CLOCK_MONOTONIC);
                keep_length(after_ns - before_ns - 1000000);
        }
        printf("%zu %llu\n", n_lengths, percentile_99());
        return 0;
}

static __typeof__(spanprof_context_set) *set_context;     /* NULL = none */

/* @storage: `ring`, `thread` or a library. Return: 0, 1. */
static int publish(const char *storage) {
        struct spanprof_context_options options = { .size = sizeof(options) };
        __typeof__(spanprof_context_start) *start = spanprof_context_start;
        void *library;

        set_context = spanprof_context_set;
        options.storage = strcmp(storage, "ring") ? SPANPROF_CONTEXT_THREAD : SPANPROF_CONTEXT_RING;
        if (strchr(storage, '/')) {
                library = dlopen(storage, RTLD_NOW | RTLD_LOCAL);
                if (!library)
                        return 1;
                start = (__typeof__(start))dlsym(library, "spanprof_context_start");
                set_context = (__typeof__(set_context))dlsym(library, "spanprof_context_set");
        }
        return start && set_context ? start(&options) : 1;
}

static void work_for_span(void) {
        if (set_context)
                set_context(1, 2, (uint64_t)getpid());
}

/* Ends with its other end. Return: CPU time, ns. */
static uint64_t answer(int from, int to) {
        char byte;

        work_for_span();
        while (read(from, &byte, 1) == 1)
                if (write(to, &byte, 1) != 1)
                        break;
        return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int main(int argc, char **argv) {
        double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
        int there[2], back[2], result[2];
        uint64_t n = 0, cpu_ns, other_ns = 0, end_ns, before_ns, after_ns;
        cpu_set_t set;
        char byte = 0;
        pid_t child;

        if (argc > 2 && !strcmp(argv[2], "neighbour"))
                return be_neighbour(seconds);
        CPU_ZERO(&set);
        CPU_SET(0, &set);
        if (sched_setaffinity(0, sizeof(set), &set) || pipe(there) || pipe(back) || pipe(result) ||
            (argc > 2 && publish(argv[2])))
                return 1;
        child = fork();
        if (!child) {
                close(there[1]);
                close(back[0]);
                cpu_ns = answer(there[0], back[1]);
                return write(result[1], &cpu_ns, sizeof(cpu_ns)) != sizeof(cpu_ns);
        }
        close(there[0]);
        close(back[1]);
        printf("pid %d %d\n", getpid(), child);
        fflush(stdout);
        work_for_span();
        if (getchar() == EOF)
                return 1;
        before_ns = clock_ns(CLOCK_MONOTONIC);
        end_ns = before_ns + (uint64_t)(seconds * 1e9);
        for (; before_ns < end_ns; n++, before_ns = after_ns) {
                if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
                        return 1;
                after_ns = clock_ns(CLOCK_MONOTONIC);
                keep_length(after_ns - before_ns);
        }
        cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        close(there[1]);
        if (read(result[0], &other_ns, sizeof(other_ns)) != sizeof(other_ns))
                return 1;
        waitpid(child, NULL, 0);
        printf("%llu %llu %llu\n", (unsigned long long)n, (unsigned long long)((cpu_ns + other_ns) / n),
               percentile_99());
        return 0;
}
