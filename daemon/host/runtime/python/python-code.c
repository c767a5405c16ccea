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

#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/python/python-line.h"
#include "host/runtime/python/python-text.h"

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
