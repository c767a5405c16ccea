/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads both ends of a file and hashes them with its length, by libcrypto, which is loaded at the first
 * use.
 */

#include "core/symbol/object/htlhash.h"

#include <endian.h>
#include <openssl/sha.h>
#include <string.h>

#include "core/base/file/file.h"
#include "core/base/util/library.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"

#define FUNCTIONS(X) X(SHA256)

static struct {
        FUNCTIONS(LIBRARY_POINTER)
} lib;

static Library library = LIBRARY(lib, SONAME_CRYPTO, FUNCTIONS, "to identify files by their content");
LIBRARY_NOTE(SONAME_CRYPTO, "htlhash", "recommended", "identifies files by their content")

void htlhash_prepare(void) {
        uint8_t digest[SHA256_DIGEST_LENGTH];

        /* the library sets itself up at its first call */
        if (!library_load(&library))
                lib.SHA256((const uint8_t *)"", 0, digest);
}

static int read_part(int fd, uint64_t offset, uint8_t *part, size_t size) {
        return file_pread(fd, part, size, offset) == (ssize_t)size ? 0 : HTLHASH_E_SHORT;
}

int htlhash_read(int fd, uint64_t size, char hex[HTLHASH_HEX_SIZE]) {
        uint8_t content[2 * HTLHASH_PART + sizeof(uint64_t)], digest[SHA256_DIGEST_LENGTH];
        size_t part = MIN(size, (uint64_t)HTLHASH_PART);
        uint64_t length = htobe64(size);
        int r;

        if (library_load(&library))
                return HTLHASH_E_NO_LIBRARY;
        r = read_part(fd, 0, content, part);
        if (!r)
                r = read_part(fd, size - part, content + part, part);
        if (r)
                return r;
        memcpy(content + 2 * part, &length, sizeof(length));
        if (!lib.SHA256(content, 2 * part + sizeof(length), digest))
                return HTLHASH_E_NO_LIBRARY;
        text_to_hex(hex, digest, 16);
        return 0;
}
