/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Texts keep their characters in one, two or four bytes each, as the longest one needs:
 *
 *     header of an object │ length, hash, state │ characters                    all of them are ASCII
 *     header of an object │ length, hash, state │ two words more │ characters   else
 */
#include "host/runtime/python/python-text.h"

#include <string.h>

#include "core/base/util/macro.h"

enum {
        MAX_CHARACTER = 0x10ffff,
};

/* Bytes that were written, 0 = no room. */
static size_t put_utf8(uint32_t character, char *to, size_t room) {
        const size_t n = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
        static const uint8_t firsts[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

        if (n > room)
                return 0;
        for (size_t i = n; i-- > 1; character >>= 6)
                to[i] = (char)(0x80 | (character & 0x3f));
        to[0] = (char)(firsts[n] | character);
        return n;
}

static uint32_t get_character(const uint8_t *data, unsigned width) {
        uint32_t character = 0;

        memcpy(&character, data, width);
        /* A half of a pair is no character, and has no UTF-8. */
        return character > MAX_CHARACTER || (character >= 0xd800 && character < 0xe000) ? 0xfffd : character;
}

static void to_utf8(const uint8_t *data, size_t n, unsigned width, char to[PYTHON_MAX_TEXT]) {
        size_t at = 0, size = 1;

        for (size_t i = 0; i < n && size; i++) {
                size = put_utf8(get_character(data + i * width, width), to + at, PYTHON_MAX_TEXT - 1 - at);
                at += size;
        }
        to[at] = '\0';
}

/*
 * Bits of a text's state: `interned`, then kind (bytes of a character) 3, compact 1, ascii 1. `interned` has two
 * bits, and eight or sixteen in some releases: then those above its first two are 0.
 */
static bool read_state(uint32_t state, unsigned *widthp, bool *is_asciip) {
        static const unsigned shifts[] = { 2, 8, 16 };

        for (size_t i = 0; i < ARRAY_SIZE(shifts); i++) {
                unsigned bits = state >> shifts[i];
                unsigned width = bits & 7;
                bool is_compact = bits >> 3 & 1;

                *is_asciip = bits >> 4 & 1;
                *widthp = width;
                if (width)
                        return is_compact && (width == 1 || (!*is_asciip && (width == 2 || width == 4)));
        }
        return false;
}

bool python_text_read(const PythonReader *reader, const PythonLayout *layout, uint64_t address, uint64_t end,
                      char to[PYTHON_MAX_TEXT]) {
        uint8_t data[PYTHON_MAX_TEXT * sizeof(uint32_t)];
        uint64_t length = 0, from;
        uint32_t state;
        unsigned width;
        bool is_ascii;
        size_t n;

        to[0] = '\0';
        if (address >> RUNTIME_KIND_SHIFT ||
            !python_reader_read(reader, address + layout->text_length, &length, sizeof(length)) ||
            !python_reader_read(reader, address + layout->text_state, &state, sizeof(state)) ||
            !read_state(state, &width, &is_ascii))
                return false;
        from = address + (is_ascii ? layout->ascii_data : layout->text_data);
        if (from >= end)
                return false;
        n = MIN(MIN(length, (uint64_t)PYTHON_MAX_TEXT), (end - from) / width);
        if (!n || !python_reader_read(reader, from, data, n * width))
                return false;
        to_utf8(data, n, width, to);
        return true;
}
