/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/function/symbol-wire.h"

#include <string.h>

#include "base/util/error.h"
#include "symbol/function/symbols-private.h"

static bool is_plain(const char *link, size_t room) {
        return memchr(link, 0, room) && !strchr(link, '/') && strcmp(link, ".") != 0 &&
                strcmp(link, "..") != 0;
}

/* Each function has a name of at least a byte, and its NUL. */
static bool check_table(const SymbolAnswer *answer) {
        uint64_t bytes = answer->n * (uint64_t)sizeof(SymbolFunction) + answer->names_size;
        bool has_some = answer->state == SYMBOL_STATE_NAMED || answer->state == SYMBOL_STATE_DYNAMIC;

        return answer->state < SYMBOL_N_STATES && has_some == (answer->n > 0) &&
               answer->is_full == (answer->state == SYMBOL_STATE_NAMED) && bytes <= SYMBOL_WIRE_MAX_BYTES &&
               answer->names_size / 2 >= answer->n && (answer->n || !answer->names_size);
}

bool symbol_wire_check(const SymbolAnswer *answer) {
        if (answer->magic != SYMBOL_WIRE_MAGIC || answer->go >= SYMBOL_N_GO ||
            !is_plain(answer->link, sizeof(answer->link)))
                return false;
        return answer->kind == SYMBOL_SAID_WANT || (answer->kind == SYMBOL_SAID_TABLE && check_table(answer));
}

int symbol_wire_table_new(SymbolTable **tablep, const SymbolAnswer *answer) {
        const SymbolExtent extent = { .base = answer->base, .n = answer->n, .names_size = answer->names_size,
                                      .n_left_out = answer->n_left_out, .is_full = answer->is_full };
        int r = symbol_table_make(tablep, &extent);

        return r ? error_fold(r) : 0;
}

bool symbol_wire_put_functions(SymbolTable *table, uint32_t at, const SymbolWireFunction *functions,
                               uint32_t n) {
        for (uint32_t i = 0; i < n; i++, at++) {
                uint32_t start = functions[i].start;

                if (at ? start <= table->functions[at - 1].start : start != 0)
                        return false;
                if (!functions[i].size || table->extent.base + start < table->extent.base)
                        return false;
                table->functions[at] = (SymbolFunction){ .start = start, .size = functions[i].size };
        }
        return true;
}

char *symbol_wire_names(SymbolTable *table) {
        return table->names;
}

bool symbol_wire_finish(SymbolTable *table) {
        uint32_t at = 0;

        for (uint32_t i = 0; i < table->extent.n; i++) {
                uint32_t left = table->extent.names_size - at;
                size_t n = strnlen(table->names + at, MIN(left, SYMBOL_MAX_NAME + 1u));

                if (n == 0 || n == left || n > SYMBOL_MAX_NAME)
                        return false;
                table->functions[i].name = at;
                at += (uint32_t)n + 1;
        }
        symbol_table_set_parents(table);
        return at == table->extent.names_size;
}
