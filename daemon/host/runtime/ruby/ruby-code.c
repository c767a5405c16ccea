/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     body ─▶ label ─▶ "block in total"
 *          ─▶ path ─▶ "/srv/app/cart.rb", or an array that begins with it
 *          ─▶ lines ─▶ one entry for each instruction that begins a line or an event
 *          ─▶ places ─▶ which instructions those are: a bit each
 *
 *     ID ─▶ its number ─▶ an array of arrays ─▶ "map"
 *     class ─▶ path ─▶ "Shop::Cart", or the object that it is of, if that is a class ─▶ its path
 *
 * Bits are counted by ranks. Those of the first 54 words of code are stored, 7 bits each, 9 a word. Behind
 * them are blocks of 512 bits: the rank in front of the block, 9 bits for each of its words but the first,
 * and the bits.
 *
 * The sample has a cookie of the body, and one of the class, which are compared before the texts are read and
 * after.
 */
#include "host/runtime/ruby/ruby-code.h"

#include <string.h>

#include "core/base/util/macro.h"
#include "core/base/util/text.h"

enum {
        MAX_BYTES = (READER_MAX_TEXT - 1) / 3,    /* bytes of a string: each may become three */
        TYPE_MASK = 31,                 /* bits of an object's flags */
        TYPE_CLASS = 2,
        TYPE_MODULE = 3,
        TYPE_STRING = 5,
        TYPE_ARRAY = 7,
        FLAG_1 = 1 << 13,               /* a string is apart; an array is not */
        STRING_SHIFT = 14,              /* length of a string that is not */
        STRING_LENGTH_MASK = 31,
        ARRAY_SHIFT = 15,
        ARRAY_LENGTH_MASK = 3,
        SINGLETON = 1 << 12,            /* the class of one object */
        INLINE = 16,                    /* in an array: values that it has itself */
        LENGTH = 16,                    /* length of what is apart */
        STRING_POINTER = 24,
        ARRAY_POINTER = 32,
        ID_SHIFT = 4,
        IDS_EACH = 512,                 /* IDs of one array, two values each */
        FEW = 54,                       /* places whose ranks are stored */
        FEW_EACH = 9,
        FEW_BITS = 7,
        BLOCK_BITS = 512,
        BLOCK_SIZE = 80,
        BLOCKS = FEW / FEW_EACH * 8,
        MAX_PLACES = 1 << 24,
        MAX_LINELESS = 3,               /* entries in a row that are looked at */
};

static bool read_at(const RubyReader *reader, uint64_t address, void *to, size_t size) {
        return !(address >> RUNTIME_KIND_SHIFT) && reader->read(reader->userdata, address, to, size);
}

/* The text of a string, with whole characters. Return: whether there is one. */
static bool read_text(const RubyReader *reader, uint64_t string, char to[READER_MAX_TEXT]) {
        uint64_t flags, length, address = string + reader->layout->text;
        char bytes[MAX_BYTES];

        *to = '\0';
        if (!string || (string & 7) || !read_at(reader, string, &flags, sizeof(flags)) ||
            (flags & TYPE_MASK) != TYPE_STRING)
                return false;
        length = flags >> STRING_SHIFT & STRING_LENGTH_MASK;
        if (((flags & FLAG_1) || reader->layout->text > LENGTH) &&
            !read_at(reader, string + LENGTH, &length, sizeof(length)))
                return false;
        if ((flags & FLAG_1) && !read_at(reader, string + STRING_POINTER, &address, sizeof(address)))
                return false;
        length = MIN(length, (uint64_t)sizeof(bytes));
        if (!length || !read_at(reader, address, bytes, length))
                return false;
        text_repair_utf8(to, bytes, strnlen(bytes, length));
        return *to;
}

/* The value at @index of an array; 0 = there is none. */
static uint64_t read_element(const RubyReader *reader, uint64_t array, uint64_t index) {
        uint64_t flags, length, address = array + INLINE, value;

        if (!array || (array & 7) || !read_at(reader, array, &flags, sizeof(flags)) ||
            (flags & TYPE_MASK) != TYPE_ARRAY)
                return 0;
        length = flags >> ARRAY_SHIFT & ARRAY_LENGTH_MASK;
        if (!(flags & FLAG_1) &&
            (!read_at(reader, array + LENGTH, &length, sizeof(length)) ||
             !read_at(reader, array + ARRAY_POINTER, &address, sizeof(address))))
                return 0;
        return index < length && read_at(reader, address + 8 * index, &value, sizeof(value)) ? value : 0;
}

