/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads objects by their maps:
 *
 *     7f..21 ─▶ 7f..20: Map, fields …           bit 0 is a pointer's tag, 3 is that of a weak one
 *                       the Map's instance type says what it is
 *     7f..20: 7f..80                            no tag where the Map should be: moved to 7f..80
 *
 * A String is characters in a row, or made of others: a pair (cons), a part (sliced), another one (thin), or
 * characters outside of the heap (external). A name is read piece by piece, within a budget of pieces.
 */
#include "host/runtime/v8/v8-object.h"

#include <string.h>

#include "core/base/util/macro.h"

enum {
        TAG = 1, TAG_MASK = 3,
        MAX_STRING = 1 << 30,
        MAX_PIECES = 16, MAX_DEPTH = 8,
        FORM_MASK = 7, FORM_ROW = 0, FORM_CONS = 1, FORM_EXTERNAL = 2, FORM_SLICED = 3, FORM_THIN = 5,
        ONE_BYTE = 8, UNCACHED = 16,
        EXTERNAL_DATA = 8,              /* bytes from an external String's resource to its data's address */
};

void v8_pages_forget(V8Pages *pages) {
        memset(pages->numbers, 0, sizeof(pages->numbers));
}

/* The page of an address; NULL = it cannot be read as a whole. */
static const uint8_t *page_of(const V8Reader *reader, uint64_t address) {
        uint64_t number = address / V8_PAGE + 1;
        size_t i = number % V8_N_PAGES;

        if (reader->pages->numbers[i] == number)
                return reader->pages->bytes[i];
        reader->pages->numbers[i] = 0;
        if (!reader->read(reader->userdata, address - address % V8_PAGE, reader->pages->bytes[i], V8_PAGE))
                return NULL;
        reader->pages->numbers[i] = number;
        return reader->pages->bytes[i];
}

bool v8_read(const V8Reader *reader, uint64_t address, void *to, size_t size) {
        size_t at = address % V8_PAGE;
        const uint8_t *page;

        if (address >> RUNTIME_KIND_SHIFT)
                return false;
        page = reader->pages && size <= V8_PAGE - at ? page_of(reader, address) : NULL;
        if (!page)
                return reader->read(reader->userdata, address, to, size);
        memcpy(to, page + at, size);
        return true;
}

bool v8_object_at(const V8Reader *reader, uint64_t tagged, V8Object *object) {
        uint64_t address = tagged & ~(uint64_t)TAG_MASK, map;
        uint16_t type;

        if (!(tagged & TAG) || !v8_read(reader, address, &map, sizeof(map)))
                return false;
        if (!(map & TAG)) {
                address = map;
                if (address & 7 || !v8_read(reader, address, &map, sizeof(map)) || !(map & TAG))
                        return false;
        }
        if (!v8_read(reader, map - TAG + (uint64_t)v8_value(reader, V8_INSTANCE_TYPE), &type, sizeof(type)))
                return false;
        *object = (V8Object){ address, type };
        return true;
}

bool v8_object_of(const V8Reader *reader, uint64_t tagged, V8Field field, V8Object *object) {
        V8Object found;

        if (!v8_value(reader, field) || !v8_object_at(reader, tagged, &found) ||
            found.type != v8_value(reader, field))
                return false;
        *object = found;
        return true;
}

bool v8_word_of(const V8Reader *reader, const V8Object *object, int32_t offset, uint64_t *word) {
        return v8_read(reader, object->address + (uint64_t)(int64_t)offset, word, sizeof(*word));
}

bool v8_object_in(const V8Reader *reader, const V8Object *object, int32_t offset, V8Object *to) {
        uint64_t word;

        return v8_word_of(reader, object, offset, &word) && v8_object_at(reader, word, to);
}

bool v8_small_number(uint64_t word, int32_t *numberp) {
        if ((uint32_t)word)
                return false;
        *numberp = (int32_t)(word >> 32);
        return true;
}

bool v8_length_of(const V8Reader *reader, const V8Object *array, int32_t max, int32_t *lengthp) {
        int32_t length;
        uint64_t word;

        if (!v8_word_of(reader, array, v8_value(reader, V8_ARRAY_LENGTH), &word) ||
            !v8_small_number(word, &length) || length < 0 || length > max)
                return false;
        *lengthp = length;
        return true;
}

/* ---- texts ---- */

bool v8_is_string(const V8Reader *reader, const V8Object *object) {
        return object->type < v8_value(reader, V8_FIRST_NO_STRING);
}

static bool string_length(const V8Reader *reader, const V8Object *string, uint32_t *lengthp) {
        return v8_read(reader, string->address + (uint64_t)v8_value(reader, V8_STRING_LENGTH), lengthp,
                       sizeof(*lengthp)) &&
                *lengthp <= MAX_STRING;
}

bool v8_characters_of(const V8Reader *reader, const V8Object *string, V8Characters *characters) {
        V8Characters found = { .width = string->type & ONE_BYTE ? 1 : 2 };
        unsigned form = string->type & FORM_MASK;

        if (!v8_is_string(reader, string) || !string_length(reader, string, &found.n))
                return false;
        if (form == FORM_ROW) {
                found.address = string->address +
                        (uint64_t)v8_value(reader,
                                           found.width == 1 ? V8_STRING_ONE_BYTE : V8_STRING_TWO_BYTE);
        } else if (form != FORM_EXTERNAL || string->type & UNCACHED ||
                   !v8_word_of(reader, string, v8_value(reader, V8_EXTERNAL_RESOURCE) + EXTERNAL_DATA,
                               &found.address)) {
                return false;
        }
        *characters = found;
        return true;
}

