/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Layouts out of code as gcc has made it of PHP's own functions. The bytes are Debian's php8.2 (8.2.36),
 * shown by `objdump -d --start-address=…`; what they read is said there, and by PHP's headers.
 */

#include <criterion/criterion.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/php/php-program.h"

enum {
        GLOBALS = 0x58ae60,
        FILE_NAME = 0x2f2a10,           /* zend_get_executed_filename_ex() */
        LINE = 0x2f2a80,                /* zend_get_executed_lineno() */
};

static const uint8_t file_name[] = {
        0x48, 0x8d, 0x15, 0x49, 0x84, 0x29, 0x00, 0x48, 0x8b, 0x82, 0xb0, 0x06, 0x00, 0x00, 0x48,
        0x85, 0xc0, 0x74, 0x05, 0xc3, 0x0f, 0x1f, 0x40, 0x00, 0x48, 0x8b, 0x82, 0xe8, 0x01, 0x00,
        0x00, 0x48, 0x85, 0xc0, 0x74, 0x24, 0x0f, 0x1f, 0x40, 0x00, 0x48, 0x8b, 0x50, 0x18, 0x48,
        0x85, 0xd2, 0x74, 0x05, 0x80, 0x3a, 0x01, 0x75, 0x0a, 0x48, 0x8b, 0x40, 0x30, 0x48, 0x85,
        0xc0, 0x75, 0xe9, 0xc3, 0x48, 0x8b, 0x82, 0x98, 0x00, 0x00, 0x00, 0xc3, 0xc3,
};

static const uint8_t line[] = {
        0x48, 0x8d, 0x0d, 0xd9, 0x83, 0x29, 0x00, 0x48, 0x8b, 0x81, 0xb8, 0x06, 0x00, 0x00, 0x48, 0x83, 0xf8,
        0xff, 0x75, 0x34, 0x48, 0x8b, 0x81, 0xe8, 0x01, 0x00, 0x00, 0x48, 0x85, 0xc0, 0x0f, 0x84, 0x7c, 0x00,
        0x00, 0x00, 0x0f, 0x1f, 0x40, 0x00, 0x48, 0x8b, 0x50, 0x18, 0x48, 0x85, 0xd2, 0x74, 0x05, 0x80, 0x3a,
        0x01, 0x75, 0x1a, 0x48, 0x8b, 0x40, 0x30, 0x48, 0x85, 0xc0, 0x75, 0xe9, 0x31, 0xc0, 0xc3, 0x66, 0x0f,
        0x1f, 0x44, 0x00, 0x00, 0xc3, 0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00, 0x48, 0x8b, 0x00, 0x48, 0x85,
        0xc0, 0x74, 0x40, 0x48, 0x83, 0xb9, 0x60, 0x03, 0x00, 0x00, 0x00, 0x74, 0x2e, 0x48, 0xba, 0xff, 0xff,
        0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x48, 0x23, 0x50, 0x18, 0x48, 0xbe, 0x00, 0x00, 0x00, 0x00, 0x95,
        0x00, 0x00, 0x00, 0x48, 0x39, 0xf2, 0x75, 0x11, 0x48, 0x8b, 0x91, 0x70, 0x03, 0x00, 0x00, 0x48, 0x85,
        0xd2, 0x74, 0x05, 0x8b, 0x42, 0x18, 0xc3, 0x90, 0x8b, 0x40, 0x18, 0xc3, 0x0f, 0x1f, 0x40, 0x00, 0x48,
        0x8b, 0x42, 0x58, 0x8b, 0x40, 0x18, 0xc3, 0xc3,
};

/* php7.4 (7.4.33): the first of these functions, at 0x293150; executor_globals is at 0x4a20e0 */
static const uint8_t file_name_7_4[] = {
        0x48, 0x8d, 0x05, 0x89, 0xef, 0x20, 0x00, 0x48, 0x8b, 0x80, 0xe8, 0x01, 0x00, 0x00, 0x48, 0x85,
        0xc0, 0x74, 0x25, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0x48, 0x8b, 0x50, 0x18, 0x48, 0x85, 0xd2, 0x74,
        0x05, 0xf6, 0x02, 0x01, 0x74, 0x0a, 0x48, 0x8b, 0x40, 0x30, 0x48, 0x85, 0xc0, 0x75, 0xe9, 0xc3,
        0x48, 0x8b, 0x82, 0x88, 0x00, 0x00, 0x00, 0xc3, 0xc3,
};

static PhpLayout layout;

static bool decode(const uint8_t *code, size_t size, uint64_t at) {
        return php_layout_decode(code, size, at, GLOBALS, &layout);
}

