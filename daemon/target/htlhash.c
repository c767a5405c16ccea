/* SPDX-License-Identifier: Apache-2.0 */
#include "target/htlhash.h"

#include <endian.h>
#include <errno.h>
#include <openssl/evp.h>

#include "util/error.h"
#include "util/file.h"
#include "util/macro.h"
#include "util/text.h"

static void context_freep(EVP_MD_CTX **contextp) {
        EVP_MD_CTX_free(*contextp);
}

static int add_part(EVP_MD_CTX *context, int fd, uint64_t offset, size_t size) {
        uint8_t part[HTLHASH_PART];

        if (file_pread(fd, part, size, offset) != (ssize_t)size)
                return HTLHASH_E_SHORT;
        return EVP_DigestUpdate(context, part, size) == 1 ? 0 : error_origin(-ENOMEM);
}

int htlhash_read(int fd, uint64_t size, char hex[HTLHASH_HEX_SIZE]) {
        _cleanup_(context_freep) EVP_MD_CTX *context = EVP_MD_CTX_new();
        size_t part = MIN(size, (uint64_t)HTLHASH_PART);
        uint64_t length = htobe64(size);
        uint8_t digest[EVP_MAX_MD_SIZE];
        int r;

        if (!context || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1)
                return error_origin(-ENOMEM);
        r = add_part(context, fd, 0, part);
        if (r)
                return r;
        r = add_part(context, fd, size - part, part);
        if (r)
                return r;
        if (EVP_DigestUpdate(context, &length, sizeof(length)) != 1 || EVP_DigestFinal_ex(context, digest, NULL) != 1)
                return error_origin(-ENOMEM);
        text_to_hex(hex, digest, 16);
        return 0;
}
