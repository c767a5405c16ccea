/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * SHA-256
 *
 * As FIPS 180-4 has it, for the identity of files: nothing secret passes through here.
 */

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BLOCK = 64, SHA256_SIZE = 32 };

typedef struct Sha256 {
        uint32_t state[8];
        uint64_t n_bytes;
        uint8_t block[SHA256_BLOCK];    /* what is not a whole one yet */
} Sha256;

void sha256_init(Sha256 *hash);
void sha256_add(Sha256 *hash, const void *data, size_t size);
void sha256_finish(Sha256 *hash, uint8_t digest[SHA256_SIZE]);