Test(php_decode, the_code_of_8_2_says_where_frame_and_file_are) {
        cr_assert(decode(file_name, sizeof(file_name), FILE_NAME));
        cr_assert_eq(layout.current, 488);
        cr_assert_eq(layout.file, 152);
        cr_assert_eq(layout.ops, 0);
        cr_assert(decode(line, sizeof(line), LINE));
        cr_assert_eq(layout.current, 488);
        cr_assert_eq(layout.file, 152);
        cr_assert_eq(layout.ops, 88);
}

/* libphp8.2.so (8.2.32), Apache's module: the same function, at 0x2e6280, begins with a mov */
Test(php_decode, the_code_of_a_library_reads_where_the_globals_are) {
        static const uint8_t begin[] = { 0x48, 0x8b, 0x15, 0xb9, 0x56, 0x26, 0x00 };
        PhpLayout library = { .slot = 0x54b940 };
        uint8_t code[sizeof(file_name)];

        memcpy(code, file_name, sizeof(code));
        memcpy(code, begin, sizeof(begin));
        cr_assert(php_layout_decode(code, sizeof(code), 0x2e6280, 0x564c20, &library));
        cr_assert_eq(library.current, 488);
        cr_assert_eq(library.file, 152);
        library = (PhpLayout){ .slot = 0x54b948 };
        cr_assert_not(php_layout_decode(code, sizeof(code), 0x2e6280, 0x564c20, &library));
        library = (PhpLayout){ 0 };
        cr_assert_not(php_layout_decode(code, sizeof(code), 0x2e6280, 0x564c20, &library));
}

Test(php_decode, the_code_of_7_4_says_it_by_a_test_of_a_bit) {
        cr_assert(php_layout_decode(file_name_7_4, sizeof(file_name_7_4), 0x293150, 0x4a20e0, &layout));
        cr_assert_eq(layout.current, 488);
        cr_assert_eq(layout.file, 136);
}

Test(php_decode, code_that_reads_other_globals_says_nothing) {
        cr_assert_not(php_layout_decode(file_name, sizeof(file_name), FILE_NAME, GLOBALS + 8, &layout));
        cr_assert_eq(layout.current, 0);
}

Test(php_decode, functions_that_differ_about_the_frame_are_refused) {
        layout = (PhpLayout){ .current = 512, .file = 152 };
        cr_assert_not(decode(line, sizeof(line), LINE));
}

Test(php_decode, a_frame_of_another_shape_is_refused) {
        uint8_t code[sizeof(file_name)];

        memcpy(code, file_name, sizeof(code));
        code[0x39] = 0x28;              /* mov 0x28(%rax),%rax in place of 0x30 */
        cr_assert_not(decode(code, sizeof(code), FILE_NAME));
        memcpy(code, file_name, sizeof(code));
        code[0x2b] = 0x20;              /* the function at 0x20 in place of 0x18 */
        cr_assert_not(decode(code, sizeof(code), FILE_NAME));
}

Test(php_decode, an_instruction_that_is_not_known_and_code_that_is_cut_are_refused) {
        uint8_t code[sizeof(file_name)];

        for (size_t n = 1; n < 0x40; n++)
                cr_assert_not(decode(file_name, n, FILE_NAME), "%zu", n);
        memcpy(code, file_name, sizeof(code));
        code[0x2c] = 0xf4;              /* hlt */
        cr_assert_not(decode(code, sizeof(code), FILE_NAME));
}

Test(php_decode, what_a_worker_says_of_a_file_is_checked) {
        const PhpOpened sound = { .evaluator = 0x1000, .evaluator_size = 0x100, .file = 152, .ops = 88 };
        PhpOpened bad[4] = { sound, sound, sound, sound };

        cr_assert(php_opened_is_sound(&sound));
        bad[0].file = 0;
        bad[1].ops = 512;
        bad[2].evaluator = UINT64_MAX;
        bad[3].cold = 0x100;
        bad[3].cold_size = UINT64_MAX;
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                cr_assert_not(php_opened_is_sound(&bad[i]), "%zu", i);
}

/* ---- calls without a frame: php8.4 (8.4.27), where zend_flf_handlers is at 0x5f56f8 ---- */

enum {
        HANDLERS = 0x5f56f8,
        WITH_TWO = 0x3c7c20,            /* ZEND_FRAMELESS_ICALL_2 */
        WITH_THREE = 0x3c7ef0,
        USES = 0x3572c8,                /* other code, which looks for a function in the table */
};

static const uint8_t with_two[] = {
        0x48, 0x8d, 0x05, 0xd1, 0xda, 0x22, 0x00, 0x41, 0x8b, 0x4f, 0x14, 0x48, 0x89,
        0xfa, 0x48, 0x89, 0xee, 0x48, 0x89, 0xdf, 0x48, 0x8b, 0x00, 0xff, 0x14, 0xc8,
};

