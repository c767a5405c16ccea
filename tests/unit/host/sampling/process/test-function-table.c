/* SPDX-License-Identifier: Apache-2.0 */

/* Tables of an .eh_frame_hdr by hand: what is found in them, and what is refused. */

#include <criterion/criterion.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "host/sampling/process/function-table.h"

enum {
        ADDRESS = 0x1000,               /* of the table */
        CAP = 1 << 22,
};

static struct {
        uint8_t encodings[8];
        uint32_t n;
        int32_t pairs[3][2];
} file;
static DynamicImage image;
static FunctionTable table;

static void setup(void) {
        const int32_t pairs[3][2] = { { 0x1000, 0 }, { 0x1100, 0 }, { 0x1400, 0 } };

        memcpy(file.encodings, "\1\x1b\x03\x3b\0\0\0", 8);
        file.n = 3;
        memcpy(file.pairs, pairs, sizeof(pairs));
        image = (DynamicImage){ .fd = -1, .data = (const uint8_t *)&file, .size = sizeof(file),
                                .n_headers = 2 };
        image.headers[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_vaddr = ADDRESS, .p_filesz = sizeof(file),
                                         .p_memsz = sizeof(file) };
        image.headers[1] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME, .p_vaddr = ADDRESS,
                                         .p_filesz = sizeof(file), .p_memsz = sizeof(file) };
}

static void teardown(void) {
        function_table_deinit(&table);
}

TestSuite(function_table, .init = setup, .fini = teardown);

Test(function_table, finds_the_function_of_an_address) {
        cr_assert(function_table_read(&table, &image));
        cr_assert_eq(table.n, 3);
        cr_assert_eq(function_table_find(&table, 0x1fff), 3, "none");
        cr_assert_eq(function_table_find(&table, 0x2000), 0);
        cr_assert_eq(function_table_find(&table, 0x20ff), 0);
        cr_assert_eq(function_table_find(&table, 0x2100), 1);
        cr_assert_eq(function_table_find(&table, UINT64_MAX), 2);
        cr_assert_eq(function_table_begin(&table, 1), 0x2100);
}

Test(function_table, of_another_form_is_refused) {
        file.encodings[3] = 0x1b;
        cr_assert_not(function_table_read(&table, &image));
        file.encodings[3] = 0x3b;
        image.headers[1].p_type = PT_NOTE;
        cr_assert_not(function_table_read(&table, &image));
}

/* What a file says of itself costs no memory before it was found to be so. */
Test(function_table, of_more_functions_than_there_may_be_is_refused) {
        static const uint32_t many[] = { 0, 5, CAP + 1, UINT32_MAX };

        for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
                file.n = many[i];
                if (i > 1)
                        image.headers[1].p_memsz = UINT64_MAX;
                cr_assert_not(function_table_read(&table, &image), "%zu", i);
                cr_assert_null(table.pairs, "%zu", i);
        }
}
