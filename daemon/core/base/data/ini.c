/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads one line at a time: blanks are trimmed, comments skipped, and each other line is a section, an
 * entry, or malformed with a reason.
 */

#include "core/base/data/ini.h"

#include <stdbool.h>
#include <string.h>

#include "core/base/util/text.h"

static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\r';
}

static IniText trim(IniText text) {
        while (text.size && is_blank(text.data[0])) {
                text.data++;
                text.size--;
        }
        while (text.size && is_blank(text.data[text.size - 1]))
                text.size--;
        return text;
}

static IniText next_line(IniCursor *cursor) {
        IniText line = { cursor->at, (size_t)(cursor->end - cursor->at) };
        const char *newline = memchr(line.data, '\n', line.size);

        if (newline)
                line.size = (size_t)(newline - line.data);
        cursor->at = newline ? newline + 1 : cursor->end;
        cursor->line++;
        return line;
}

static int malformed(IniEntry *entry, const char *problem) {
        entry->problem = problem;
        return INI_E_MALFORMED;
}

/* Keys and sections are names as the options have them: letters, digits, dashes. */
static bool is_name(IniText text) {
        for (size_t i = 0; i < text.size; i++) {
                char c = text.data[i];

                if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
                    c != '-' && c != '_')
                        return false;
        }
        return text.size > 0;
}

/*
 * Byte order mark that editors may write in front of UTF-8. It cannot be seen, and would be part of the first
 * key.
 */
static bool has_byte_order_mark(const IniCursor *cursor, IniText line) {
        return cursor->line == 1 && line.size >= 3 && !memcmp(line.data, "\xEF\xBB\xBF", 3);
}

/* A section is one name, or a kind and a name with one blank between: [export backup]. */
static bool is_section(IniText text) {
        const char *blank = text.size ? memchr(text.data, ' ', text.size) : NULL;

        if (!blank)
                return is_name(text);
        return is_name((IniText){ text.data, (size_t)(blank - text.data) }) &&
               is_name((IniText){ blank + 1, (size_t)(text.data + text.size - blank - 1) });
}

static int read_section(IniCursor *cursor, IniText line, IniEntry *entry) {
        IniText name = { 0 };

        if (line.size >= 2 && line.data[line.size - 1] == ']')
                name = trim((IniText){ line.data + 1, line.size - 2 });
        if (!is_section(name))
                return malformed(entry, "a section is one word between `[` and `]`, or a kind and a name");
        cursor->section = entry->section = name;
        return INI_E_SECTION;
}

static int read_entry(IniText line, IniEntry *entry) {
        const char *equals = memchr(line.data, '=', line.size);

        if (!equals)
                return malformed(entry, "neither `key = value`, nor `[section]`, nor a comment");
        entry->key = trim((IniText){ line.data, (size_t)(equals - line.data) });
        entry->value = trim((IniText){ equals + 1, (size_t)(line.data + line.size - equals - 1) });
        if (!is_name(entry->key))
                return malformed(entry, "a key is one word before `=`");
        return 0;
}

IniCursor ini_begin(const char *text, size_t size) {
        return (IniCursor){ .at = text, .end = text + size };
}

int ini_next(IniCursor *cursor, IniEntry *entryp) {
        while (cursor->at < cursor->end) {
                IniText line = next_line(cursor);

                *entryp = (IniEntry){ .section = cursor->section, .line = cursor->line };
                if (!text_is_utf8(line.data, line.size))
                        return malformed(entryp, "not text: a byte that is no UTF-8");
                if (has_byte_order_mark(cursor, line))
                        return malformed(
                                entryp,
                                "a byte order mark before the text; save the file as UTF-8 without it");
                line = trim(line);
                if (!line.size || line.data[0] == '#' || line.data[0] == ';')
                        continue;
                return line.data[0] == '[' ? read_section(cursor, line, entryp) : read_entry(line, entryp);
        }
        return INI_E_EOF;
}
