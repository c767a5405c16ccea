/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-dlopen LIBRARY SECONDS: a library that comes late
 *
 * Works in main() for SECONDS of its CPU time, then loads LIBRARY (a build of swap-library.c) and works in
 * that one until it is told to stop. Prints:
 *     pid 4711
 *     loaded
 *
 * victim-dlopen series SECONDS LIBRARY…: loads one after the other, works SECONDS of CPU time in each, and
 * ends. Prints a line for each, with MONOTONIC times:
 *     library 0 begin 812345678901 end 812545678901
 *
 * victim-dlopen code: at each SIGUSR1 makes a function in a mapping of its own and works in that one until
 * the next. Prints
 *     pid 4711
 *     made 1
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

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

static STEP uint64_t victim_burn(uint64_t rounds) {
        return victim_spin(victim_sink, (unsigned)rounds);
}

static int series(double seconds, int n, char **paths) {
        for (int i = 0; i < n; i++) {
                Burn burn = load(paths[i]);
                uint64_t begin_ns = victim_clock_ns(CLOCK_MONOTONIC),
                         until_ns = victim_cpu_ns() + (uint64_t)(seconds * 1e9);

                while (victim_cpu_ns() < until_ns)
                        victim_sink = burn(10000);
                printf("library %d begin %lu end %lu\n", i, begin_ns, victim_clock_ns(CLOCK_MONOTONIC));
                fflush(stdout);
        }
        return 0;
}

static volatile sig_atomic_t asked;

static void on_ask(int signal) {
        asked++;
}

/*
 * x86-64: counts its argument down to 0 and returns it. A page without access lies between two such mappings:
 * they never join.
 */
static Burn make_code(void) {
        static const uint8_t code[] = { 0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3 };
        uint8_t *pages = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (pages == MAP_FAILED || mprotect(pages, 4096, PROT_READ | PROT_WRITE))
                abort();
        memcpy(pages, code, sizeof(code));
        if (mprotect(pages, 4096, PROT_READ | PROT_EXEC))
                abort();
        return (Burn)(uintptr_t)pages;
}

static int make_when_asked(void) {
        Burn burn = victim_burn;
        int made = 0;

        while (!victim_stopped) {
                victim_sink = burn(10000);
                if (made == asked)
                        continue;
                burn = make_code();
                printf("made %d\n", ++made);
                fflush(stdout);
        }
        return 0;
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-dlopen LIBRARY SECONDS | series SECONDS LIBRARY… | code";
        int is_code = argc == 2 && !strcmp(argv[1], "code");
        int is_series = argc > 3 && !strcmp(argv[1], "series");
        double seconds = victim_argument(argc, argv, 2, 3, 0, 1e6, usage);
        Burn burn;

        victim_stop_after(0);
        signal(SIGUSR1, on_ask);
        printf("pid %d\n", getpid());
        fflush(stdout);
        if (is_code)
                return make_when_asked();
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