/* ---- lines ---- */

/* How many instructions up to @position begin an entry; 0 = the table cannot be read. */
static uint32_t rank(const RubyReader *reader, uint64_t table, uint32_t position) {
        uint64_t block[BLOCK_SIZE / 8], word;
        uint32_t bit, in;

        if (position < FEW) {
                if (!read_at(reader, table + position / FEW_EACH * 8, &word, sizeof(word)))
                        return 0;
                return word >> position % FEW_EACH * FEW_BITS & 0x7f;
        }
        bit = (position - FEW) % BLOCK_BITS;
        in = bit / 64;
        if (!read_at(reader, table + BLOCKS + (uint64_t)(position - FEW) / BLOCK_BITS * BLOCK_SIZE, block,
                     sizeof(block)))
                return 0;
        return (uint32_t)block[0] + (in ? block[1] >> (in - 1) * 9 & 0x1ff : 0) +
                (uint32_t)__builtin_popcountll(block[2 + in] << (63 - bit % 64));
}

/* The line of the instruction in front of @position, in a body with @n_words of them; 0 = not known. */
static uint32_t read_line(const RubyReader *reader, uint64_t body, uint64_t n_words, uint32_t position) {
        const RubyLayout *layout = reader->layout;
        uint64_t lines, ranks;
        uint32_t n = 0, at = 1;
        int32_t line = 0;

        if (position > n_words || position > MAX_PLACES ||
            !read_at(reader, body + layout->lines, &lines, sizeof(lines)) ||
            !read_at(reader, body + layout->lines_size, &n, sizeof(n)) ||
            !read_at(reader, body + layout->lines_ranks, &ranks, sizeof(ranks)))
                return 0;
        if (n > 1)
                at = rank(reader, ranks, position ? position - 1 : 0);
        if (!at || at > n)
                return 0;
        /* 2.7 has instructions without a line: these follow one that has it */
        for (uint32_t i = 0; i < MAX_LINELESS && at && !line; i++, at--)
                if (!read_at(reader, lines + (uint64_t)(at - 1) * layout->line_size, &line, sizeof(line)))
                        return 0;
        return line > 0 ? (uint32_t)line : 0;
}

/* ---- classes ---- */

/* The name of a class or module. Return: whether it has one that is in force in the whole program. */
static bool read_path(const RubyReader *reader, uint64_t class, const uint64_t *words,
                      char path[READER_MAX_TEXT]) {
        uint64_t flags, type;

        if (!class || (class & 7) || !read_at(reader, class, &flags, sizeof(flags)))
                return false;
        type = flags & TYPE_MASK;
        return (type == TYPE_CLASS || type == TYPE_MODULE) && !(flags & SINGLETON) &&
                read_text(reader, words[RUBY_CLASS_PATH], path) && strncmp(path, "#<", 2) != 0;
}

static bool read_class(const RubyReader *reader, uint64_t class, uint64_t *words) {
        return read_at(reader, class + reader->layout->class, words, RUBY_CLASS_WORDS * 8);
}

/* The text in front of a method's name: `Cart#`, or `Cart.` of the class' own. Return: its length, or 0. */
static size_t class_prefix(const RubyReader *reader, uint64_t word, char prefix[READER_MAX_TEXT]) {
        uint64_t class = word & ((1ull << RUBY_CLASS_SHIFT) - 1), object, flags, words[RUBY_CLASS_WORDS],
                 others[RUBY_CLASS_WORDS];
        bool is_own;
        size_t n;

        if (!word || !reader->layout->class || (class & 7) ||
            !read_at(reader, class, &flags, sizeof(flags)) ||
            !read_class(reader, class, words) || ruby_class_cookie(words) != word >> RUBY_CLASS_SHIFT)
                return 0;
        is_own = (flags & TYPE_MASK) == TYPE_CLASS && (flags & SINGLETON);
        object = words[RUBY_CLASS_OBJECT];
        if (is_own ? !read_class(reader, object, others) || !read_path(reader, object, others, prefix)
                   : !read_path(reader, class, words, prefix))
                return 0;
        /* another class may be there meanwhile */
        if (!read_class(reader, class, words) || ruby_class_cookie(words) != word >> RUBY_CLASS_SHIFT)
                return 0;
        n = strlen(prefix);
        if (n + 1 >= READER_MAX_TEXT)
                return 0;
        prefix[n] = is_own ? '.' : '#';
        prefix[n + 1] = '\0';
        return n + 1;
}

