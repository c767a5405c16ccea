/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Parses numbers, checks and repairs UTF-8 (RFC 3629), masks characters that do not show, and grows
 * buffers of text, which remember a failed allocation until their end.
 */

#include "core/base/util/text.h"

#include <stdarg.h>
#include <string.h>

#include "core/base/util/array.h"

int text_u64(const char *text, uint64_t max, uint64_t *valuep) {
        uint64_t value = 0;

        if (!*text)
                return 1;
        for (; *text; text++) {
                if (*text < '0' || *text > '9')
                        return 1;
                if (__builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value) || value > max)
                        return 1;
        }
        *valuep = value;
        return 0;
}

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

int text_hex(const char *text, const char *end, uint64_t *valuep) {
        uint64_t value = 0;

        if (text == end || end - text > 16)
                return 1;
        for (; text < end; text++) {
                int digit = hex_digit(*text);

                if (digit < 0)
                        return 1;
                value = value << 4 | (uint64_t)digit;
        }
        *valuep = value;
        return 0;
}

bool text_take_part(const char **path, char *part, size_t room) {
        size_t size;

        if (**path != '/')
                return false;
        size = strcspn(++*path, "/");
        if (!size || size >= room)
                return false;
        memcpy(part, *path, size);
        part[size] = 0;
        *path += size;
        return true;
}

void text_to_hex(char *to, const void *data, size_t size) {
        static const char digits[] = "0123456789abcdef";
        const uint8_t *bytes = data;

        for (size_t i = 0; i < size; i++) {
                to[2 * i] = digits[bytes[i] >> 4];
                to[2 * i + 1] = digits[bytes[i] & 15];
        }
        to[2 * size] = 0;
}

/* Length of the well-formed sequence at @p (RFC 3629: no overlong forms, no surrogates), 0 = bad. */
static size_t utf8_sequence(const uint8_t *p, size_t left) {
        size_t n;

        if (p[0] && p[0] < 0x80)
                return 1;
        n = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : p[0] >= 0xC2 ? 2 : 0;
        if (!n || p[0] > 0xF4 || n > left)
                return 0;
        for (size_t i = 1; i < n; i++)
                if ((p[i] & 0xC0) != 0x80)
                        return 0;
        if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) || (p[0] == 0xF0 && p[1] < 0x90) ||
            (p[0] == 0xF4 && p[1] > 0x8F))
                return 0;
        return n;
}

bool text_is_utf8(const char *text, size_t size) {
        for (size_t i = 0; i < size;) {
                size_t n = utf8_sequence((const uint8_t *)text + i, size - i);

                if (!n)
                        return false;
                i += n;
        }
        return true;
}

static bool is_surrogate(const uint8_t *p, uint8_t kind) {
        return p[0] == 0xED && (p[1] & 0xF0) == kind && (p[2] & 0xC0) == 0x80;
}

/* Makes four bytes of a pair of surrogates (CESU-8). Return: whether it is one. */
static bool join_surrogates(const uint8_t *p, size_t left, char to[4]) {
        uint32_t c;

        if (left < 6 || !is_surrogate(p, 0xA0) || !is_surrogate(p + 3, 0xB0))
                return false;
        c = 0x10000 + ((p[1] & 0xFu) << 16 | (p[2] & 0x3Fu) << 10 | (p[4] & 0xFu) << 6 | (p[5] & 0x3Fu));
        to[0] = (char)(0xF0 | c >> 18);
        to[1] = (char)(0x80 | (c >> 12 & 0x3F));
        to[2] = (char)(0x80 | (c >> 6 & 0x3F));
        to[3] = (char)(0x80 | (c & 0x3F));
        return true;
}

size_t text_repair_utf8(char *to, const char *text, size_t size) {
        size_t length = 0;

        for (size_t i = 0; i < size;) {
                size_t n = utf8_sequence((const uint8_t *)text + i, size - i);

                if (!n && join_surrogates((const uint8_t *)text + i, size - i, to + length)) {
                        length += 4;
                        i += 6;
                } else if (n) {
                        memcpy(to + length, text + i, n);
                        length += n;
                        i += n;
                } else {
                        memcpy(to + length, "\xEF\xBF\xBD", 3);
                        length += 3;
                        i += size - i > 1 && !memcmp(text + i, "\xC0\x80", 2) ? 2 : 1;
                }
        }
        to[length] = 0;
        return length;
}

size_t text_cut_utf8(const char *text, size_t max) {
        size_t n = strnlen(text, max);

        while (n && ((uint8_t)text[n] & 0xC0) == 0x80)
                n--;
        return n;
}

/*
 * Characters that do not show, or that change how their neighbours show: Unicode's Cc, Zl and Zp, of Cf what
 * has no shape of its own (Arabic signs of numbers have one), and other Default_Ignorable_Code_Points.
 * Selectors of variants (U+FE00 to FE0F, U+E0100 to E01EF) may stay: emoji and Han names need them, and they
 * move nothing.
 */
