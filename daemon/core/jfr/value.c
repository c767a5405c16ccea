/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes strings in each of their encodings into UTF-8, with a check of every length.
 */

#include "core/jfr/value.h"

static JfrString utf16(JfrCursor *cursor) {
        JfrString string = { .encoding = JFR_STRING_UTF16, .compressed = cursor->compressed };
        uint32_t n = jfr_int(cursor);

        string.data = cursor->at;
        /* each unit takes a byte at least, so this ends with the bytes */
        for (uint32_t i = 0; i < n && !cursor->failed; i++)
                jfr_integer(cursor, 2);
        string.size = cursor->failed ? 0 : (size_t)(cursor->at - string.data);
        return string;
}

JfrString jfr_string(JfrCursor *cursor) {
        JfrString string = { .encoding = (JfrEncoding)jfr_byte(cursor) };

        switch (string.encoding) {
        case JFR_STRING_NULL:
        case JFR_STRING_EMPTY:
                break;
        case JFR_STRING_POOL:
                string.index = jfr_long(cursor);
                break;
        case JFR_STRING_UTF16:
                string = utf16(cursor);
                break;
        case JFR_STRING_UTF8:
        case JFR_STRING_LATIN1:
                string.size = jfr_int(cursor);
                string.data = jfr_take(cursor, string.size);
                break;
        default:
                cursor->failed = true;
        }
        return cursor->failed ? (JfrString){ 0 } : string;
}

static void append_character(Text *text, uint32_t c) {
        char bytes[4];
        size_t n = 0;

        if (c < 0x80) {
                bytes[n++] = (char)c;
        } else if (c < 0x800) {
                bytes[n++] = (char)(0xC0 | c >> 6);
        } else if (c < 0x10000) {
                bytes[n++] = (char)(0xE0 | c >> 12);
                bytes[n++] = (char)(0x80 | (c >> 6 & 0x3F));
        } else {
                bytes[n++] = (char)(0xF0 | c >> 18);
                bytes[n++] = (char)(0x80 | (c >> 12 & 0x3F));
                bytes[n++] = (char)(0x80 | (c >> 6 & 0x3F));
        }
        if (c >= 0x80)
                bytes[n++] = (char)(0x80 | (c & 0x3F));
        text_append(text, bytes, n);
}

/* Pairs of surrogates become one character; half a pair becomes U+FFFD. */
static void append_utf16(const JfrString *string, Text *text) {
        JfrCursor cursor = { string->data, string->data + string->size, string->compressed, false };
        uint32_t high = 0;

        while (jfr_left(&cursor)) {
                uint32_t unit = (uint32_t)jfr_integer(&cursor, 2) & 0xFFFF;
                bool is_low = unit >= 0xDC00 && unit < 0xE000;

                if (high && !is_low)
                        append_character(text, 0xFFFD);
                if (unit >= 0xD800 && unit < 0xDC00) {
                        high = unit;
                        continue;
                }
                if (is_low)
                        unit = high ? 0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00) : 0xFFFD;
                append_character(text, unit);
                high = 0;
        }
        if (high)
                append_character(text, 0xFFFD);
}

static bool is_surrogate(const uint8_t *at, uint8_t kind) {
        return at[0] == 0xED && (at[1] & 0xF0) == kind && (at[2] & 0xC0) == 0x80;
}

/*
 * The JVM's own UTF-8 has characters beyond U+FFFF as two surrogates of three bytes each; other bytes stay as
 * they are.
 */
static void append_utf8(const JfrString *string, Text *text) {
        const uint8_t *begin = string->data, *end = begin + string->size;

        for (const uint8_t *at = begin; (at = memchr(at, 0xED, (size_t)(end - at))) && end - at >= 6;) {
                if (!is_surrogate(at, 0xA0) || !is_surrogate(at + 3, 0xB0)) {
                        at++;
                        continue;
                }
                text_append(text, (const char *)begin, (size_t)(at - begin));
                append_character(text,
                                 0x10000 +
                                         ((at[1] & 0xFu) << 16 | (at[2] & 0x3Fu) << 10 | (at[4] & 0xFu) << 6 |
                                          (at[5] & 0x3Fu)));
                begin = at += 6;
        }
        text_append(text, (const char *)begin, (size_t)(end - begin));
}

void jfr_string_append(const JfrString *string, Text *text) {
        switch (string->encoding) {
        case JFR_STRING_UTF8:
                append_utf8(string, text);
                break;
        case JFR_STRING_LATIN1:
                for (size_t i = 0; i < string->size; i++)
                        append_character(text, string->data[i]);
                break;
        case JFR_STRING_UTF16:
                append_utf16(string, text);
                break;
        default:
                break;
        }
}
