/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: what an executable says of the Go that it was made with. Whatever its bytes are: the version is
 * printable, and the place of g lies in the thread's own block. Recipe of the corpus:
 * make-go-labels-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/runtime/go/go-idle.h"
#include "host/runtime/go/go-layout.h"
#include "host/runtime/go/go-list.h"
#include "host/runtime/go/go-program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const GoInput input = { .fd = -1, .data = data, .size = size };
        struct go_process process = { 0 };
        GoProgram program;
        uint64_t list = 0, length = 0;
        bool is_library, knows_idle = false;
        GoIdle idle;

        if (go_idle_find(&input, &idle))
                for (unsigned i = 0; i < GO_IDLE_N; i++)
                        knows_idle |= idle.functions[i].start < idle.functions[i].end;
        else
                knows_idle = true;
        if (!knows_idle)
                abort();
        if (go_list_find(&input, &list, &length) != (list && length) || (list | length) & 7)
                abort();
        list = length = 0;
        if (go_program_is(&input, &is_library) != go_program_read(&input, &program))
                abort();
        if (!go_program_is(&input, &is_library))
                return 0;
        if (program.is_library != is_library || (program.tls == GO_TLS_IN_WORD && !is_library))
                abort();
        if (strnlen(program.version, sizeof(program.version)) == sizeof(program.version))
                abort();
        for (const char *c = program.version; *c; c++)
                if (*c <= ' ' || *c > '~')
                        abort();
        if (program.tls == GO_TLS_KNOWN &&
            (program.tls_offset >= 0 || program.tls_offset < -(2 << 20) || program.tls_offset & 7))
                abort();
        if (go_layout(program.minor, &process) &&
            (process.m >= process.goid || process.goid >= process.labels ||
             process.labels - process.m >= GO_MAX_OFFSET))
                abort();
        if (go_program_find_list(&input, &list, &length) != (list && length))
                abort();
        return 0;
}
