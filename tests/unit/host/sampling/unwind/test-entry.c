/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "cfi-maker.h"
#include "host/sampling/unwind/cfi/encoding.h"
#include "host/sampling/unwind/cfi/entry.h"

static Bytes bytes;
static Reader fde_reader, cie_reader;
static CfiSection section;
static CieCache cache;

/* Reads what the test has put together; the section is all of it. */
static void setup(bool is_debug_frame) {
        section = (CfiSection){ .address = MAKER_FRAME,
                                .size = bytes.size,
                                .is_debug_frame = is_debug_frame };
        reader_init_memory(&fde_reader, bytes.data, bytes.size);
        reader_init_memory(&cie_reader, bytes.data, bytes.size);
        memset(&cache, 0, sizeof(cache));
        cache.reader = &cie_reader;
        cache.section = &section;
}

static int read_fde(uint64_t offset, Fde *fde) {
        Entry entry;

        cr_assert_eq(entry_read(&entry, &fde_reader, &section, offset), 0);
        cr_assert_not(entry.is_cie);
        return fde_read(fde, &fde_reader, &cache, &entry);
}

/* A CIE with this version, augmentation text and what stands behind it. */
static const Cie *cie_with(uint8_t version, const char *letters, const uint8_t *rest, size_t size) {
        bytes.size = 0;
        put_u32(&bytes, 0);
        put_u32(&bytes, 0);
        put_u8(&bytes, version);
        put(&bytes, letters, strlen(letters) + 1);
        put(&bytes, rest, size);
        end_entry(&bytes, 0);
        setup(false);
        return cie_get(&cache, 0);
}

#define CIE_WITH(_version, _letters, ...) \
        cie_with(_version, _letters, (const uint8_t[]){ __VA_ARGS__ }, \
                 sizeof((const uint8_t[]){ __VA_ARGS__ }))

Test(entry, reads_a_cie_of_each_version) {
        const Cie *cie = CIE_WITH(1, "", 1, 0x78, 16, 0x0c, 7, 8);

        cr_assert_not_null(cie);
        cr_expect_eq(cie->code_align, 1);
        cr_expect_eq(cie->data_align, -8);
        cr_expect_eq(cie->initial.cfa_reg, 7);
        cr_expect_eq(cie->initial.cfa_offset, 8);
        cr_expect_eq(cie->encoding, PE_ABSPTR);
        cr_expect_not_null(CIE_WITH(3, "", 1, 0x78, 0x90, 0, 0x0c, 7, 8), "the return address is a LEB128");
        cr_expect_null(CIE_WITH(1, "", 1, 0x78, 0x90, 0, 0x0c, 7, 8), "here it is one byte, 0x90");
        cr_expect_not_null(CIE_WITH(4, "", 8, 0, 1, 0x78, 16, 0x0c, 7, 8));
        cr_expect_null(CIE_WITH(4, "", 4, 0, 1, 0x78, 16, 0x0c, 7, 8), "addresses of 4 bytes");
        cr_expect_null(CIE_WITH(4, "", 8, 2, 1, 0x78, 16, 0x0c, 7, 8), "segment selectors");
        cr_expect_null(CIE_WITH(2, "", 1, 0x78, 16, 0x0c, 7, 8));
        cr_expect_null(CIE_WITH(5, "", 8, 0, 1, 0x78, 16, 0x0c, 7, 8));
        cr_expect_null(CIE_WITH(1, "", 1, 0x78, 30, 0x0c, 7, 8), "another machine's return address");
}

Test(entry, reads_the_augmentation_letters) {
        const Cie *cie = CIE_WITH(1, "zPLR", 1, 0x78, 16, 7, 0x9b, 1, 2, 3, 4, 0x1b, 0x1b);

        cr_assert_not_null(cie);
        cr_expect_eq(cie->encoding, 0x1b);
        cr_expect(cie->has_augmentation);
        cr_expect_not(cie->is_signal);
        cie = CIE_WITH(1, "zRS", 1, 0x78, 16, 1, 0x1b);
        cr_assert_not_null(cie);
        cr_expect(cie->is_signal);
        cie = CIE_WITH(1, "zRB", 1, 0x78, 16, 1, 0x03);
        cr_assert_not_null(cie);
        cr_expect_eq(cie->encoding, 0x03);
        cr_expect_not_null(CIE_WITH(1, "eh", 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x78, 16), "gcc 2");
}

