/* SPDX-License-Identifier: Apache-2.0 */

/* Messages and digests of FIPS 180-4's examples (NIST), and lengths around a block's end, by coreutils' sha256sum. */

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "util/sha256.h"
#include "util/text.h"

static void check(const void *data, size_t size, size_t piece, const char *expected) {
        uint8_t digest[SHA256_SIZE];
        char hex[2 * SHA256_SIZE + 1];
        Sha256 hash;

        sha256_init(&hash);
        for (size_t at = 0; at < size; at += piece)
                sha256_add(&hash, (const char *)data + at, size - at < piece ? size - at : piece);
        sha256_finish(&hash, digest);
        text_to_hex(hex, digest, sizeof(digest));
        cr_assert_str_eq(hex, expected, "%zu bytes in pieces of %zu", size, piece);
}

Test(sha256, gives_the_published_digests) {
        static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

        check("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        check("abc", 3, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check(two, sizeof(two) - 1, 56, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

Test(sha256, takes_any_pieces) {
        static char million[1000000];

        memset(million, 'a', sizeof(million));
        for (size_t piece = 1; piece < 2000000; piece = piece * 3 + 1)
                check(million, sizeof(million), piece, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

Test(sha256, pads_at_each_place_of_a_block) {
        static char data[200];

        memset(data, 'x', sizeof(data));
        for (size_t size = 50; size <= 135; size += size == 70 ? 45 : 1) {
                char command[128], expected[65] = "";
                FILE *pipe;

                snprintf(command, sizeof(command), "head -c %zu /dev/zero | tr '\\0' x | sha256sum", size);
                pipe = popen(command, "r");
                cr_assert_eq(fread(expected, 1, 64, pipe), 64);
                pclose(pipe);
                check(data, size, 7, expected);
        }
}
