/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a worker that somebody has taken over may answer of a file's symbols: the head, the functions, the
 * names. A table of what passes the checks must be sound at every address. Both ends of each function are
 * looked up.
 */

#include <stdlib.h>
#include <string.h>

#include "core/symbol/function/symbol-wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up(const SymbolTable *table, uint64_t address) {
        uint64_t offset = 0;
        const char *name = symbol_table_find(table, address, &offset);

        if (name && (!name[0] || strlen(name) > SYMBOL_MAX_NAME || offset > UINT32_MAX))
                abort();
}

static void look_up_all(const SymbolTable *table, const SymbolAnswer *answer, const uint8_t *data) {
        for (uint32_t i = 0; i < answer->n; i++) {
                SymbolWireFunction function;
                uint64_t start, offset;

                memcpy(&function, data + i * sizeof(function), sizeof(function));
                start = answer->base + function.start;
                if (!symbol_table_find(table, start, &offset) || offset)
                        abort();
                look_up(table, start + function.size - 1);
                look_up(table, start + function.size);
                look_up(table, start - 1);
        }
}

/* In pieces as they come, to see that it makes no difference where they end. */
static bool put_functions(SymbolTable *table, const uint8_t *data, uint32_t n) {
        for (uint32_t at = 0; at < n; at += 3) {
                SymbolWireFunction piece[3];
                uint32_t n_here = MIN(n - at, (uint32_t)3);

                memcpy(piece, data + at * sizeof(*piece), n_here * sizeof(*piece));
                if (!symbol_wire_put_functions(table, at, piece, n_here))
                        return false;
        }
        return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        SymbolTable *table = NULL;
        SymbolAnswer answer;
        uint64_t n_functions;

        if (size < sizeof(answer))
                return 0;
        memcpy(&answer, data, sizeof(answer));
        data += sizeof(answer);
        size -= sizeof(answer);
        n_functions = answer.n * (uint64_t)sizeof(SymbolWireFunction);
        if (!symbol_wire_check(&answer) || answer.kind != SYMBOL_SAID_TABLE || n_functions > size ||
            answer.names_size > size - n_functions)
                return 0;
        if (symbol_wire_table_new(&table, &answer))
                abort();
        memcpy(symbol_table_names(table), data + n_functions, answer.names_size);
        if (put_functions(table, data, answer.n) && symbol_table_finish(table))
                look_up_all(table, &answer, data);
        symbol_table_free(table);
        return 0;
}