Test(entry, skips_the_data_of_letters_that_it_does_not_know) {
        const Cie *cie = CIE_WITH(1, "zRx", 1, 0x78, 16, 4, 0x1b, 1, 2, 3, 0x0c, 7, 8);

        cr_assert_not_null(cie);
        cr_expect_eq(cie->initial.cfa_reg, 7, "instructions begin behind the data");
        cr_expect_null(CIE_WITH(1, "zxR", 1, 0x78, 16, 4, 0x1b, 1, 2, 3), "R may be anywhere in it");
        cr_expect_null(CIE_WITH(1, "xR", 1, 0x78, 16, 0x1b), "without z its end is unknown");
        cr_expect_null(CIE_WITH(1, "zR", 1, 0x78, 16, 9, 0x1b), "more data than the entry has");
        cr_expect_null(CIE_WITH(1, "zPR", 1, 0x78, 16, 2, 0x9b, 1), "the pointer is cut off");
}

Test(entry, refuses_a_cie_whose_text_does_not_end) {
        bytes.size = 0;
        put_u32(&bytes, 0);
        put_u32(&bytes, 0);
        PUT_CODE(&bytes, 1, 'z', 'R', 'R');
        end_entry(&bytes, 0);
        setup(false);
        cr_assert_null(cie_get(&cache, 0));
}

Test(entry, reads_a_function) {
        size_t cie, at;
        Fde fde;

        bytes.size = 0;
        cie = put_cie(&bytes);
        at = put_fde(&bytes, cie, MAKER_TEXT, 0x40, 16);
        setup(false);
        cr_assert_eq(read_fde(at, &fde), 0);
        cr_expect_eq(fde.start, MAKER_TEXT);
        cr_expect_eq(fde.end, MAKER_TEXT + 0x40);
        cr_expect_eq(fde.code_size, 2);
        cr_expect_eq(fde.code[0], 0x0e);
        cr_expect_eq(fde.code_address, MAKER_FRAME + bytes.size - 2);
}

/* .debug_frame: CIEs have the id ~0, functions name theirs by its offset. */
Test(entry, reads_debug_frame) {
        size_t at;
        Fde fde;

        bytes.size = 0;
        /* so that the CIE is not at 0, where a distance would pass for an offset */
        put_u64(&bytes, 0);
        put_u32(&bytes, 0);
        put_u32(&bytes, UINT32_MAX);
        PUT_CODE(&bytes, 3, 0, 1, 0x78, 16, 0x0c, 7, 8);
        end_entry(&bytes, 8);
        at = bytes.size;
        put_u32(&bytes, 0);
        put_u32(&bytes, 8);
        put_u64(&bytes, MAKER_TEXT);
        put_u64(&bytes, 0x20);
        end_entry(&bytes, at);
        setup(true);
        cr_assert_eq(read_fde(at, &fde), 0);
        cr_expect_eq(fde.end, MAKER_TEXT + 0x20);
        cr_expect_eq(fde.code_size, 0);
}

static void put_wide_entry(uint8_t id_size, uint64_t id, const uint8_t *rest, size_t size) {
        put_u32(&bytes, UINT32_MAX);
        put_u64(&bytes, id_size + size);
        put(&bytes, &id, id_size);
        put(&bytes, rest, size);
}

/* The 64-bit format, whose id in .eh_frame has four bytes by one standard and eight by the other. */
static void check_wide(uint8_t id_size, bool is_debug_frame) {
        const uint8_t cie[] = { 1, 0, 1, 0x78, 16, 0x0c, 7, 8 };
        const uint8_t fde_bytes[] = { 0, 0, 1, 0, 0, 0, 0, 0, 0x30, 0, 0, 0, 0, 0, 0, 0, 0x0e, 16 };
        size_t at;
        Fde fde;

        bytes.size = 0;
        put_wide_entry(id_size, is_debug_frame ? UINT64_MAX : 0, cie, sizeof(cie));
        at = bytes.size;
        put_wide_entry(id_size, is_debug_frame ? 0 : at + 12, fde_bytes, sizeof(fde_bytes));
        setup(is_debug_frame);
        cr_assert_eq(read_fde(at, &fde), 0);
        cr_expect_eq(fde.start, MAKER_TEXT);
        cr_expect_eq(fde.end, MAKER_TEXT + 0x30);
        cr_expect_eq(fde.code_size, 2);
}

Test(entry, reads_the_64_bit_format) {
        check_wide(4, false);
        check_wide(8, false);
        check_wide(8, true);
}

