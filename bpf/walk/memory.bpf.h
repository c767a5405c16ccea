/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Stack Window
 *
 * Reading a target's stack word by word costs a probe read (about 55 ns) a
 * frame. Frames lie close together, so we copy 512 bytes upwards of the first
 * word that is needed (about 80 ns) and serve the next frames from the copy.
 * A copy ends with its page: the next one may not be there, and a fault costs
 * more than a microsecond. A walk that needs a second copy is mostly a long one, so
 * each is 1,024 bytes larger than the last, up to a page. Where a function takes hundreds
 * of bytes, as an evaluator of Python does, the first one has 1,024.
 *
 * Includes nothing: the same lines run on the host under test (tests/harness/c/bpf-shim.h).
 */

enum {
        WINDOW_SIZE = 512,
        WINDOW_WIDE_SIZE = 1024,        /* bytes of the first copy, where functions take hundreds of bytes */
        WINDOW_GROWTH = 1024,           /* a copy is so much larger than the last */
        WINDOW_MAX_SIZE = 4096,         /* a power of two */
        WINDOW_MASK = WINDOW_MAX_SIZE - 8,      /* offsets of whole words */
        WINDOW_WORD = 8,
        WINDOW_PAIR = 16,               /* bytes of two words */
        WINDOW_PAGE = 4096,             /* the smallest there is */
};

struct window {
        uint64_t base;                  /* address of words[0] */
        /* a pair of words can be read at offsets below it; 0 = nothing was read */
        uint64_t n_valid;
        uint64_t n_words;               /* the same for one word */
        uint64_t size;                  /* bytes of the next copy, if its page has as many */
        uint64_t words[WINDOW_MAX_SIZE / 8 + 1];    /* a word more, so that a masked pair stays inside */
};

/*
 * Copies from @address upwards, to the page's end at most, but @least bytes, 16 at most. Return: whether they
 * could be read.
 */
APART int window_fill(struct window *window, uint64_t address, uint64_t least) {
        uint64_t size = WINDOW_PAGE - (address & (WINDOW_PAGE - 1));

        if (!window)
                return 0;
        if (least > WINDOW_PAIR)
                least = WINDOW_PAIR;
        if (size > window->size)
                size = window->size;
        /* The size is no more than a page: clang would drop this, and Linux 6.1's verifier then misses it. */
        barrier_var(size);
        if (size > WINDOW_MAX_SIZE)
                size = WINDOW_MAX_SIZE;
        if (size < least)
                size = least;
        window->n_valid = 0;
        window->n_words = 0;
        PART(FRAMES);
        if (bpf_probe_read_user(window->words, (uint32_t)size, (const void *)address))
                return 0;
        PART(STACK);
        if (window->size < WINDOW_MAX_SIZE)
                window->size += WINDOW_GROWTH;
        window->base = address;
        window->n_words = size - WINDOW_WORD + 1;
        window->n_valid = size < WINDOW_PAIR ? 0 : size - WINDOW_PAIR + 1;
        return 1;
}

/* Reads the two words at @address (8-aligned). Return: false on a fault, outputs untouched. */
static inline bool window_read_pair(struct window *window, uint64_t address, uint64_t *firstp,
                                    uint64_t *secondp) {
        uint64_t offset = address - window->base;
        const uint64_t *pair;

        if (offset >= window->n_valid) {
                if (!window_fill(window, address, WINDOW_PAIR))
                        return false;
                offset = 0;
        }
        /*
         * Twice, around a barrier: clang drops a mask that it can prove needless, and the verifier then
         * misses it.
         */
        offset &= WINDOW_MASK;
        barrier_var(offset);
        offset &= WINDOW_MASK;
        pair = (const uint64_t *)((const char *)window->words + offset);
        *firstp = pair[0];
        *secondp = pair[1];
        return true;
}

/* Reads the word at @address. Return: false on a fault or if it is unaligned, output untouched. */
static inline bool window_read_word(struct window *window, uint64_t address, uint64_t *valuep) {
        uint64_t offset = address - window->base;

        /* An unaligned window would serve later words from the wrong bytes. */
        if (address & 7)
                return false;
        if (offset >= window->n_words) {
                if (!window_fill(window, address, WINDOW_WORD))
                        return false;
                offset = 0;
        }
        offset &= WINDOW_MASK;
        barrier_var(offset);
        offset &= WINDOW_MASK;
        *valuep = *(const uint64_t *)((const char *)window->words + offset);
        return true;
}
