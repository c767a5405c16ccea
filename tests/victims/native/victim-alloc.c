/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-alloc ROUNDS [REST_US]: a program that allocates, and knows how much; to be run with
 * libspanprof-alloc preloaded
 *
 * A round allocates 10 × 1,000 bytes in alloc_f(), 3 × 2,000 in alloc_g() and 1 × 4,000 in alloc_h(), and
 * frees all of it: 50, 30 and 20 % of the bytes. Odd rounds are in span 1111 of trace (7, 8), even ones in
 * span 2222, and each fifth one in none. It rests for REST_US (10,000) after a round. Prints first:
 *
 *     pid 4711
 *
 * begins once it has read a line, or the end of its standard input, and prints at its end bytes and objects:
 *
 *     f 10000
 *     g 6000
 *     h 4000
 *     objects 14
 *     first 8000       bytes in span 1111; second: in 2222
 *     second 8000
 */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "spanprof/context.h"
#include "victim.h"

enum { BYTES_F = 1000, BYTES_G = 2000, BYTES_H = 4000, N_F = 10, N_G = 3, N_H = 1, N_ROUND = 20000 };

/* The compiler knows malloc() and free(), and leaves out what nobody reads. */
static void hide(void *pointer) {
        __asm__ volatile("" : : "r"(pointer) : "memory");
}

static STEP void alloc_f(void **to) {
        KEEP_FRAME();
        for (size_t i = 0; i < N_F; i++)
                hide(to[i] = malloc(BYTES_F));
}

static STEP void alloc_g(void **to) {
        KEEP_FRAME();
        for (size_t i = 0; i < N_G; i++)
                hide(to[i] = calloc(BYTES_G / 10, 10));
}

static STEP void alloc_h(void **to) {
        KEEP_FRAME();
        for (size_t i = 0; i < N_H; i++)
                hide(to[i] = realloc(NULL, BYTES_H));
}

static STEP void round_of(void) {
        void *all[N_F + N_G + N_H];

        alloc_f(all);
        alloc_g(all + N_F);
        alloc_h(all + N_F + N_G);
        for (size_t i = 0; i < N_F + N_G + N_H; i++)
                free(all[i]);
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-alloc ROUNDS [REST_US]";
        const uint64_t n_rounds = (uint64_t)victim_argument(argc, argv, 1, 100, 1, 1e9, usage);
        const uint64_t rest_us = (uint64_t)victim_argument(argc, argv, 2, 10000, 0, 1e6, usage);
        const struct timespec rest = { .tv_sec = 0, .tv_nsec = (long)(rest_us % 1000000 * 1000) };
        uint64_t n_in[2] = { 0 };

        if (spanprof_context_start(NULL))
                abort();
        printf("pid %d\n", getpid());
        fflush(stdout);
        (void)getchar();
        for (uint64_t i = 1; i <= n_rounds; i++) {
                if (i % 5) {
                        spanprof_context_set(7, 8, i % 2 ? 1111 : 2222);
                        n_in[i % 2 ? 0 : 1]++;
                }
                round_of();
                spanprof_context_clear();
                if (rest_us)
                        nanosleep(&rest, NULL);
        }
        printf("f %ld\ng %ld\nh %ld\nobjects %ld\nfirst %ld\nsecond %ld\n", (long)(n_rounds * N_F * BYTES_F),
               (long)(n_rounds * N_G * BYTES_G), (long)(n_rounds * N_H * BYTES_H),
               (long)(n_rounds * (N_F + N_G + N_H)), (long)(n_in[0] * N_ROUND), (long)(n_in[1] * N_ROUND));
        return 0;
}
