/* SPDX-License-Identifier: Apache-2.0 */

/* Streams that gzip, zstd, lz4 and xz (the programs of other people, in their libraries) have packed. */

#include <criterion/criterion.h>
#include <lz4frame.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "core/base/file/gzip.h"
#include "core/base/file/unpack.h"

enum { SIZE = 300000 };

static uint8_t plain[SIZE];

static void fill(void) {
        for (size_t i = 0; i < SIZE; i++)
                plain[i] = (uint8_t)(i % 251 ^ i / 4096);
}

typedef struct Out {
        uint8_t data[2 * SIZE];
        size_t size;
} Out;

static int sink(const uint8_t *data, size_t size, void *userdata) {
        Out *out = userdata;

        cr_assert_leq(size, UNPACK_PIECE);
        cr_assert_leq(out->size + size, sizeof(out->data));
        memcpy(out->data + out->size, data, size);
        out->size += size;
        return 0;
}

static int unpack(const uint8_t *data, size_t size, size_t piece, Out *out) {
        Unpack *state;
        int r = unpack_new(&state, data, size);

        cr_assert_eq(r, 0);
        out->size = 0;
        for (size_t at = 0; at < size && !r; at += piece)
                r = unpack_feed(state, data + at, MIN(piece, size - at), sink, out);
        if (!r)
                r = unpack_end(state);
        unpack_free(state);
        return r;
}

static size_t pack(int method, uint8_t *to, size_t room) {
        uint8_t *data;
        size_t size;

        switch (method) {
        case 0:
                cr_assert_eq(gzip_compress(plain, SIZE, &data, &size), 0);
                memcpy(to, data, size);
                free(data);
                return size;
        case 1:
                return ZSTD_compress(to, room, plain, SIZE, 3);
        case 2:
                return LZ4F_compressFrame(to, room, plain, SIZE, NULL);
        case 3: {
                size_t n = 0;

                cr_assert_eq(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, NULL, plain, SIZE, to, &n, room),
                             LZMA_OK);
                return n;
        }
        default:
                memcpy(to, plain, SIZE);
                return SIZE;
        }
}

Test(unpack, gives_back_what_was_packed_in_pieces_of_any_size, .init = fill) {
        static uint8_t packed[2 * SIZE];
        static Out out;

        for (int method = 0; method < 5; method++) {
                size_t size = pack(method, packed, sizeof(packed));
                const size_t pieces[] = { 1, 7, 4096, size };

                for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
                        cr_expect_eq(unpack(packed, size, pieces[i], &out), 0, "method %d, pieces of %zu",
                                     method, pieces[i]);
                        cr_expect_eq(out.size, SIZE);
                        cr_expect_arr_eq(out.data, plain, SIZE);
                }
        }
}

Test(unpack, reads_several_members_as_one_stream, .init = fill) {
        static uint8_t packed[4 * SIZE];
        static Out out;

        for (int method = 0; method < 4; method++) {
                size_t size = pack(method, packed, 2 * SIZE);

                memcpy(packed + size, packed, size);
                cr_expect_eq(unpack(packed, 2 * size, 1000, &out), 0, "method %d", method);
                cr_expect_eq(out.size, 2 * SIZE);
                cr_expect_arr_eq(out.data + SIZE, plain, SIZE);
        }
}

Test(unpack, hands_on_what_stands_before_a_cut_and_says_so, .init = fill) {
        static uint8_t packed[2 * SIZE];
        static Out out;

        for (int method = 0; method < 4; method++) {
                size_t size = pack(method, packed, sizeof(packed));

                for (size_t cut = 5; cut < size; cut += size / 20) {
                        cr_expect_eq(unpack(packed, cut, 333, &out), UNPACK_E_MALFORMED,
                                     "method %d, cut at %zu", method, cut);
                        cr_expect_leq(out.size, SIZE);
                        cr_expect_arr_eq(out.data, plain, out.size);
                }
        }
}

/* 8 zeros stand between two streams of xz (2.2 of its format). */
Test(unpack, skips_the_padding_of_xz, .init = fill) {
        static uint8_t packed[4 * SIZE];
        static Out out;
        size_t size = pack(3, packed, 2 * SIZE);

        memset(packed + size, 0, 8);
        memcpy(packed + size + 8, packed, size);
        cr_expect_eq(unpack(packed, size + 8, 1, &out), 0);
        cr_expect_eq(out.size, SIZE);
        cr_expect_eq(unpack(packed, 2 * size + 8, 1000, &out), 0);
        cr_expect_eq(out.size, 2 * SIZE);
        packed[size + 8] = 1;
        cr_expect_eq(unpack(packed, 2 * size + 8, 1000, &out), UNPACK_E_MALFORMED,
                     "no stream behind the padding");
}

/*
 * A stream that needs 192 MiB to unpack (recipe: the dictionary size of its only filter) is refused, not
 * served.
 */
Test(unpack, does_not_give_xz_the_memory_that_it_asks_for, .init = fill) {
        static uint8_t packed[2 * SIZE];
        static Out out;
        lzma_options_lzma options;
        lzma_filter filters[] = { { LZMA_FILTER_LZMA2, &options }, { LZMA_VLI_UNKNOWN, NULL } };
        size_t n = 0;

        cr_assert_not(lzma_lzma_preset(&options, 0));
        options.dict_size = 192 << 20;
        cr_assert_eq(lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC32, NULL, plain, 4096, packed, &n,
                                               sizeof(packed)),
                     LZMA_OK);
        cr_expect_eq(unpack(packed, n, n, &out), UNPACK_E_MALFORMED);
        cr_expect_eq(out.size, 0);
}
