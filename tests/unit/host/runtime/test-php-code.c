/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names of functions in memory made by hand, by the layout of PHP 8.2 (zend_function, zend_class_entry,
 * zend_string), and what a worker may say of them.
 */

#include <criterion/criterion.h>
#include <string.h>

#include "host/runtime/php/php-wire.h"

enum {
        HEAP = 0x66000000,
        FUNCTION = HEAP + 0x100,
        CLASS = HEAP + 0x300,
        NAME = HEAP + 0x400,
        CLASS_NAME = HEAP + 0x500,
        FILE_NAME = HEAP + 0x600,
        FILE_AT = 152,
        LINE = 42,
};

static uint64_t heap[0x4000 / 8];
static unsigned n_reads, n_good_reads;
static ReaderFunction function;

static bool read_heap(void *userdata, uint64_t address, void *to, size_t size) {
        if (++n_reads > n_good_reads || address < HEAP || address + size > HEAP + sizeof(heap))
                return false;
        memcpy(to, (const char *)heap + (address - HEAP), size);
        return true;
}

static const PhpReader reader = { .read = read_heap, .file = FILE_AT };

static uint64_t *at(uint64_t address) {
        return &heap[(address - HEAP) / 8];
}

static void put_text(uint64_t address, const char *text, size_t size, uint64_t hash) {
        at(address)[1] = hash;
        at(address)[2] = size;
        memcpy(&at(address)[3], text, size);
}

static void setup(void) {
        memset(heap, 0, sizeof(heap));
        n_reads = 0;
        n_good_reads = UINT32_MAX;
        at(FUNCTION)[0] = PHP_FUNCTION_USER;
        at(FUNCTION)[1] = NAME;
        at(FUNCTION)[2] = CLASS;
        at(FUNCTION + FILE_AT)[0] = FILE_NAME;
        at(FUNCTION + FILE_AT)[1] = 40;
        at(CLASS)[1] = CLASS_NAME;
        put_text(NAME, "total", 5, 0x11);
        put_text(CLASS_NAME, "App\\Cart", 8, 0x22);
        put_text(FILE_NAME, "/srv/app/cart.php", 17, 0x33);
}

TestSuite(php_code, .init = setup);

static int name_of(uint64_t kind, uint32_t cookie) {
        const uint64_t words[] = { (uint64_t)RUNTIME_PHP << RUNTIME_KIND_SHIFT | kind << PHP_FUNCTION_SHIFT |
                                           FUNCTION,
                                   (uint64_t)cookie << 32 | LINE };

        return php_code_name(&reader, words, &function);
}

static int name(void) {
        return name_of(PHP_FUNCTION_USER | PHP_FUNCTION_NAMED, php_cookie(0x11, 0x22, 0x33, 40));
}

Test(php_code, a_method_has_its_class_and_its_file) {
        cr_assert_eq(name(), 0);
        cr_assert_str_eq(function.name, "App\\Cart::total");
        cr_assert_str_eq(function.file, "/srv/app/cart.php");
        cr_assert_eq(function.line, LINE);
        cr_assert_eq(function.first_line, 40);
}

Test(php_code, a_function_of_c_has_no_file) {
        at(FUNCTION)[0] = PHP_FUNCTION_INTERNAL;
        at(FUNCTION)[2] = 0;
        cr_assert_eq(name_of(PHP_FUNCTION_INTERNAL | PHP_FUNCTION_NAMED, php_cookie(0x11, 0, 0, 0)), 0);
        cr_assert_str_eq(function.name, "total");
        cr_assert_str_eq(function.file, "");
}

Test(php_code, code_of_files_is_main_and_that_of_eval_is_eval) {
        at(FUNCTION)[1] = at(FUNCTION)[2] = 0;
        cr_assert_eq(name_of(PHP_FUNCTION_USER, php_cookie(0, 0, 0x33, 40)), 0);
        cr_assert_str_eq(function.name, "main");
        cr_assert_str_eq(function.file, "/srv/app/cart.php");
        at(FUNCTION)[0] = PHP_FUNCTION_EVAL;
        cr_assert_eq(name_of(PHP_FUNCTION_EVAL, php_cookie(0, 0, 0x33, 40)), 0);
        cr_assert_str_eq(function.name, "eval");
}

