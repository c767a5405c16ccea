/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/file/gzip.h"
#include "core/base/util/macro.h"

/* printf 'hello\n' | gzip -n9 | xxd -i */
static const uint8_t hello[] = {
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb, 0x48, 0xcd,
        0xc9, 0xc9, 0xe7, 0x02, 0x00, 0x20, 0x30, 0x3a, 0x36, 0x06, 0x00, 0x00, 0x00
};

Test(gzip_expand, reads_what_gzip_wrote) {
        _cleanup_(freep) uint8_t *data = NULL;
        size_t size = 0;

        cr_assert_eq(gzip_expand(hello, sizeof(hello), 100, &data, &size), 0);
        cr_assert_eq(size, 6);
        cr_assert_arr_eq(data, "hello\n", 6);
}

Test(gzip_expand, reads_members_one_behind_the_other) {
        uint8_t twice[2 * sizeof(hello)];
        _cleanup_(freep) uint8_t *data = NULL;
        size_t size = 0;

        memcpy(twice, hello, sizeof(hello));
        memcpy(twice + sizeof(hello), hello, sizeof(hello));
        cr_assert_eq(gzip_expand(twice, sizeof(twice), 12, &data, &size), 0);
        cr_assert_eq(size, 12);
        cr_assert_arr_eq(data, "hello\nhello\n", 12);
}

Test(gzip_expand, stops_at_the_cap_and_not_before) {
        _cleanup_(freep) uint8_t *data = NULL;
        size_t size = 77;

        cr_assert_eq(gzip_expand(hello, sizeof(hello), 5, &data, &size), GZIP_E_TOO_LARGE);
        cr_assert_null(data);
        cr_assert_eq(size, 77, "outputs are written on success only");
        cr_assert_eq(gzip_expand(hello, sizeof(hello), 6, &data, &size), 0);
}

Test(gzip_expand, refuses_every_prefix_and_every_changed_byte_of_the_checksum) {
        uint8_t *data = NULL, changed[sizeof(hello)];
        size_t size;

        for (size_t n = 0; n < sizeof(hello); n++)
                cr_assert_eq(gzip_expand(hello, n, 100, &data, &size), GZIP_E_MALFORMED,
                             "prefix of %zu bytes", n);
        for (size_t i = sizeof(hello) - 8; i < sizeof(hello); i++) {
                memcpy(changed, hello, sizeof(hello));
                changed[i] ^= 1;
                cr_assert_eq(gzip_expand(changed, sizeof(changed), 100, &data, &size), GZIP_E_MALFORMED);
        }
        cr_assert_eq(gzip_expand("plain text", 10, 100, &data, &size), GZIP_E_MALFORMED);
        cr_assert_null(data);
}

Test(gzip_expand, costs_no_more_than_the_cap_for_a_bomb) {
        _cleanup_(freep) uint8_t *zeros = calloc(1, 8 << 20), *bomb = NULL;
        uint8_t *data = NULL;
        size_t size, bomb_size;

        cr_assert_eq(gzip_compress(zeros, 8 << 20, &bomb, &bomb_size), 0);
        cr_assert_lt(bomb_size, 16 << 10);
        cr_assert_eq(gzip_expand(bomb, bomb_size, 64 << 10, &data, &size), GZIP_E_TOO_LARGE);
        cr_assert_eq(gzip_expand(bomb, bomb_size, 8 << 20, &data, &size), 0);
        cr_assert_eq(size, 8 << 20);
        cr_assert_arr_eq(data, zeros, 8 << 20);
        free(data);
}

Test(gzip_compress, gives_back_what_went_in) {
        static const size_t sizes[] = { 0, 1, 16 << 10, (16 << 10) + 1, 1 << 20 };
        _cleanup_(freep) uint8_t *noise = malloc(1 << 20);

        for (size_t i = 0; i < 1 << 20; i++)
                noise[i] = (uint8_t)(i * i >> 7);
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
                _cleanup_(freep) uint8_t *packed = NULL, *data = NULL;
                size_t packed_size, size;

                cr_assert_eq(gzip_compress(noise, sizes[i], &packed, &packed_size), 0);
                cr_assert_eq(gzip_expand(packed, packed_size, sizes[i], &data, &size), 0);
                cr_assert_eq(size, sizes[i]);
                cr_assert(!memcmp(data, noise, size));
        }
}

/* python3 -c 'import zlib; print(zlib.compress(b"hello\n").hex(","))' */
static const uint8_t zlib_hello[] = { 0x78, 0x9c, 0xcb, 0x48, 0xcd, 0xc9, 0xc9,
                                      0xe7, 0x02, 0x00, 0x08, 0x4b, 0x02, 0x1f };

Test(zlib_expand, makes_just_the_bytes_that_are_announced) {
        char to[7] = "-------";

        cr_assert_eq(zlib_expand(zlib_hello, sizeof(zlib_hello), to, 6), 0);
        cr_assert_arr_eq(to, "hello\n-", 7);
        cr_assert_eq(zlib_expand(zlib_hello, sizeof(zlib_hello), to, 7), GZIP_E_MALFORMED);
        cr_assert_eq(zlib_expand(zlib_hello, sizeof(zlib_hello), to, 5), GZIP_E_MALFORMED);
        cr_assert_eq(zlib_expand(zlib_hello, sizeof(zlib_hello) - 1, to, 6), GZIP_E_MALFORMED);
        cr_assert_eq(zlib_expand(hello, sizeof(hello), to, 6), GZIP_E_MALFORMED);
}
