/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     code object ─▶ co_qualname ─▶ "Service.handle.<locals>.<lambda>"
 *                 ─▶ co_filename ─▶ "/srv/app/service.py"
 *                 ─▶ co_linetable ─▶ position → line
 *
 * A code object may be freed and its place taken by another one. The sample has a cookie of what was there:
 * the addresses of name and table, and the first line. It is compared before the texts are read and after.
 */
#include "host/runtime/python/python-code.h"

#include <stdbool.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/python/python-text.h"

enum {
        NO_LINE = -128,                 /* 3.10 */
        UNIT = 2,                       /* bytes of an instruction */
        CODE_ONE_LINE = 10,
        CODE_NO_COLUMN = 13,
        CODE_LONG = 14,
        CODE_NONE = 15,
        MAX_SHIFT = 30,
};

typedef struct Object {
        uint64_t name, table, file;
        uint32_t first_line;
} Object;

static bool read_u64(const PythonReader *reader, uint64_t address, uint64_t *to) {
        return !(address >> RUNTIME_KIND_SHIFT) && python_reader_read(reader, address, to, sizeof(*to));
}

/* Whether the code object at @code is the one that has @cookie. */
static bool read_object(const PythonReader *reader, const PythonLayout *layout, uint64_t code,
                        uint32_t cookie, Object *object) {
        return read_u64(reader, code + layout->name, &object->name) &&
                read_u64(reader, code + layout->line_table, &object->table) &&
                read_u64(reader, code + layout->filename, &object->file) &&
                python_reader_read(reader, code + layout->first_line, &object->first_line,
                                   sizeof(object->first_line)) &&
                python_cookie(object->name, object->table, object->first_line) == cookie;
}

bool python_code_is(const PythonReader *reader, const PythonLayout *layout, const uint64_t *words) {
        static const char expected[] = "code";
        char name[sizeof(expected)];
        uint64_t type, text;

        return read_u64(reader, (words[0] & RUNTIME_ADDRESS_MASK) + layout->type, &type) &&
                read_u64(reader, type + layout->type_name, &text) && !(text >> RUNTIME_KIND_SHIFT) &&
                python_reader_read(reader, text, name, sizeof(name)) && !memcmp(name, expected, sizeof(name));
}

/* ---- lines ---- */

/*
 * Three forms, all read from the begin on:
 *
 *     3.8, 3.9     pairs (bytes, signed lines): the line changes behind so many bytes
 *                      06 01 08 fe          line + 1 from byte 6, - 2 from byte 14
 *     3.10         pairs (bytes, signed lines): these bytes have that line; -128 = none
 *                      06 01 08 80          bytes 0-5: line + 1; bytes 6-13: none
 *     3.11 on      entries of a first byte 1kkkknnn, then bytes below 0x80; n + 1 instructions of two bytes
 *                      k 0-9    short: same line, one byte more
 *                      k 10-12  line + (k - 10), two bytes more
 *                      k 13     a signed number: lines
 *                      k 14     four numbers: lines (signed), end line, columns
 *                      k 15     no line
 *                  A number is little-endian, six bits a byte, bit 6 = more. Signed: bit 0 is the sign.
 *
 * An entry of 3.11 also covers the instruction's caches, where a caller's position may be.
 */
