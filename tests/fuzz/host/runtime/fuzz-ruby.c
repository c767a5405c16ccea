/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: Ruby that nobody has made. The input is a letter, then code of a function that says the layout (d),
 * memory with code, tables of lines, arrays, texts and classes (n), or a FunctionSaid with texts (s). A digit
 * in front of the letter chooses the release: 2.7, 3.1 or 3.3. A layout lies
 * within its bounds, a name is UTF-8 with an end, and a line is none or positive. Recipe of the corpus:
 * make-ruby-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/text.h"
#include "host/runtime/ruby/ruby-wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        BASE = 0x20000000,
        IDS = BASE + 0x20,
        CODE = 0x1000,
};

static const RubyLayout *layout;
static const uint8_t *memory;
static size_t memory_size;

static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        if (address < BASE || size > memory_size || address - BASE > memory_size - size)
                return false;
        memcpy(to, memory + (address - BASE), size);
        return true;
}

static void decode(const uint8_t *data, size_t size) {
        const RubyCode code = { data, size, CODE };
        RubyOpened opened = { .layout = *layout };
        uint64_t target;

        ruby_decode_current(&code, &opened);
        if (ruby_decode_stack(&code, &opened) &&
            (opened.stack_start > RUBY_CONTEXT_SIZE - 8 || opened.stack_size > RUBY_CONTEXT_SIZE - 8))
                abort();
        if (ruby_decode_collector(&code, &opened) && (!opened.collects || opened.collects > 128))
                abort();
        if (ruby_decode_lock(&code, &opened) && opened.ractor > INT8_MAX)
                abort();
        if (ruby_decode_name(&code, &opened, &target) && !opened.last_operator)
                abort();
        ruby_decode_names(&code, &opened);
        ruby_decode_text(&code, &opened);
        ruby_decode_class(&code, &opened);
        ruby_decode_lines(&code, &opened);
        ruby_decode_frames(&code, &opened);
        ruby_decode_line(&code, &target);
        ruby_decode_tail(&code, &target);
}

static void check(const ReaderFunction *function) {
        if (!*function->name || strnlen(function->name, READER_MAX_TEXT) == READER_MAX_TEXT ||
            strnlen(function->file, READER_MAX_TEXT) == READER_MAX_TEXT ||
            !text_is_utf8(function->name, strlen(function->name)) ||
            !text_is_utf8(function->file, strlen(function->file)) || function->line > INT32_MAX ||
            function->first_line > INT32_MAX)
                abort();
}

/* The words of a frame, then memory. */
static void name(const uint8_t *data, size_t size) {
        const RubyReader reader = { .read = read_memory, .ids = IDS, .last_operator = 169, .layout = layout };
        uint64_t words[RUNTIME_RUBY_WORDS];
        ReaderFunction function;

        if (size < sizeof(words))
                return;
        memcpy(words, data, sizeof(words));
        words[0] &= (1ull << RUNTIME_KIND_SHIFT) - 1;
        words[0] |= (uint64_t)RUNTIME_RUBY << RUNTIME_KIND_SHIFT;
        memory = data + sizeof(words);
        memory_size = size - sizeof(words);
        if (!ruby_code_name(&reader, words, &function))
                check(&function);
}

static void hear(const uint8_t *data, size_t size) {
        ReaderFunction function;
        FunctionSaid said;

        if (size < sizeof(said))
                return;
        memcpy(&said, data, sizeof(said));
        if (function_wire_check(&said, RUBY_WIRE_MAGIC, FUNCTION_WIRE_NAME) && !said.result &&
            size - sizeof(said) >= (size_t)said.n_name + said.n_file &&
            function_wire_take(&function, &said, (const char *)data + sizeof(said)))
                check(&function);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const releases[] = { "2.7.4", "3.1.2", "3.3.8" };

        layout = ruby_layout_find(releases[1]);
        if (size && data[0] >= '0' && data[0] < '3') {
                layout = ruby_layout_find(releases[data[0] - '0']);
                data++;
                size--;
        }
        if (!size)
                return 0;
        if (data[0] == 'd')
                decode(data + 1, size - 1);
        else if (data[0] == 'n')
                name(data + 1, size - 1);
        else if (data[0] == 's')
                hear(data + 1, size - 1);
        return 0;
}