static const uint8_t with_three[] = {
        0x48, 0x8d, 0x05, 0x01, 0xd8, 0x22, 0x00, 0x4c, 0x89, 0xe2, 0x48, 0x89, 0xee, 0x48,
        0x89, 0xdf, 0x45, 0x8b, 0x47, 0x14, 0x48, 0x8b, 0x00, 0x42, 0xff, 0x14, 0xc0,
};

static const uint8_t uses[] = {
        0x48, 0x8d, 0x0d, 0x29, 0xe4, 0x29, 0x00, 0x4c, 0x8b, 0x01, 0x4d, 0x85, 0xc0, 0x74, 0xdd,
        0x49, 0x39, 0x10, 0x74, 0xe2, 0x4c, 0x89, 0xc1, 0x90, 0x48, 0x83, 0xc1, 0x08, 0x48, 0x39,
};

/* Return: where the function returns to; 0 = it is no such call. */
static uint64_t call_at(const uint8_t *code, size_t size, uint64_t at, uint64_t address, uint64_t slot) {
        const PhpTable table = { address, slot };
        uint8_t bytes[PHP_CALL_CODE] = { 0 };
        uint64_t goes_on = 0;

        memcpy(bytes, code, size);
        return php_call_decode(bytes, at, &table, &goes_on) ? goes_on : 0;
}

Test(php_decode, calls_without_a_frame_say_where_they_return_to) {
        cr_assert_eq(call_at(with_two, sizeof(with_two), WITH_TWO, HANDLERS, 0), 0x3c7c3a);
        cr_assert_eq(call_at(with_three, sizeof(with_three), WITH_THREE, HANDLERS, 0), 0x3c7f0b);
        cr_assert_eq(call_at(uses, sizeof(uses), USES, HANDLERS, 0), 0);
        cr_assert_eq(call_at(with_two, sizeof(with_two), WITH_TWO, HANDLERS + 8, 0), 0, "another table");
        cr_assert_eq(call_at(with_two + 1, sizeof(with_two) - 1, WITH_TWO + 1, HANDLERS, 0), 0);
        cr_assert_eq(call_at(with_two, sizeof(with_two) - 3, WITH_TWO, HANDLERS, 0), 0, "without the call");
}

/* What a library, and a program that is not relocated, have in place of the lea. */
Test(php_decode, calls_by_a_word_that_says_where_the_table_is) {
        uint8_t code[sizeof(with_two)];

        memcpy(code, with_two, sizeof(code));
        code[1] = 0x8b;
        cr_assert_eq(call_at(code, sizeof(code), WITH_TWO, 0x777000, HANDLERS), 0x3c7c3a);
        cr_assert_eq(call_at(code, sizeof(code), WITH_TWO, 0x777000, 0), 0);
        cr_assert_eq(call_at(code, sizeof(code), WITH_TWO, HANDLERS, 0), 0x3c7c3a);
        memset(code + 20, 0x90, 3);     /* mov (%rax),%rax */
        cr_assert_eq(call_at(code, sizeof(code), WITH_TWO, HANDLERS, 0), 0x3c7c3a, "it is the table's word");
        cr_assert_eq(call_at(code, sizeof(code), WITH_TWO, 0x777000, HANDLERS), 0);
}

Test(php_decode, another_register_or_another_size_is_no_such_call) {
        static const struct {
                size_t at;
                uint8_t byte;
        } wrong[] = { { 2, 0x0d }, { 22, 0x08 }, { 24, 0x15 }, { 25, 0x88 }, { 25, 0xc9 }, { 25, 0xe0 } };

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                uint8_t code[sizeof(with_two)];

                memcpy(code, with_two, sizeof(code));
                code[wrong[i].at] = wrong[i].byte;
                cr_assert_eq(call_at(code, sizeof(code), WITH_TWO, HANDLERS, 0), 0, "%zu", i);
        }
}

Test(php_decode, a_call_by_a_number_alone_is_no_such_call) {
        uint8_t code[sizeof(with_two)];

        memcpy(code, with_two, sizeof(code));
        code[1] = 0x8b;                 /* mov handlers(%rip),%rbp */
        code[2] = 0x2d;
        memset(code + 20, 0x90, 3);
        code[25] = 0xc5;                /* call *disp32(,%rax,8) */
        cr_assert_eq(call_at(code, sizeof(code), WITH_TWO, HANDLERS, 0), 0);
}

/* r12 has the number that no register has without its prefix. */
Test(php_decode, a_number_in_r12_is_one) {
        uint8_t code[sizeof(with_three)];

        memcpy(code, with_three, sizeof(code));
        code[26] = 0xe0;                /* call *(%rax,%r12,8) */
        cr_assert_eq(call_at(code, sizeof(code), WITH_THREE, HANDLERS, 0), 0x3c7f0b);
}