static const struct {
        uint32_t first, last;
} unshown[] = {
        { 0x0000, 0x001F },
        { 0x007F, 0x009F },             /* DEL, C1 */
        { 0x00AD, 0x00AD },             /* soft hyphen */
        { 0x034F, 0x034F },             /* joiner of graphemes */
        { 0x061C, 0x061C },             /* Arabic letter mark */
        { 0x115F, 0x1160 },             /* Hangul fillers */
        { 0x17B4, 0x17B5 },
        { 0x180E, 0x180E },
        { 0x200B, 0x200F },             /* characters of no width; marks of direction */
        { 0x2028, 0x202E },             /* ends of line and paragraph; embeddings, overrides */
        { 0x2060, 0x206F },             /* characters of no width; isolates */
        { 0x3164, 0x3164 },
        { 0xFEFF, 0xFEFF },             /* byte order mark */
        { 0xFFA0, 0xFFA0 },
        { 0xFFF0, 0xFFFB },             /* not assigned; annotations between lines */
        { 0xFFFE, 0xFFFF },
        { 0x13430, 0x1343F },           /* layout of hieroglyphs */
        { 0x1BCA0, 0x1BCA3 },           /* controls of shorthand */
        { 0x1D173, 0x1D17A },           /* controls of music */
        { 0xE0000, 0xE00FF },           /* tags */
        { 0xE01F0, 0xE0FFF },
};

/* @p: a well-formed sequence of @n bytes. */
static uint32_t code_point(const uint8_t *p, size_t n) {
        uint32_t c = n == 1 ? p[0] : p[0] & (0x7Fu >> n);

        for (size_t i = 1; i < n; i++)
                c = c << 6 | (p[i] & 0x3F);
        return c;
}

static bool is_unshown(uint32_t c) {
        for (size_t i = 0; i < ARRAY_SIZE(unshown) && c >= unshown[i].first; i++)
                if (c <= unshown[i].last)
                        return true;
        return false;
}

size_t text_character(const char *text, size_t size, bool *shownp) {
        const uint8_t *p = (const uint8_t *)text;
        size_t n = p[0] >= ' ' && p[0] < 0x7F ? 1 : utf8_sequence(p, size);

        *shownp = n && !is_unshown(code_point(p, n));
        return MAX(n, (size_t)1);
}

void text_mask(char *text) {
        char *to = text;
        bool shown;

        while (*text) {
                size_t n = text_character(text, SIZE_MAX, &shown);

                if (shown)
                        memmove(to, text, n);
                else
                        *to = '?';
                to += shown ? n : 1;
                text += n;
        }
        *to = 0;
}

void text_append_masked(Text *text, const char *value) {
        bool shown;

        for (size_t n; *value; value += n) {
                n = text_character(value, SIZE_MAX, &shown);
                text_append(text, shown ? value : "?", shown ? n : 1);
        }
}

void text_append_html(Text *text, const char *value) {
        bool shown;

        for (size_t n; *value; value += n) {
                n = text_character(value, SIZE_MAX, &shown);
                switch (*value) {
                case '&': text_printf(text, "&amp;"); break;
                case '<': text_printf(text, "&lt;"); break;
                case '>': text_printf(text, "&gt;"); break;
                case '"': text_printf(text, "&quot;"); break;
                default: text_append(text, shown ? value : "?", shown ? n : 1);
                }
        }
}

void text_append_varint(Text *text, uint64_t value) {
        char bytes[10];
        size_t n = 0;

        for (; value >= 0x80; value >>= 7)
                bytes[n++] = (char)(value | 0x80);
        bytes[n++] = (char)value;
        text_append(text, bytes, n);
}

static bool is_alphanumeric(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

void text_append_escaped(Text *text, const char *value, const char *plain) {
        for (; *value; value++)
                if (is_alphanumeric(*value) || strchr(plain, *value))
                        text_append(text, value, 1);
                else
                        text_printf(text, "%%%02X", (unsigned char)*value);
}

void text_print(const char *text, size_t size, FILE *out) {
        bool shown;

        for (size_t i = 0, n; i < size; i += n) {
                n = text_character(text + i, size - i, &shown);
                fwrite(shown ? text + i : "?", 1, shown ? n : 1, out);
        }
}

void text_print_lines(const char *text, FILE *out) {
        while (*text) {
                size_t n = strcspn(text, "\n");

                text_print(text, n, out);
                text += n;
                if (*text) {
                        fputc('\n', out);
                        text++;
                }
        }
}

void text_deinit(Text *text) {
        free(text->data);
        *text = (Text){ 0 };
}

static bool reserve(Text *text, size_t more) {
        if (text->failed || more > SIZE_MAX / 4 - text->size ||
            array_reserve(&text->data, &text->room, text->size + more + 1, 256))
                text->failed = true;
        return !text->failed;
}

void text_append(Text *text, const char *data, size_t size) {
        if (!reserve(text, size))
                return;
        if (size)       /* nothing may come from NULL, which memcpy() does not take even then */
                memcpy(text->data + text->size, data, size);
        text->size += size;
        text->data[text->size] = 0;
}

void text_printf(Text *text, const char *format, ...) {
        va_list args;
        int n;

        va_start(args, format);
        n = vsnprintf(NULL, 0, format, args);
        va_end(args);
        if (n < 0 || !reserve(text, (size_t)n))
                return;
        va_start(args, format);
        vsnprintf(text->data + text->size, (size_t)n + 1, format, args);
        va_end(args);
        text->size += (size_t)n;
}
