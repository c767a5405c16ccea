/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: what a worker that reads an interpreter says, when its memory has taken it over. The first byte says
 * which of its messages follows. Whatever they hold: what is accepted has texts with an end, and offsets that
 * the kernel half's bounds hold. Recipe of the corpus: make-python-corpus.py.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/runtime/python/python-wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_name(const uint8_t *data, size_t size) {
        char texts[2 * PYTHON_MAX_TEXT];
        PythonFunction function;
        PythonSaid said;
        size_t n;

        if (size < sizeof(said))
                return;
        memcpy(&said, data, sizeof(said));
        if (!python_wire_check(&said, PYTHON_WIRE_NAME) || said.result)
                return;
        n = (size_t)said.n_name + said.n_file;
        if (n > sizeof(texts))
                abort();
        if (n > size - sizeof(said))
                return;
        memcpy(texts, data + sizeof(said), n);
        if (python_wire_take(&function, &said, texts) &&
            (!*function.name || strlen(function.name) + strlen(function.file) + 2 != n ||
             function.line > INT32_MAX))
                abort();
}

static void take_opened(const uint8_t *data, size_t size) {
        static PythonOpened opened;
        struct python_process entry;
        struct python_tasks tasks;

        if (size < sizeof(opened))
                return;
        memcpy(&opened, data, sizeof(opened));
        if (!python_wire_check_opened(&opened, 0)) {
                if (!memchr(opened.reason, '\0', sizeof(opened.reason)))
                        abort();
                return;
        }
        if (python_layout_entry(&opened.layout, &entry) &&
            (entry.frame_size > PYTHON_MAX_FRAME || entry.frame_size < 8 ||
             entry.code_size > PYTHON_MAX_CODE || entry.code_size < 8 ||
             entry.thread_size > PYTHON_MAX_THREAD || entry.thread_size < 8))
                abort();
        if (python_task_layout(opened.more.tasks, &opened.layout, 1, 2, &tasks) &&
            (tasks.code > PYTHON_MAX_GENERATOR - 8 || tasks.stack > PYTHON_MAX_GENERATOR - 8))
                abort();
}

static void take_more(const uint8_t *data, size_t size) {
        PythonMore more;

        if (size < sizeof(more))
                return;
        memcpy(&more, data, sizeof(more));
        if (python_wire_check_more(&more, PYTHON_MORE_GREENLETS) && more.root + more.root_size < more.root)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (!size)
                return 0;
        switch (data[0]) {
        case 'n':
                take_name(data + 1, size - 1);
                break;
        case 'o':
                take_opened(data + 1, size - 1);
                break;
        case 'm':
                take_more(data + 1, size - 1);
                break;
        default:
                break;
        }
        return 0;
}
