/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: PHP that nobody has made. The input is a letter, then code of a function that says the layout (d),
 * code that may call a function without a frame (c), memory with functions, classes and texts (n), or a
 * FunctionSaid with texts (s). A layout lies within its bounds, a name is UTF-8 with an end, and a line is
 * none or positive. Recipe of the corpus: make-php-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/text.h"
#include "host/runtime/php/php-wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        BASE = 0x20000000,
        GLOBALS = 0x10000,
        FILE_AT = 152,
};

static const uint8_t *memory;
static size_t memory_size;

static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        if (address < BASE || size > memory_size || address - BASE > memory_size - size)
                return false;
        memcpy(to, memory + (address - BASE), size);
        return true;
}

static void decode(const uint8_t *data, size_t size) {
        PhpLayout layout = { 0 };

        if (php_layout_decode(data, size, 0x1000, GLOBALS, &layout) &&
            (!layout.current || !layout.file || layout.file > PHP_MAX_OFFSET || layout.ops))
                abort();
}

static void call(const uint8_t *data, size_t size) {
        const PhpTable table = { .address = GLOBALS, .slot = GLOBALS + 8 };
        uint8_t code[PHP_CALL_CODE] = { 0 };
        uint64_t goes_on = 0;

        memcpy(code, data, size < sizeof(code) ? size : sizeof(code));
        if (php_call_decode(code, 0x1000, &table, &goes_on) &&
            (goes_on <= 0x1000 || goes_on > 0x1000 + sizeof(code)))
                abort();
}

static void check(const ReaderFunction *function) {
        if (!*function->name || strnlen(function->name, READER_MAX_TEXT) == READER_MAX_TEXT ||
            strnlen(function->file, READER_MAX_TEXT) == READER_MAX_TEXT ||
            !text_is_utf8(function->name, strlen(function->name)) ||
            !text_is_utf8(function->file, strlen(function->file)) || function->line > INT32_MAX ||
            function->first_line > INT32_MAX)
                abort();
}

/* Two words of a frame, then memory. */
static void name(const uint8_t *data, size_t size) {
        const PhpReader reader = { .read = read_memory, .file = FILE_AT };
        uint64_t words[2];
        ReaderFunction function;

        if (size < sizeof(words))
                return;
        memcpy(words, data, sizeof(words));
        words[0] &= (1ull << RUNTIME_KIND_SHIFT) - 1;
        words[0] |= (uint64_t)RUNTIME_PHP << RUNTIME_KIND_SHIFT;
        memory = data + sizeof(words);
        memory_size = size - sizeof(words);
        if (!php_code_name(&reader, words, &function))
                check(&function);
}

static void hear(const uint8_t *data, size_t size) {
        ReaderFunction function;
        FunctionSaid said;

        if (size < sizeof(said))
                return;
        memcpy(&said, data, sizeof(said));
        if (function_wire_check(&said, PHP_WIRE_MAGIC, FUNCTION_WIRE_NAME) && !said.result &&
            size - sizeof(said) >= (size_t)said.n_name + said.n_file &&
            function_wire_take(&function, &said, (const char *)data + sizeof(said)))
                check(&function);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (!size)
                return 0;
        if (data[0] == 'd')
                decode(data + 1, size - 1);
        else if (data[0] == 'c')
                call(data + 1, size - 1);
        else if (data[0] == 'n')
                name(data + 1, size - 1);
        else if (data[0] == 's')
                hear(data + 1, size - 1);
        return 0;
}
