/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: a section .AsyncioDebug and a task's name that no interpreter has. The input is a byte (which
 * release), the words of the section, then the object of the name. Whatever they hold: what the kernel half
 * reads lies in its bounds, and a name has an end. Recipe of the corpus: make-python-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/runtime/python/python-task.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_layout(const uint64_t *words, const PythonLayout *layout) {
        struct python_tasks tasks;

        if (!python_task_layout(words, layout, 1, 2, &tasks))
                return;
        if (!tasks.running || tasks.code > PYTHON_MAX_GENERATOR - 8 ||
            tasks.position > PYTHON_MAX_GENERATOR - 8 || tasks.stack > PYTHON_MAX_GENERATOR - 8 ||
            tasks.state >= PYTHON_MAX_GENERATOR)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        PythonLayout layout = { .version = 0x030e, .chain = PYTHON_CHAIN_SHIMS, .position = 56, .type = 8,
                                .text_length = 16, .text_state = 32, .ascii_data = 40, .text_data = 56,
                                .number_tag = 16, .number_digits = 24, .generator_frame = 72,
                                .generator_state = 67, .stack_pointer = 64 };
        uint8_t object[PYTHON_TASK_SIZE] = { 0 };
        uint64_t words[PYTHON_TASK_WORDS] = { 0 }, type;
        char name[PYTHON_MAX_TEXT];

        if (size < 1 + sizeof(words))
                return 0;
        layout.version += data[0] & 3;
        layout.generator_frame += data[0] & 0xf8;
        memcpy(words, data + 1, sizeof(words));
        check_layout(words, &layout);
        data += 1 + sizeof(words);
        size -= 1 + sizeof(words);
        memcpy(object, data, size < sizeof(object) ? size : sizeof(object));
        memcpy(&type, object + 8, sizeof(type));
        for (int i = 0; i < 2; i++) {
                memset(name, 0xee, sizeof(name));
                if (python_task_name(object, &layout, i ? type : 0, i ? 0 : type, name) &&
                    (!*name || strnlen(name, sizeof(name)) == sizeof(name)))
                        abort();
        }
        if (python_span_name(object, sizeof(object), &layout, type, name) && (!*name || strlen(name) > 128))
                abort();
        return 0;
}
