/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: what a worker that reads V8 says. The input is a letter, then a V8Said with functions and texts (n),
 * or a V8Opened (o). What is taken of it is whole, and a sound layout gives an entry within the kernel half's
 * bounds. Recipe of the corpus: make-v8-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/runtime/v8/v8-wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_name(const uint8_t *data, size_t size) {
        static V8WireFunction functions[V8_MAX_FUNCTIONS];
        static char texts[V8_WIRE_MAX_TEXTS];
        static V8Answer answer;
        V8Said said;
        size_t n = 0;

        if (size < sizeof(said))
                return;
        memcpy(&said, data, sizeof(said));
        if (!v8_wire_check(&said, V8_WIRE_NAME) || said.result == V8_CODE_E_GONE)
                return;
        n = said.n * sizeof(*functions);
        if (size - sizeof(said) < n + said.n_bytes)
                return;
        memcpy(functions, data + sizeof(said), n);
        memcpy(texts, data + sizeof(said) + n, said.n_bytes);
        if (!v8_wire_take(&answer, &said, functions, texts))
                return;
        n = 0;
        for (uint32_t i = 0; i < answer.n; i++) {
                if (!*answer.functions[i].name || answer.functions[i].line > INT32_MAX)
                        abort();
                n += strlen(answer.functions[i].name) + strlen(answer.functions[i].file) + 2;
        }
        if (n != said.n_bytes)
                abort();
}

static void take_opened(const uint8_t *data, size_t size) {
        static V8Opened opened;
        struct v8_process entry;

        if (size < sizeof(opened))
                return;
        memcpy(&opened, data, sizeof(opened));
        if (!v8_wire_check_opened(&opened, 0)) {
                if (!memchr(opened.reason, '\0', sizeof(opened.reason)))
                        abort();
                return;
        }
        if (v8_layout_entry(&opened.layout, &entry) &&
            (entry.shared > V8_MAX_SHARED || entry.cookie > V8_MAX_COOKIE))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (!size)
                return 0;
        if (data[0] == 'n')
                take_name(data + 1, size - 1);
        if (data[0] == 'o')
                take_opened(data + 1, size - 1);
        return 0;
}
