/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-brief: processes that end soon, of code without frame pointers
 *
 * Each burns MS milliseconds of CPU in brief_leaf(), under brief_three() to brief_one() and main(). The way
 * from brief_two() to brief_three() leads through qsort() of libc, so libc's rows are needed too.
 *
 *     victim-brief burn MS             this process
 *     victim-brief serve N MS          N children one after the other, by fork() alone
 *     victim-brief serve N MS LIBRARY  the same; each child loads LIBRARY (swap-library.c) and works there
 *
 * Prints at the end, and for each child before it works:
 *     pid 4711 cpu_ns 20013847
 *     child 4712
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>

#include "victim.h"

typedef uint64_t (*Burn)(uint64_t rounds);

static uint64_t until_ns;
static Burn burn;

STEP uint64_t brief_leaf(uint64_t x);
STEP int brief_three(const void *a, const void *b);
STEP uint64_t brief_two(uint64_t x);
STEP uint64_t brief_one(uint64_t x);

STEP uint64_t brief_leaf(uint64_t x) {
        while (victim_cpu_ns() < until_ns)
                x = burn ? burn(10) : victim_spin(x, 2000);
        return x;
}

STEP int brief_three(const void *a, const void *b) {
        volatile uint64_t frame[6] = { *(const unsigned char *)a, *(const unsigned char *)b };

        victim_sink = brief_leaf(frame[0]);
        return (int)frame[0] - (int)frame[1];
}

STEP uint64_t brief_two(uint64_t x) {
        unsigned char elements[2] = { (unsigned char)(x + 2), (unsigned char)(x + 1) };

        qsort(elements, 2, 1, brief_three);
        return elements[0];
}

STEP uint64_t brief_one(uint64_t x) {
        volatile uint64_t frame[30];

        frame[x & 15] = brief_two(x);
        return frame[x & 15] + 1;
}

static void work(double ms) {
        until_ns = victim_cpu_ns() + (uint64_t)(ms * 1e6);
        victim_sink = brief_one(1);
}

static void load(const char *path) {
        void *library = dlopen(path, RTLD_NOW);

        burn = library ? (Burn)dlsym(library, "library_burn") : NULL;
        if (!burn) {
                fprintf(stderr, "%s\n", dlerror());
                _exit(1);
        }
}

static int serve(int n, double ms, const char *library) {
        for (int i = 0; i < n; i++) {
                pid_t pid = fork();

                if (pid == 0) {
                        if (library)
                                load(library);
                        work(ms);
                        _exit(0);
                }
                printf("child %d\n", pid);
                fflush(stdout);
                if (pid < 0 || waitpid(pid, NULL, 0) != pid)
                        return 1;
        }
        return 0;
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-brief burn MS | serve N MS [LIBRARY]";
        int r = 0;

        if (argc > 2 && !strcmp(argv[1], "burn")) {
                work(victim_argument(argc, argv, 2, 20, 0, 1e6, usage));
        } else if (argc > 3 && !strcmp(argv[1], "serve")) {
                r = serve((int)victim_argument(argc, argv, 2, 1, 1, 1e6, usage),
                          victim_argument(argc, argv, 3, 20, 0, 1e6, usage), argc > 4 ? argv[4] : NULL);
        } else {
                fprintf(stderr, "usage: %s\n", usage);
                return 2;
        }
        printf("pid %d cpu_ns %lu\n", getpid(), victim_cpu_ns());
        return r;
}