static uint32_t line_or_none(int64_t line) {
        return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

static uint32_t line_of_lnotab(const uint8_t *table, size_t size, int64_t line, int64_t position) {
        int64_t at = 0;

        for (size_t i = 0; i + 1 < size; i += 2) {
                at += table[i];
                if (at > position)
                        break;
                line += (int8_t)table[i + 1];
        }
        return line_or_none(line);
}

static uint32_t line_of_ranges(const uint8_t *table, size_t size, int64_t line, int64_t position) {
        int64_t at = 0;

        for (size_t i = 0; i + 1 < size; i += 2) {
                int8_t lines = (int8_t)table[i + 1];

                at += table[i];
                if (lines != NO_LINE)
                        line += lines;
                if (at > position)
                        return lines == NO_LINE ? 0 : line_or_none(line);
        }
        return 0;
}

/* A number at *@ip. Return: whether it ends in the table. */
static bool read_number(const uint8_t *table, size_t size, size_t *ip, uint32_t *numberp) {
        uint32_t number = 0;

        for (unsigned shift = 0; *ip < size && shift <= MAX_SHIFT; shift += 6) {
                uint8_t byte = table[(*ip)++];

                number |= (uint32_t)(byte & 63) << shift;
                if (!(byte & 64)) {
                        *numberp = number;
                        return true;
                }
        }
        return false;
}

static uint32_t line_of_locations(const uint8_t *table, size_t size, int64_t line, int64_t position) {
        int64_t at = 0;

        for (size_t i = 0; i < size;) {
                uint8_t first = table[i++];
                unsigned kind = first >> 3 & 15;
                uint32_t number = 0;

                if (!(first & 0x80))
                        return 0;
                if (kind == CODE_NO_COLUMN || kind == CODE_LONG) {
                        if (!read_number(table, size, &i, &number))
                                return 0;
                        line += number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
                } else if (kind >= CODE_ONE_LINE && kind < CODE_NO_COLUMN) {
                        line += kind - CODE_ONE_LINE;
                }
                at += ((first & 7) + 1) * UNIT;
                if (at > position)
                        return kind == CODE_NONE ? 0 : line_or_none(line);
                while (i < size && !(table[i] & 0x80))  /* columns */
                        i++;
        }
        return 0;
}

uint32_t python_line(uint32_t version, const uint8_t *table, size_t size, uint32_t first_line,
                     int64_t position) {
        /* Nothing was executed yet. */
        if (position < 0)
                return first_line;
        if (version < 0x030a)
                return line_of_lnotab(table, size, first_line, position);
        if (version == 0x030a)
                return line_of_ranges(table, size, first_line, position);
        return line_of_locations(table, size, first_line, position);
}

static int64_t position_of(const PythonLayout *layout, uint32_t position) {
        int64_t at = (int32_t)position;

        if (layout->instructions)
                at = (int64_t)position - layout->instructions;
        else if (layout->version == 0x030a)
                at *= 2;                /* f_lasti counts instructions */
        return at;
}

static uint32_t read_line(const PythonReader *reader, const PythonLayout *layout, const Object *object,
                          uint32_t position) {
        uint8_t table[PYTHON_MAX_TABLE];
        uint64_t size;

        if (layout->instructions && position == PYTHON_NO_POSITION)
                return 0;
        if (!read_u64(reader, object->table + layout->bytes_size, &size))
                return 0;
        size = MIN(size, (uint64_t)sizeof(table));
        if (size && !python_reader_read(reader, object->table + layout->bytes_data, table, size))
                return 0;
        return python_line(layout->version, table, size, object->first_line, position_of(layout, position));
}

int python_code_read(const PythonReader *reader, const PythonLayout *layout, const uint64_t *words,
                     PythonFunction *function) {
        uint64_t code = words[0] & RUNTIME_ADDRESS_MASK;
        uint32_t cookie = (uint32_t)(words[1] >> 32);
        Object object, again;

        if (!read_object(reader, layout, code, cookie, &object))
                return PYTHON_CODE_E_GONE;
        python_text_read(reader, layout, object.name, UINT64_MAX, function->name);
        python_text_read(reader, layout, object.file, UINT64_MAX, function->file);
        function->first_line = object.first_line <= INT32_MAX ? object.first_line : 0;
        function->line = read_line(reader, layout, &object, (uint32_t)words[1]);
        if (!read_object(reader, layout, code, cookie, &again) || !*function->name)
                return PYTHON_CODE_E_GONE;
        return 0;
}

int python_code_name(const PythonReader *reader, const PythonLayout *layout, bool is_checked,
                     const uint64_t *words, PythonFunction *function) {
        if (words[0] >> RUNTIME_KIND_SHIFT != RUNTIME_PYTHON ||
            (!is_checked && !python_code_is(reader, layout, words)))
                return PYTHON_CODE_E_GONE;
        return python_code_read(reader, layout, words, function);
}