Test(php_code, what_needs_no_name_is_known_once_it_is_gone) {
        const uint64_t generators[] = { (uint64_t)RUNTIME_PHP << RUNTIME_KIND_SHIFT, 0 };
        const uint64_t named[] = { (uint64_t)RUNTIME_PHP << RUNTIME_KIND_SHIFT |
                                           (uint64_t)(PHP_FUNCTION_USER | PHP_FUNCTION_NAMED)
                                                   << PHP_FUNCTION_SHIFT,
                                   7 };

        cr_assert_eq(php_code_name(&reader, generators, &function), 0);
        cr_assert_str_eq(function.name, "(yield from)");
        cr_assert_not(php_code_without_name(named, &function));
        cr_assert_eq(function.line, 7);
}

Test(php_code, a_class_without_a_name_ends_where_its_place_begins) {
        put_text(CLASS_NAME, "class@anonymous\0/srv/a.php:3$0", 30, 0x22);
        cr_assert_eq(name(), 0);
        cr_assert_str_eq(function.name, "class@anonymous::total");
}

Test(php_code, another_function_in_its_place_has_no_name) {
        at(NAME)[1] = 0x12;
        cr_assert_eq(name(), PHP_CODE_E_GONE);
        setup();
        at(FUNCTION + FILE_AT)[1] = 41;
        cr_assert_eq(name(), PHP_CODE_E_GONE);
}

Test(php_code, memory_that_goes_meanwhile_gives_no_name) {
        unsigned n;

        cr_assert_eq(name(), 0);
        n = n_reads;
        for (n_good_reads = 0; n_good_reads < n; n_good_reads++) {
                n_reads = 0;
                if (!name())
                        cr_assert_str_not_empty(function.name, "%u", n_good_reads);
        }
        n_reads = 0;
        n_good_reads = n - 1;
        cr_assert_eq(name(), PHP_CODE_E_GONE, "the second look");
}

Test(php_code, long_texts_are_cut_between_characters) {
        char text[3000];

        memset(text, 0xff, sizeof(text));       /* each becomes three bytes */
        put_text(HEAP + 0x2000, text, 255, 0x22);
        at(CLASS)[1] = HEAP + 0x2000;
        put_text(HEAP + 0x1000, text, sizeof(text), 0x11);
        at(FUNCTION)[1] = HEAP + 0x1000;
        cr_assert_eq(name(), 0);
        cr_assert_lt(strlen(function.name), (size_t)READER_MAX_TEXT);
        cr_assert_eq(strlen(function.name) % 3, 2, "`::` and whole characters");
        at(HEAP + 0x1000)[2] = UINT64_MAX;
        cr_assert_eq(name(), 0, "no length is believed");
}

Test(php_code, what_a_worker_says_is_checked) {
        const FunctionSaid said = {
                .magic = PHP_WIRE_MAGIC, .kind = FUNCTION_WIRE_NAME, .line = 3, .n_name = 4, .n_file = 1
        };
        FunctionSaid bad[5] = { said, said, said, said, said };

        cr_assert(function_wire_check(&said, PHP_WIRE_MAGIC, FUNCTION_WIRE_NAME));
        cr_assert_not(function_wire_check(&said, PHP_WIRE_MAGIC, FUNCTION_WIRE_OPEN));
        bad[0].magic++;
        bad[1].result = 2;
        bad[2].line = 1u << 31;
        bad[3].n_name = READER_MAX_TEXT + 1;
        bad[4].n_file = 0;
        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
                cr_assert_not(function_wire_check(&bad[i], PHP_WIRE_MAGIC, FUNCTION_WIRE_NAME), "%zu", i);
        cr_assert(function_wire_take(&function, &said, "hot\0"));
        cr_assert_str_eq(function.name, "hot");
        cr_assert_not(function_wire_take(&function, &said, "hott"));
}
