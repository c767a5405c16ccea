/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-dlopen LIBRARY SECONDS: a library that comes late
 *
 * Works in main() for SECONDS of its CPU time, then loads LIBRARY (a build of swap-library.c) and works in that one
 * until it is told to stop. Prints:
 *     pid 4711
 *     loaded
 *
 * victim-dlopen series SECONDS LIBRARY…: loads one after the other, works SECONDS of CPU time in each, and ends. Prints
 * a line for each, with MONOTONIC times:
 *     library 0 begin 812345678901 end 812545678901
 */
#include <dlfcn.h>
#include <string.h>

#include "victim.h"

typedef uint64_t (*Burn)(uint64_t rounds);

static Burn load(const char *path) {
        void *library = dlopen(path, RTLD_NOW);
        Burn burn = library ? (Burn)dlsym(library, "library_burn") : NULL;

        if (!burn) {
                fprintf(stderr, "%s\n", dlerror());
                exit(1);
        }
        return burn;
}

static int series(double seconds, int n, char **paths) {
        for (int i = 0; i < n; i++) {
                Burn burn = load(paths[i]);
                uint64_t begin_ns = victim_clock_ns(CLOCK_MONOTONIC), until_ns = victim_cpu_ns() + (uint64_t)(seconds * 1e9);

                while (victim_cpu_ns() < until_ns)
                        victim_sink = burn(10000);
                printf("library %d begin %lu end %lu\n", i, begin_ns, victim_clock_ns(CLOCK_MONOTONIC));
                fflush(stdout);
        }
        return 0;
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-dlopen LIBRARY SECONDS | series SECONDS LIBRARY…";
        int is_series = argc > 3 && !strcmp(argv[1], "series");
        double seconds = victim_argument(argc, argv, 2, 3, 0, 1e6, usage);
        Burn burn;

        victim_stop_after(0);
        printf("pid %d\n", getpid());
        fflush(stdout);
        if (is_series)
                return series(seconds, argc - 3, argv + 3);
        while (victim_cpu_ns() < (uint64_t)(seconds * 1e9))
                victim_sink = victim_spin(victim_sink, 10000);
        burn = load(argv[1]);
        printf("loaded\n");
        fflush(stdout);
        while (!victim_stopped)
                victim_sink = burn(10000);
        return 0;
}