/* A text that is being made: UTF-16 comes, UTF-8 is written. */
typedef struct Maker {
        const V8Reader *reader;
        char *to;
        size_t at;
        uint32_t high;                  /* first half of a pair; 0 = none */
        unsigned n_pieces;
        bool is_full;
} Maker;

static void put(Maker *maker, uint32_t character) {
        static const uint8_t firsts[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
        const size_t n = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;

        if (maker->at + n >= V8_MAX_TEXT) {
                maker->is_full = true;
                return;
        }
        for (size_t i = n; i-- > 1; character >>= 6)
                maker->to[maker->at + i] = (char)(0x80 | (character & 0x3f));
        maker->to[maker->at] = (char)(firsts[n] | character);
        maker->at += n;
}

/* Halves of pairs that have no other half become U+FFFD, and so does NUL, which would end the text. */
static void put_unit(Maker *maker, uint32_t unit) {
        uint32_t high = maker->high;

        maker->high = 0;
        if (high && unit >= 0xdc00 && unit < 0xe000) {
                put(maker, 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00));
                return;
        }
        if (high)
                put(maker, 0xfffd);
        if (unit >= 0xd800 && unit < 0xdc00)
                maker->high = unit;
        else
                put(maker, !unit || (unit >= 0xdc00 && unit < 0xe000) ? 0xfffd : unit);
}

static bool put_row(Maker *maker, const V8Characters *row, uint32_t from, uint32_t n) {
        uint8_t bytes[2 * V8_MAX_TEXT];

        if (from > row->n || n > row->n - from)
                return false;
        n = MIN(n, (uint32_t)V8_MAX_TEXT);
        if (n &&
            !v8_read(maker->reader, row->address + (uint64_t)from * row->width, bytes,
                     (size_t)n * row->width))
                return false;
        for (uint32_t i = 0; i < n && !maker->is_full; i++)
                put_unit(maker, row->width == 1 ? bytes[i] : bytes[2 * i] | (uint32_t)bytes[2 * i + 1] << 8);
        return true;
}

/* Characters @from … @from + @n of @string. */
static bool put_string(Maker *maker, const V8Object *string, uint32_t from, uint32_t n, unsigned depth);

static bool put_pair(Maker *maker, const V8Object *string, uint32_t from, uint32_t n, unsigned depth) {
        const V8Reader *reader = maker->reader;
        V8Object first, second;
        uint32_t length, left;

        if (!v8_object_in(reader, string, v8_value(reader, V8_CONS_FIRST), &first) ||
            !v8_object_in(reader, string, v8_value(reader, V8_CONS_SECOND), &second) ||
            !string_length(reader, &first, &length))
                return false;
        left = from < length ? MIN(n, length - from) : 0;
        if (left && !put_string(maker, &first, from, left, depth))
                return false;
        return left == n || maker->is_full ||
                put_string(maker, &second, from > length ? from - length : 0, n - left, depth);
}

static bool put_part(Maker *maker, const V8Object *string, uint32_t from, uint32_t n, unsigned depth) {
        const V8Reader *reader = maker->reader;
        V8Object parent;
        int32_t offset;
        uint64_t word;

        return v8_object_in(reader, string, v8_value(reader, V8_SLICED_PARENT), &parent) &&
                v8_word_of(reader, string, v8_value(reader, V8_SLICED_OFFSET), &word) &&
                v8_small_number(word, &offset) && offset >= 0 && offset <= MAX_STRING &&
                put_string(maker, &parent, from + (uint32_t)offset, n, depth);
}

static bool put_string(Maker *maker, const V8Object *string, uint32_t from, uint32_t n, unsigned depth) {
        const V8Reader *reader = maker->reader;
        V8Characters row;
        V8Object actual;

        if (!v8_is_string(reader, string) || depth >= MAX_DEPTH || maker->n_pieces++ >= MAX_PIECES)
                return false;
        switch (string->type & FORM_MASK) {
        case FORM_CONS:
                return put_pair(maker, string, from, n, depth + 1);
        case FORM_SLICED:
                return put_part(maker, string, from, n, depth + 1);
        case FORM_THIN:
                return v8_object_in(reader, string, v8_value(reader, V8_THIN_ACTUAL), &actual) &&
                        put_string(maker, &actual, from, n, depth + 1);
        default:
                return v8_characters_of(reader, string, &row) && put_row(maker, &row, from, n);
        }
}

bool v8_text_read(const V8Reader *reader, const V8Object *string, char to[V8_MAX_TEXT]) {
        Maker maker = { .reader = reader, .to = to };
        uint32_t length;

        if (!v8_is_string(reader, string) || !string_length(reader, string, &length) ||
            !put_string(&maker, string, 0, length, 0))
                return false;
        if (maker.high && !maker.is_full)
                put(&maker, 0xfffd);
        to[maker.at] = '\0';
        return true;
}
