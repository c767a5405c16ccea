/* SPDX-License-Identifier: Apache-2.0 */
#include "jfr/value.h"

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

void jfr_string_append(const JfrString *string, Text *text) {
        switch (string->encoding) {
        case JFR_STRING_UTF8:
                text_append(text, (const char *)string->data, string->size);
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
