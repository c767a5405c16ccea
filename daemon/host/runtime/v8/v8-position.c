/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A table is pairs of numbers, each the difference to the one before. The first code offset counts from -1,
 * which is the function's entry.
 *
 *     84 01  0a      +129 → code 128; +5 → script 5
 *
 *     number      seven bits a byte, the lowest first, bit 7 = more
 *     code        up to V8 13: zig-zag, and ~x where no statement begins; from 14 on: x << 2 | two flags
 *     script      zig-zag of a word: bit 0 external, bits 1-30 offset + 1, bits 31-46 inlining id + 1
 */
#include "host/runtime/v8/v8-position.h"

enum {
        UNSIGNED_SINCE = 14,            /* V8's major release */
        MAX_SHIFT = 63,
        OFFSET_SHIFT = 1, OFFSET_MASK = (1 << 30) - 1,
        INLINING_SHIFT = 31, INLINING_MASK = (1 << 16) - 1,
        LINE_SEPARATOR = 0x2028, PARAGRAPH_SEPARATOR = 0x2029,
};

typedef struct Table {
        const uint8_t *bytes;
        size_t size, at;
        bool is_unsigned;
        int64_t code;
        uint64_t word;
} Table;

V8Position v8_position_of(uint64_t word) {
        return (V8Position){ .script_offset = word & 1 ? -1
                                                       : (int32_t)(word >> OFFSET_SHIFT & OFFSET_MASK) - 1,
                             .inlining_id = (int32_t)(word >> INLINING_SHIFT & INLINING_MASK) - 1 };
}

static bool read_number(Table *table, uint64_t *numberp) {
        uint64_t number = 0;

        for (unsigned shift = 0; table->at < table->size && shift <= MAX_SHIFT; shift += 7) {
                uint8_t byte = table->bytes[table->at++];

                number |= (uint64_t)(byte & 0x7f) << shift;
                if (!(byte & 0x80)) {
                        *numberp = number;
                        return true;
                }
        }
        return false;
}

static int64_t from_zigzag(uint64_t number) {
        return (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
}

/* Return: whether there was one more entry, which does not lie before the last one. */
static bool next_entry(Table *table) {
        uint64_t code, word;
        int64_t step;

        if (!read_number(table, &code) || !read_number(table, &word))
                return false;
        step = table->is_unsigned ? (int64_t)(code >> 2) : from_zigzag(code);
        if (step < 0)
                step = ~step;
        if (step > INT32_MAX - 1 || table->code + step > INT32_MAX)
                return false;
        table->code += step;
        table->word += (uint64_t)from_zigzag(word);
        return true;
}

static Table begin(const uint8_t *bytes, size_t size, uint32_t major) {
        return (Table){ .bytes = bytes, .size = size, .is_unsigned = major >= UNSIGNED_SINCE, .code = -1 };
}

bool v8_position_find(const uint8_t *bytes, size_t size, uint32_t major, int32_t offset,
                      V8Position *position) {
        Table table = begin(bytes, size, major);
        bool is_found = false;

        while (next_entry(&table) && table.code <= offset) {
                *position = v8_position_of(table.word);
                is_found = true;
        }
        return is_found;
}

bool v8_position_extent(const uint8_t *bytes, size_t size, uint32_t major, V8Extent *extent) {
        Table table = begin(bytes, size, major);
        V8Extent found = { .low = INT32_MAX, .high = -1 };

        while (table.at < table.size) {
                V8Position position;
                int64_t before = table.code;

                if (!next_entry(&table) || (found.n && table.code < before))
                        return false;
                position = v8_position_of(table.word);
                if (position.script_offset < 0 || table.word >> (INLINING_SHIFT + 16))
                        return false;
                if (position.script_offset < found.low)
                        found.low = position.script_offset;
                if (position.script_offset > found.high)
                        found.high = position.script_offset;
                found.last_code = (int32_t)table.code;
                found.n++;
        }
        *extent = found;
        return found.n;
}

/* ---- lines ---- */

static uint32_t character_at(const uint8_t *text, size_t i, unsigned width) {
        return width == 1 ? text[i] : text[2 * i] | (uint32_t)text[2 * i + 1] << 8;
}

size_t v8_line_ends(const uint8_t *text, size_t n, unsigned width, uint32_t first, uint32_t next,
                    uint32_t *ends, size_t room) {
        size_t n_ends = 0;

        for (size_t i = 0; i < n; i++) {
                uint32_t character = character_at(text, i, width);

                if (character == '\r' && (i + 1 < n ? character_at(text, i + 1, width) : next) == '\n')
                        continue;
                if (character != '\n' && character != '\r' && character != LINE_SEPARATOR &&
                    character != PARAGRAPH_SEPARATOR)
                        continue;
                if (n_ends < room)
                        ends[n_ends] = first + (uint32_t)i;
                n_ends++;
        }
        return n_ends;
}
