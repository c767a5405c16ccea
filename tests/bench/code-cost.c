/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What it costs that workers without rights read perf-maps: the same looks at the same file, by turns here
 * and by a worker, with a processor's time of all processes.
 *
 * usage: code-cost [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util/clock.h"
#include "service/run/worker-main.h"
#include "symbol/naming/code-source.h"

enum { SMALL_LOOKS = 50, MAX_ROUNDS = 101 };

typedef struct Cost {
        double wall_us[MAX_ROUNDS], cpu_us[MAX_ROUNDS];
} Cost;

static char path[64];
static Zygotes *zygotes;

static double cpu_us(void) {
        struct rusage usage;

        getrusage(RUSAGE_SELF, &usage);
        return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
                (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) +
                (double)zygotes_cpu_ns(zygotes) / 1e3;
}

static void write_lines(const char *mode, unsigned first, unsigned n) {
        FILE *file = fopen(path, mode);

        for (unsigned i = first; file && i < first + n; i++)
                fprintf(file,
                        "%x 40 LazyCompile:*someFunction%u /srv/app/node_modules/some-package/lib/index.js:%u:17\n",
                        0x10000000 + i * 64, i, i);
        if (!file || fclose(file))
                exit(1);
}

/* Return: records taken. */
static uint64_t look(CodeSource *source) {
        const CodePlace place = { .pid = getpid() };
        uint64_t n = 0;
        CodeLook found;

        do {
                code_source_look(source, &place, &found);
                n += found.n_taken;
        } while (found.has_more && !found.n_failed);
        return n;
}

/* @n lines at once, or @n times one more. */
static void measure(bool by_worker, unsigned n, unsigned n_looks, Cost *cost, unsigned round) {
        uint64_t begin_ns, sum = 0;
        CodeSource *source;
        double before_us;

        if (code_source_new(&source, NULL, by_worker ? zygotes : NULL))
                exit(1);
        write_lines("w", 0, n);
        before_us = cpu_us();
        begin_ns = clock_monotonic_ns();
        sum = look(source);
        for (unsigned i = 1; i < n_looks; i++) {
                write_lines("a", n + i, 1);
                sum += look(source);
        }
        cost->wall_us[round] = (double)(clock_monotonic_ns() - begin_ns) / 1e3 / n_looks;
        while (zygotes_tend(zygotes))
                usleep(100);
        cost->cpu_us[round] = (cpu_us() - before_us) / n_looks;
        if (sum != n + n_looks - 1)
                exit(1);
        code_source_unref(source);
}

static int compare(const void *a, const void *b) {
        return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

static void print(const char *what, double *values, unsigned n) {
        qsort(values, n, sizeof(*values), compare);
        printf(" %s %.0f [%.0f … %.0f]", what, values[n / 2], values[0], values[n - 1]);
}

int main(int argc, char **argv) {
        unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 11;
        const unsigned lines[] = { 1, 1000, 100000 };

        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(worker_main);
        umask(022);
        snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
        if (!rounds || rounds > MAX_ROUNDS || zygotes_new(&zygotes) || zygotes_wait(zygotes, 10000))
                return 1;
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
                unsigned n_looks = lines[i] == 1 ? SMALL_LOOKS : 1;
                static Cost costs[2];

                for (unsigned round = 0; round < rounds; round++)
                        for (int by_worker = 0; by_worker < 2; by_worker++)
                                measure(by_worker, lines[i], n_looks, &costs[by_worker], round);
                for (int by_worker = 0; by_worker < 2; by_worker++) {
                        printf("%u lines a look, %s:", lines[i], by_worker ? "worker" : "here");
                        print("wall µs", costs[by_worker].wall_us, rounds);
                        print("cpu µs", costs[by_worker].cpu_us, rounds);
                        printf("\n");
                }
        }
        unlink(path);
        zygotes_free(zygotes);
        return 0;
}
