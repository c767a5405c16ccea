/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/jit/code-wire.h"

#include <string.h>

#include "base/util/cursor.h"
#include "base/util/macro.h"

size_t code_wire_state_size(CodeForm form) {
        return form == CODE_FORM_MAP ? sizeof(PerfMap) : sizeof(JitdumpReader);
}

/* A record that is passed over has 32 bits of size; a header has less. */
bool code_wire_check_answer(const CodeAnswer *answer, CodeForm form, size_t piece) {
        int most = form == CODE_FORM_DUMP ? JITDUMP_E_CLOSED : 0;

        return answer->magic == CODE_WIRE_MAGIC && answer->result >= 0 && answer->result <= most &&
                answer->skip <= (form == CODE_FORM_DUMP ? UINT32_MAX : 0) &&
                answer->n_malformed <= piece + 1 && answer->n_records <= piece &&
                answer->size <= CODE_WIRE_MAX_ANSWER && !answer->zero;
}

/* Moves one on. Return: whether there is a whole one. */
static bool next(Cursor *cursor, CodeRecord *record) {
        const void *data = cursor_take(cursor, sizeof(CodeWireRecord));
        CodeWireRecord wire;

        if (!data)
                return false;
        memcpy(&wire, data, sizeof(wire));
        *record = (CodeRecord){ .index = wire.index, .from = wire.from, .is_move = wire.is_move,
                                .range = { .start = wire.start, .size = wire.size, .time_ns = wire.time_ns,
                                           .name_size = wire.name_size } };
        record->range.name = (const char *)cursor_take(cursor, wire.name_size);
        return !cursor->failed && wire.is_move <= 1;
}

static bool is_sound(const CodeRecord *record, CodeForm form) {
        const CodeRange *range = &record->range;

        if (!range->size || range->start + range->size < range->start)
                return false;
        if (record->is_move)
                return form == CODE_FORM_DUMP && !range->name_size;
        return range->name_size && range->name_size <= CODE_MAX_NAME &&
                !memchr(range->name, 0, range->name_size);
}

bool code_wire_check_records(const uint8_t *data, size_t size, uint32_t n, CodeForm form) {
        Cursor cursor = cursor_make(data, size);

        for (uint32_t i = 0; i < n; i++) {
                CodeRecord record;

                if (!next(&cursor, &record) || !is_sound(&record, form))
                        return false;
        }
        return cursor.at == size;
}

int code_wire_records(const uint8_t *data, size_t size, CodeRecordSink sink, void *userdata) {
        Cursor cursor = cursor_make(data, size);
        CodeRecord record;
        int r = 0;

        while (!r && cursor_left(&cursor) && next(&cursor, &record))
                r = sink(userdata, &record);
        return r;
}
