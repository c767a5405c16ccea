/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs of malloc() and free(): ns of each, by its own CPU time.
 *
 * usage: alloc-pairs PAIRS SIZE
 * prints: ns
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t now_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int main(int argc, char **argv) {
        size_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000000;
        size_t size = argc > 2 ? strtoull(argv[2], NULL, 10) : 64;
        int64_t begin = now_ns();

        for (size_t i = 0; i < n; i++) {
                void *pointer = malloc(size);

                __asm__ volatile("" : "+r"(pointer));           /* or the compiler leaves out both */
                free(pointer);
        }
        printf("%.3f\n", (double)(now_ns() - begin) / (double)n);
        return 0;
}
