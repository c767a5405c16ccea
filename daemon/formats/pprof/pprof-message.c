/* SPDX-License-Identifier: Apache-2.0 */

/* Messages and ids of a profile, whatever they are of. */

#include "formats/pprof/pprof-private.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util/error.h"

int pprof_malformed(Parser *parser, const uint8_t *at, const char *what) {
        text_printf(parser->problem, "is pprof, but %s at byte %zu is damaged or cut off", what,
                    (size_t)(at - parser->begin));
        return PPROF_E_MALFORMED;
}

int pprof_read_numbers(Parser *parser, const Field *message, uint64_t *numbers, size_t n, const char *what) {
        Cursor cursor = field_cursor(message);
        Field field;

        while (field_next(&cursor, &field))
                if (field.number < n)
                        numbers[field.number] = field.value;
        return cursor.failed ? pprof_malformed(parser, message->data, what) : 0;
}

void pprof_read_type(const Field *field, uint64_t *typep, uint64_t *unitp) {
        Cursor cursor = field_cursor(field);
        Field inner;

        *typep = *unitp = 0;
        while (field_next(&cursor, &inner)) {
                if (inner.number == TYPE_TYPE)
                        *typep = inner.value;
                else if (inner.number == TYPE_UNIT)
                        *unitp = inner.value;
        }
}

int pprof_grow(void **itemsp, size_t *roomp, size_t n, size_t size) {
        size_t room = MAX(*roomp * 2, MAX(n + 1, (size_t)256));
        void *bigger;

        if (n < *roomp)
                return 0;
        bigger = reallocarray(*itemsp, room, size);
        if (!bigger)
                return error_origin(-ENOMEM);
        *itemsp = bigger;
        *roomp = room;
        return 0;
}

int pprof_add_id(Table *table, uint64_t id) {
        if (!id || hashmap_get(&table->ids, id))
                return 1;
        table->n++;
        return hashmap_put(&table->ids, id, (void *)(uintptr_t)table->n);
}

bool pprof_find_id(const Table *table, uint64_t id, size_t *indexp) {
        uintptr_t index = (uintptr_t)hashmap_get(&table->ids, id);

        *indexp = index - 1;
        return index;
}
