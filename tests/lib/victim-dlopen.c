/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-dlopen LIBRARY SECONDS: a library that comes late
 *
 * Works in main() for SECONDS of its CPU time, then loads LIBRARY (a build of swap-library.c) and works in that one
 * until it is told to stop. Prints:
 *     pid 4711
 *     loaded
 */
#include <dlfcn.h>

#include "victim.h"

int main(int argc, char **argv) {
        uint64_t until_ns = (uint64_t)(victim_argument(argc, argv, 2, 3, 0, 1e6, "victim-dlopen LIBRARY SECONDS") * 1e9);
        uint64_t (*burn)(uint64_t rounds);
        void *library;

        victim_stop_after(0);
        printf("pid %d\n", getpid());
        fflush(stdout);
        while (victim_cpu_ns() < until_ns)
                victim_sink = victim_spin(victim_sink, 10000);
        library = dlopen(argv[1], RTLD_NOW);
        burn = library ? (uint64_t(*)(uint64_t))dlsym(library, "library_burn") : NULL;
        if (!burn) {
                fprintf(stderr, "%s\n", dlerror());
                return 1;
        }
        printf("loaded\n");
        fflush(stdout);
        while (!victim_stopped)
                victim_sink = burn(10000);
        return 0;
}