/* Puts the class in front of the method's name, @base, which @name ends with, if there is room for it. */
static void add_class(const RubyReader *reader, uint64_t word, const char *base, char name[READER_MAX_TEXT]) {
        size_t n_name = strlen(name), n_base = strlen(base), n_class;
        char class[READER_MAX_TEXT];

        if (!n_base || n_base > n_name || strcmp(name + n_name - n_base, base) != 0)
                return;
        n_class = class_prefix(reader, word, class);
        if (!n_class || n_name + n_class >= READER_MAX_TEXT)
                return;
        memmove(name + n_name - n_base + n_class, name + n_name - n_base, n_base + 1);
        memcpy(name + n_name - n_base, class, n_class);
}

/* ---- names ---- */

static bool read_body(const RubyReader *reader, uint64_t body, uint32_t cookie, uint64_t *words) {
        return read_at(reader, body, words, RUBY_BODY_WORDS * 8) && ruby_cookie(words) == cookie;
}

static int name_method(const RubyReader *reader, uint64_t body, uint64_t place, uint64_t class,
                       ReaderFunction *function) {
        uint64_t words[RUBY_BODY_WORDS], first;
        uint32_t cookie = (uint32_t)(place >> 32);
        char base[READER_MAX_TEXT];

        if (!read_body(reader, body, cookie, words) ||
            !read_text(reader, words[RUBY_BODY_LABEL], function->name))
                return RUBY_CODE_E_GONE;
        if (!read_text(reader, words[RUBY_BODY_PATH], function->file))
                read_text(reader, read_element(reader, words[RUBY_BODY_PATH], 0), function->file);
        first = words[RUBY_BODY_FIRST_LINE];
        function->first_line = first & 1 && first >> 1 <= INT32_MAX ? (uint32_t)(first >> 1) : 0;
        function->line = read_line(reader, body, words[RUBY_BODY_SIZE] >> 32, (uint32_t)place);
        if (class && read_text(reader, words[RUBY_BODY_BASE], base))
                add_class(reader, class, base, function->name);
        return read_body(reader, body, cookie, words) ? 0 : RUBY_CODE_E_GONE;
}

static int name_c(const RubyReader *reader, uint64_t id, uint64_t class, ReaderFunction *function) {
        uint64_t number = id > reader->last_operator ? id >> ID_SHIFT : id, ids, some;
        char base[READER_MAX_TEXT];

        if (!read_at(reader, reader->ids, &ids, sizeof(ids)))
                return RUBY_CODE_E_GONE;
        some = read_element(reader, ids, number / IDS_EACH);
        if (!read_text(reader, read_element(reader, some, number % IDS_EACH * 2), function->name))
                return RUBY_CODE_E_GONE;
        strcpy(base, function->name);
        add_class(reader, class, base, function->name);
        return 0;
}

int ruby_code_name(const RubyReader *reader, const uint64_t *words, ReaderFunction *function) {
        uint64_t what = words[0] & ((1ull << RUBY_KIND_SHIFT) - 1);

        *function = (ReaderFunction){ 0 };
        if (words[0] >> RUNTIME_KIND_SHIFT != RUNTIME_RUBY)
                return RUBY_CODE_E_GONE;
        switch (words[0] >> RUBY_KIND_SHIFT & 0xff) {
        case RUBY_FRAME_METHOD:
                return name_method(reader, what, words[1], words[2], function);
        case RUBY_FRAME_C:
                return name_c(reader, what, words[2], function);
        case RUBY_FRAME_COLLECTOR:
                strcpy(function->name, "(gc)");
                return 0;
        default:
                return RUBY_CODE_E_GONE;
        }
}
