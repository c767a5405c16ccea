/* SPDX-License-Identifier: Apache-2.0 */
#include "target/htlhash.h"

#include <endian.h>

#include "util/file.h"
#include "util/macro.h"
#include "util/sha256.h"
#include "util/text.h"

static int add_part(Sha256 *hash, int fd, uint64_t offset, size_t size) {
        uint8_t part[HTLHASH_PART];

        if (file_pread(fd, part, size, offset) != (ssize_t)size)
                return HTLHASH_E_SHORT;
        sha256_add(hash, part, size);
        return 0;
}

int htlhash_read(int fd, uint64_t size, char hex[HTLHASH_HEX_SIZE]) {
        size_t part = MIN(size, (uint64_t)HTLHASH_PART);
        uint64_t length = htobe64(size);
        uint8_t digest[SHA256_SIZE];
        Sha256 hash;
        int r;

        sha256_init(&hash);
        r = add_part(&hash, fd, 0, part);
        if (!r)
                r = add_part(&hash, fd, size - part, part);
        if (r)
                return r;
        sha256_add(&hash, &length, sizeof(length));
        sha256_finish(&hash, digest);
        text_to_hex(hex, digest, 16);
        return 0;
}
