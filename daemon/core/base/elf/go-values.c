/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A record of a function (runtime/runtime2.go, _func; the same since Go 1.18, but for start_line):
 *
 *       0  u32 start, i32 name, i32 arguments, u32 call of deferred functions
 *      16  u32 sizes, u32 files, u32 lines: streams
 *      28  u32 number of pcdata, u32 unit
 *      36  i32 start_line (from Go 1.20 on), then u8 id, flags, pad, number of funcdata
 *          u32 streams of pcdata, u32 offsets of funcdata
 *
 * A stream is a list of pairs { change of the value, how long the value holds }, in bytes of 7 bits, low ones
 * first. How long counts the smallest instructions of the processor: bytes on x86-64, words on arm64. The
 * change has its sign in the lowest bit. The value begins with -1. A change of 0 ends the list, unless it is
 * the first one:
 *
 *     02 01 | 10 08 | 0f 2a | 00         0 for 1 byte, 8 for 8 bytes, 0 for 42 bytes
 */
#include "core/base/elf/go-values.h"

enum {
        RECORD = 36,                    /* bytes up to start_line */
        SIZES = 16,
        MAX_SHIFT = 28,                 /* highest shift of a number of 32 bits */
};

bool go_table_record(const GoTable *table, uint32_t index, GoRecord *record) {
        bool has_line = (uint8_t)table->data[0] == GO_TABLE_MAGIC_120;
        const char *part = table->data + table->parts[GO_FUNCTIONS], *data;
        uint64_t room = table->size - table->parts[GO_FUNCTIONS], size = RECORD + (has_line ? 8 : 4), at;

        at = go_table_u32(part + index * (uint64_t)8 + 4);
        if (at > room || room - at < size)
                return false;
        data = part + at;
        *record = (GoRecord){
                .sizes = go_table_u32(data + SIZES),
                .files = go_table_u32(data + SIZES + 4),
                .lines = go_table_u32(data + SIZES + 8),
                .n_pcdata = go_table_u32(data + SIZES + 12),
                .unit = go_table_u32(data + SIZES + 16),
                .start_line = has_line ? go_table_u32(data + RECORD) : 0,
                .at = (uint32_t)(at + size),
                .flags = (uint8_t)data[size - 3],
                .n_funcdata = (uint8_t)data[size - 1],
        };
        return (room - at - size) / 4 >= (uint64_t)record->n_pcdata + record->n_funcdata;
}

bool go_values_init(GoValues *values, const GoTable *table, uint32_t stream) {
        uint64_t room = table->parts[GO_FUNCTIONS] - table->parts[GO_VALUES];
        const uint8_t *part = (const uint8_t *)table->data + table->parts[GO_VALUES];

        if (!stream || stream >= room)
                return false;
        *values = (GoValues){ .at = part + stream, .limit = part + room, .value = -1,
                              .unit = go_table_unit(table) };
        return true;
}

static bool take_number(GoValues *values, uint32_t *numberp) {
        uint32_t number = 0;

        for (unsigned shift = 0; shift <= MAX_SHIFT && values->at < values->limit; shift += 7) {
                uint8_t byte = *values->at++;

                number |= (uint32_t)(byte & 0x7f) << shift;
                if (!(byte & 0x80)) {
                        *numberp = number;
                        return true;
                }
        }
        return false;
}

bool go_values_next(GoValues *values) {
        bool is_first = values->end == 0;
        uint32_t change, n;

        if (!take_number(values, &change) || (!change && !is_first) || !take_number(values, &n) || !n ||
            n > (UINT32_MAX - values->end) / values->unit)
                return false;
        values->value = (int32_t)((uint32_t)values->value + (change >> 1 ^ (0 - (change & 1))));
        values->start = values->end;
        values->end += n * values->unit;
        return true;
}

bool go_values_find(const GoTable *table, uint32_t stream, uint32_t pc, int32_t *valuep) {
        GoValues values;

        if (!go_values_init(&values, table, stream))
                return false;
        while (go_values_next(&values))
                if (pc < values.end) {
                        *valuep = values.value;
                        return true;
                }
        return false;
}
