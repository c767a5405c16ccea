/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: layouts, code objects and line tables of a CPython that nobody has made. The input is a byte (which
 * release; 0 = the one that describes itself), a position, the first words of `_PyRuntime`, then memory with a
 * code object at its begin. Whatever they hold: a name has an end, and a line is none or positive. Recipe of
 * the corpus: make-python-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/python/python-code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BASE = 0x20000000 };

typedef struct Memory {
        const uint8_t *data;
        size_t size;
} Memory;

static bool read_here(void *userdata, uint64_t address, void *to, size_t size) {
        const Memory *memory = userdata;

        if (size > 64 << 10)
                abort();
        if (address < BASE || address - BASE > memory->size || size > memory->size - (address - BASE))
                return false;
        memcpy(to, memory->data + (address - BASE), size);
        return true;
}

/* The cookie of what is there, so that the texts are reached. */
static uint32_t cookie(const PythonReader *reader, const PythonLayout *layout) {
        uint64_t name = 0, table = 0;
        uint32_t first_line = 0;

        python_reader_read(reader, BASE + (uint64_t)layout->name, &name, sizeof(name));
        python_reader_read(reader, BASE + (uint64_t)layout->line_table, &table, sizeof(table));
        python_reader_read(reader, BASE + (uint64_t)layout->first_line, &first_line, sizeof(first_line));
        return python_cookie(name, table, first_line);
}

static void name(Memory *memory, const PythonLayout *layout, uint32_t position) {
        const PythonReader reader = { read_here, memory };
        const uint64_t words[] = { (uint64_t)RUNTIME_PYTHON << RUNTIME_KIND_SHIFT | BASE,
                                   (uint64_t)cookie(&reader, layout) << 32 | position };
        PythonFunction function;

        memset(&function, 0xee, sizeof(function));
        if (python_code_read(&reader, layout, words, &function))
                return;
        if (!*function.name || strnlen(function.name, PYTHON_MAX_TEXT) == PYTHON_MAX_TEXT ||
            strnlen(function.file, PYTHON_MAX_TEXT) == PYTHON_MAX_TEXT || function.line > INT32_MAX ||
            function.first_line > INT32_MAX)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char reason[PYTHON_MAX_REASON] = "";
        uint64_t words[PYTHON_N_OFFSETS];
        struct python_process entry;
        PythonLayout layout;
        uint32_t position;
        Memory memory;
        int r;

        if (size < 5 + sizeof(words))
                return 0;
        memcpy(&position, data + 1, sizeof(position));
        memcpy(words, data + 5, sizeof(words));
        memory = (Memory){ data + 5 + sizeof(words), size - 5 - sizeof(words) };
        r = data[0] ? python_layout_of(0x0300 + data[0], &layout, reason)
                    : python_layout_read(words, &layout, reason);
        if (r == PYTHON_LAYOUT_E_UNKNOWN && (!*reason || !memchr(reason, '\0', sizeof(reason))))
                abort();
        if (r)
                return 0;
        if (python_layout_entry(&layout, &entry) &&
            (entry.frame_size > PYTHON_MAX_FRAME || entry.code_size > PYTHON_MAX_CODE ||
             entry.thread_size > PYTHON_MAX_THREAD))
                abort();
        name(&memory, &layout, position);
        return 0;
}
