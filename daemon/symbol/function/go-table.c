/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/function/go-table.h"

#include <string.h>

#include "base/util/macro.h"
#include "symbol/function/symbol-list.h"

enum {
        POINTER = 8,
        ENTRY = 8,                      /* of functions */
        N_FUNCTIONS = 8,                /* offsets in the header */
        TEXT = 24,
        PARTS = 32,
};

static uint32_t get32(const char *data) {
        uint32_t value;

        memcpy(&value, data, sizeof(value));
        return value;
}

uint32_t go_table_count(const char *data) {
        static const char sound[][8] = { { (char)GO_TABLE_MAGIC_118, -1, -1, -1, 0, 0, 1, POINTER },
                                         { (char)GO_TABLE_MAGIC_120, -1, -1, -1, 0, 0, 1, POINTER } };
        uint64_t n = go_table_word(data + N_FUNCTIONS);

        for (size_t i = 0; i < ARRAY_SIZE(sound); i++)
                if (!memcmp(data, sound[i], sizeof(sound[i])))
                        return n <= UINT32_MAX ? (uint32_t)n : 0;
        return 0;
}

bool go_table_init(GoTable *table, const char *data, uint64_t size) {
        GoTable new = { .data = data, .size = size };
        uint64_t before = GO_TABLE_HEADER;

        if (size < GO_TABLE_HEADER)
                return false;
        new.n = go_table_count(data);
        new.text = go_table_word(data + TEXT);
        for (unsigned i = 0; i < GO_N_PARTS; i++) {
                new.parts[i] = go_table_word(data + PARTS + i * sizeof(uint64_t));
                if (new.parts[i] < before || new.parts[i] > size)
                        return false;
                before = new.parts[i];
        }
        if (!new.n || size - before < new.n * (uint64_t)ENTRY + sizeof(uint32_t))
                return false;
        *table = new;
        return true;
}

static uint32_t start_of(const GoTable *table, uint32_t index) {
        return get32(table->data + table->parts[GO_FUNCTIONS] + index * (uint64_t)ENTRY);
}

/* What is known of the function lies among the functions, behind the list of them. */
static bool find_name(const GoTable *table, uint32_t at, GoFunction *function) {
        uint64_t room = table->size - table->parts[GO_FUNCTIONS],
                 left = table->parts[GO_UNITS] - table->parts[GO_NAMES];
        uint32_t name;

        if (at > room || room - at < 2 * sizeof(uint32_t))
                return false;
        name = get32(table->data + table->parts[GO_FUNCTIONS] + at + sizeof(uint32_t));
        if (name >= left)
                return false;
        function->name = table->data + table->parts[GO_NAMES] + name;
        left -= name;
        function->n_name = (uint16_t)strnlen(function->name, MIN(left, (uint64_t)SYMBOL_MAX_NAME));
        return function->n_name && function->n_name < left;
}

bool go_table_function(const GoTable *table, uint32_t index, GoFunction *function) {
        uint32_t start = start_of(table, index), next = start_of(table, index + 1);
        GoFunction new = { .start = start, .size = next > start ? next - start : 0 };

        if (!find_name(table,
                       get32(table->data + table->parts[GO_FUNCTIONS] + index * (uint64_t)ENTRY +
                             sizeof(uint32_t)),
                       &new))
                return false;
        *function = new;
        return true;
}

uint32_t go_table_start(const GoTable *table) {
        return start_of(table, 0);
}

uint32_t go_table_end(const GoTable *table) {
        return start_of(table, table->n);
}
