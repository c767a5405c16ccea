/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "host/sampling/unwind/cfi/encoding.h"

static const Encoded nowhere;

static uint64_t read_uleb(const uint8_t *bytes, size_t size, bool *failedp) {
        Cursor cursor = cursor_make(bytes, size);
        uint64_t value = encoding_uleb(&cursor);

        *failedp = cursor.failed;
        return value;
}

#define ULEB(_expected, ...) \
        do { \
                const uint8_t _bytes[] = { __VA_ARGS__ }; \
                Cursor _cursor = cursor_make(_bytes, sizeof(_bytes)); \
                cr_expect_eq(encoding_uleb(&_cursor), (uint64_t)(_expected)); \
                cr_expect_not(_cursor.failed); \
                cr_expect_eq(_cursor.at, sizeof(_bytes)); \
        } while (0)

#define SLEB(_expected, ...) \
        do { \
                const uint8_t _bytes[] = { __VA_ARGS__ }; \
                Cursor _cursor = cursor_make(_bytes, sizeof(_bytes)); \
                cr_expect_eq(encoding_sleb(&_cursor), (int64_t)(_expected)); \
                cr_expect_not(_cursor.failed); \
                cr_expect_eq(_cursor.at, sizeof(_bytes)); \
        } while (0)

/* The examples of DWARF 5, tables 7.7 and 7.8. */
Test(encoding, reads_the_numbers_of_the_standard) {
        ULEB(2, 0x02);
        ULEB(127, 0x7f);
        ULEB(128, 0x80, 0x01);
        ULEB(129, 0x81, 0x01);
        ULEB(12857, 0xb9, 0x64);
        SLEB(2, 0x02);
        SLEB(-2, 0x7e);
        SLEB(127, 0xff, 0x00);
        SLEB(-127, 0x81, 0x7f);
        SLEB(128, 0x80, 0x01);
        SLEB(-128, 0x80, 0x7f);
        SLEB(129, 0x81, 0x01);
        SLEB(-129, 0xff, 0x7e);
}

Test(encoding, reads_all_64_bits) {
        ULEB(UINT64_MAX, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
        SLEB(INT64_MIN, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f);
        SLEB(INT64_MAX, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00);
}

Test(encoding, accepts_padding_as_linkers_write_it) {
        ULEB(1, 0x81, 0x80, 0x80, 0x00);
        SLEB(-1, 0xff, 0xff, 0xff, 0x7f);
        ULEB(1, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00);
}

Test(encoding, refuses_a_number_that_does_not_end) {
        const uint8_t endless[32] = { [0 ... 31] = 0x80 };
        bool failed;

        cr_assert_eq(read_uleb(endless, sizeof(endless), &failed), 0);
        cr_assert(failed);
        cr_assert_eq(read_uleb(endless, 3, &failed), 0);
        cr_assert(failed, "the bytes end inside the number");
}

Test(encoding, refuses_more_than_64_bits) {
        const uint8_t large[] = { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02 };
        bool failed;

        cr_assert_eq(read_uleb(large, sizeof(large), &failed), 0);
        cr_assert(failed);
}

static uint64_t pointer(uint8_t encoding, const Encoded *where, size_t skip, bool *failedp) {
        /* -2 as 16, 32 and 64 bits; as LEB128 0xfe 0xff 0x7f (see above), unsigned 0x1ffffe. */
        static const uint8_t bytes[] = { 0,    0,    0,    0,    0,    0,    0,    0,
                                         0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
        Cursor cursor = cursor_make(bytes, sizeof(bytes));
        uint64_t value;

        cursor_take(&cursor, skip);
        value = encoding_pointer(&cursor, encoding, where);
        *failedp = cursor.failed;
        return value;
}

Test(encoding, reads_every_format_of_a_pointer) {
        bool failed;

        cr_expect_eq(pointer(PE_ABSPTR, &nowhere, 8, &failed), UINT64_MAX - 1);
        cr_expect_eq(pointer(PE_UDATA2, &nowhere, 8, &failed), 0xfffe);
        cr_expect_eq(pointer(PE_UDATA4, &nowhere, 8, &failed), 0xfffffffe);
        cr_expect_eq(pointer(PE_UDATA8, &nowhere, 8, &failed), UINT64_MAX - 1);
        cr_expect_eq(pointer(PE_SIGNED, &nowhere, 8, &failed), UINT64_MAX - 1);
        cr_expect_eq(pointer(PE_SDATA2, &nowhere, 8, &failed), (uint64_t)-2);
        cr_expect_eq(pointer(PE_SDATA4, &nowhere, 8, &failed), (uint64_t)-2);
        cr_expect_eq(pointer(PE_SDATA8, &nowhere, 8, &failed), (uint64_t)-2);
        cr_expect_eq(pointer(PE_ULEB128, &nowhere, 0, &failed), 0);
        cr_expect_eq(pointer(PE_SLEB128, &nowhere, 0, &failed), 0);
        cr_expect_not(failed);
}

Test(encoding, adds_the_base_that_a_pointer_names) {
        Encoded where = { .address = 0x1000, .data_base = 0x20000, .function_base = 0x300000 };
        bool failed;

        cr_expect_eq(pointer(PE_PCREL | PE_SDATA4, &where, 8, &failed), 0x1008 - 2);
        cr_expect_eq(pointer(PE_DATAREL | PE_SDATA4, &where, 8, &failed), 0x20000 - 2);
        cr_expect_eq(pointer(PE_FUNCREL | PE_SDATA2, &where, 8, &failed), 0x300000 - 2);
        cr_expect_eq(pointer(PE_ALIGNED, &where, 3, &failed), UINT64_MAX - 1, "0x1003 goes on at 0x1008");
        cr_expect_not(failed);
}

Test(encoding, refuses_what_only_the_running_program_knows) {
        Encoded where = { .address = 0x1000, .function_base = 1 };
        bool failed;

        pointer(PE_INDIRECT | PE_PCREL | PE_SDATA4, &where, 8, &failed);
        cr_expect(failed, "indirect");
        pointer(PE_TEXTREL | PE_SDATA4, &where, 8, &failed);
        cr_expect(failed, "textrel");
        pointer(PE_DATAREL | PE_SDATA4, &where, 8, &failed);
        cr_expect(failed, "datarel without a base");
        pointer(PE_OMIT, &where, 8, &failed);
        cr_expect(failed, "omitted");
        pointer(0x05, &where, 8, &failed);
        cr_expect(failed, "no such format");
}

Test(encoding, skips_a_pointer_by_its_size_alone) {
        const uint8_t bytes[24] = { 0 };
        Encoded where = { .address = 0x1001 };
        const struct {
                uint8_t encoding;
                size_t size;
        } cases[] = {
                { PE_OMIT, 0 }, { PE_INDIRECT | PE_PCREL | PE_SDATA4, 4 }, { PE_ABSPTR, 8 },
                { PE_UDATA2, 2 }, { PE_ALIGNED, 7 + 8 }, { PE_ULEB128, 1 },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                Cursor cursor = cursor_make(bytes, sizeof(bytes));

                encoding_skip(&cursor, cases[i].encoding, &where);
                cr_expect_not(cursor.failed);
                cr_expect_eq(cursor.at, cases[i].size, "encoding %#x", cases[i].encoding);
        }
}
