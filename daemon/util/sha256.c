/* SPDX-License-Identifier: Apache-2.0 */
#include "util/sha256.h"

#include <endian.h>
#include <string.h>

#include "util/macro.h"

enum { N_ROUNDS = 64, LENGTH_AT = SHA256_BLOCK - 8 };

/* Fractions of the cube roots of the first 64 primes (4.2.2). */
static const uint32_t constants[N_ROUNDS] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned n) {
        return x >> n | x << (32 - n);
}

/* The 16 words of the block, and 48 that are made of them (6.2.2, step 1). */
static void make_schedule(const uint8_t *block, uint32_t *w) {
        for (int i = 0; i < 16; i++) {
                uint32_t word;

                memcpy(&word, block + 4 * i, sizeof(word));
                w[i] = be32toh(word);
        }
        for (int i = 16; i < N_ROUNDS; i++) {
                uint32_t a = w[i - 15], b = w[i - 2];

                w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
        }
}

static void add_block(Sha256 *hash, const uint8_t *block) {
        uint32_t w[N_ROUNDS], s[8];

        make_schedule(block, w);
        memcpy(s, hash->state, sizeof(s));
        for (int i = 0; i < N_ROUNDS; i++) {
                uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]), majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
                uint32_t one = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) + choice + constants[i] + w[i];
                uint32_t two = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) + majority;

                memmove(s + 1, s, 7 * sizeof(*s));
                s[4] += one;
                s[0] = one + two;
        }
        for (int i = 0; i < 8; i++)
                hash->state[i] += s[i];
}

void sha256_init(Sha256 *hash) {
        /* fractions of the square roots of the first eight primes (5.3.3) */
        *hash = (Sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 } };
}

void sha256_add(Sha256 *hash, const void *data, size_t size) {
        const uint8_t *at = data;

        while (size) {
                size_t used = hash->n_bytes % SHA256_BLOCK, n = MIN(size, SHA256_BLOCK - used);

                memcpy(hash->block + used, at, n);
                hash->n_bytes += n;
                at += n;
                size -= n;
                if (used + n == SHA256_BLOCK)
                        add_block(hash, hash->block);
        }
}

/* A one, zeros, and the number of bits: to the end of a block (5.1.1). */
void sha256_finish(Sha256 *hash, uint8_t digest[SHA256_SIZE]) {
        static const uint8_t padding[SHA256_BLOCK] = { 0x80 };
        uint64_t n_bits = htobe64(hash->n_bytes * 8);
        size_t used = hash->n_bytes % SHA256_BLOCK;

        sha256_add(hash, padding, (used < LENGTH_AT ? LENGTH_AT : LENGTH_AT + SHA256_BLOCK) - used);
        sha256_add(hash, &n_bits, sizeof(n_bits));
        for (int i = 0; i < 8; i++) {
                uint32_t word = htobe32(hash->state[i]);

                memcpy(digest + 4 * i, &word, sizeof(word));
        }
}