Test(entry, ends_at_the_terminator_and_at_the_end) {
        Entry entry;

        bytes.size = 0;
        put_cie(&bytes);
        put_u32(&bytes, 0);
        setup(false);
        cr_assert_eq(entry_read(&entry, &fde_reader, &section, 0), 0);
        cr_expect(entry.is_cie);
        cr_expect_eq(entry.size, bytes.size - 4);
        cr_expect_eq(entry_read(&entry, &fde_reader, &section, entry.size), ENTRY_E_END);
        cr_expect_eq(entry_read(&entry, &fde_reader, &section, bytes.size), ENTRY_E_END);
        cr_expect_eq(entry_read(&entry, &fde_reader, &section, bytes.size - 2), ENTRY_E_END);
        cr_expect_eq(entry_read(&entry, &fde_reader, &section, UINT64_MAX), ENTRY_E_END);
}

Test(entry, refuses_lengths_beyond_the_section) {
        Entry entry;

        bytes.size = 0;
        put_u32(&bytes, 100);
        put_u64(&bytes, 0);
        setup(false);
        cr_expect_eq(entry_read(&entry, &fde_reader, &section, 0), CFI_PROBLEM_LENGTH);
        bytes.size = 0;
        put_u32(&bytes, UINT32_MAX);
        put_u64(&bytes, UINT64_MAX - 3);
        put_u64(&bytes, 0);
        setup(false);
        cr_expect_eq(entry_read(&entry, &fde_reader, &section, 0), CFI_PROBLEM_LENGTH);
        bytes.size = 0;
        put_u32(&bytes, 2);
        put_u32(&bytes, 0);
        setup(false);
        cr_expect_eq(entry_read(&entry, &fde_reader, &section, 0), CFI_PROBLEM_LENGTH, "no room for an id");
}

/*
 * An FDE that names itself, another FDE, a place before the section: none is a CIE, and nothing is followed
 * further.
 */
Test(entry, refuses_a_cie_that_is_none) {
        size_t cie, a, b;
        Fde fde;

        bytes.size = 0;
        cie = put_cie(&bytes);
        a = put_fde(&bytes, cie, MAKER_TEXT, 0x40, 16);
        b = put_fde(&bytes, a, MAKER_TEXT + 0x40, 0x40, 16);
        memcpy(bytes.data + a + 4, &(uint32_t){ 4 }, 4);
        setup(false);
        cr_expect_eq(read_fde(a, &fde), CFI_PROBLEM_CIE);
        cr_expect_eq(read_fde(b, &fde), CFI_PROBLEM_CIE);
        memcpy(bytes.data + a + 4, &(uint32_t){ 1 << 20 }, 4);
        setup(false);
        cr_expect_eq(read_fde(a, &fde), CFI_PROBLEM_CIE);
}

Test(entry, names_what_is_wrong_with_a_function) {
        size_t cie, at;
        Fde fde;

        bytes.size = 0;
        cie = put_cie(&bytes);
        at = put_fde(&bytes, cie, MAKER_TEXT, 0, 16);
        setup(false);
        cr_expect_eq(read_fde(at, &fde), CFI_PROBLEM_RANGE, "no bytes");
        bytes.size = at;
        at = put_fde(&bytes, cie, UINT64_MAX - 4, 16, 16);
        setup(false);
        cr_expect_eq(read_fde(at, &fde), CFI_PROBLEM_RANGE, "wraps around");
        bytes.size = at;
        put_u32(&bytes, 8);
        put_u32(&bytes, (uint32_t)(at + 4 - cie));
        put_u32(&bytes, 0);
        setup(false);
        cr_expect_eq(read_fde(at, &fde), CFI_PROBLEM_POINTER, "cut off in its address");
        bytes.size = at;
        at = begin_fde(&bytes, cie, MAKER_TEXT, 16);
        bytes.size += ENTRY_MAX_SIZE;
        end_entry(&bytes, at);
        setup(false);
        cr_expect_eq(read_fde(at, &fde), CFI_PROBLEM_TOO_LARGE);
}

Test(entry, keeps_more_cies_than_the_cache_has_places) {
        size_t cies[3 * CIE_CACHE_SIZE];

        bytes.size = 0;
        for (size_t i = 0; i < 3 * CIE_CACHE_SIZE; i++)
                cies[i] = put_cie(&bytes);
        setup(false);
        for (int round = 0; round < 2; round++)
                for (size_t i = 0; i < 3 * CIE_CACHE_SIZE; i++) {
                        const Cie *cie = cie_get(&cache, cies[i]);

                        cr_assert_not_null(cie);
                        cr_assert_eq(cie->offset, cies[i]);
                        cr_assert_eq(cie->initial.cfa_offset, 8);
                }
}
