/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library of victim-swap and victim-dlopen: library_burn(ROUNDS) works in library_inner() and returns. It
 * needs no data and no other library, so its code runs wherever it is mapped. Built twice: with
 * SWAP_FRAME=400 its functions have frames of another size and lie elsewhere, so that the unwind rows of one
 * build are wrong for the other.
 */
#include "victim.h"

#ifndef SWAP_FRAME
#define SWAP_FRAME 16
#endif

#define HIDDEN __attribute__((__visibility__("hidden")))        /* called directly, not by way of a table */

uint64_t library_burn(uint64_t rounds);
HIDDEN STEP uint64_t library_inner(uint64_t x, uint64_t rounds);
HIDDEN STEP uint64_t library_filler(uint64_t x);

#if SWAP_FRAME > 16
STEP uint64_t library_filler(uint64_t x) {
        for (int i = 0; i < 100; i++)
                x = x * 31 + (x >> 7) + (x << 9 ^ x >> 3) * 77;
        return x;
}
#endif

STEP uint64_t library_inner(uint64_t x, uint64_t rounds) {
        volatile uint64_t frame[SWAP_FRAME];

        frame[0] = x;
        for (uint64_t i = 0; i < rounds; i++)
                frame[i % SWAP_FRAME] = victim_spin(frame[0], 100);
        return frame[0];
}

uint64_t library_burn(uint64_t rounds) {
        volatile uint64_t frame[SWAP_FRAME];

        frame[1] = library_inner(rounds, rounds);
        return frame[1] + 1;
}
