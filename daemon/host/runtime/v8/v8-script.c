/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     SharedFunctionInfo ─▶ name, or ScopeInfo ─▶ name, inferred name, begin and end
 *                        ─▶ Script ─▶ name (a path or a URL), ends of lines or the text itself
 *
 * The slots of a ScopeInfo have no fixed places. Behind names and properties of its variables come, if it is
 * a function's, its name with a number, and the name that V8 has inferred from what it was assigned to:
 *
 *     flags, parameters, variables │ begin, end (12.8 and newer) │ names │ properties │ name │ inferred
 *
 * V8 counts ends of lines when it first needs them, often never. Then they are counted in the text.
 */
#include "host/runtime/v8/v8-script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/runtime/reader/reader-text.h"
#include "host/runtime/v8/v8-position.h"

enum {
        N_TEXTS = 8,                    /* texts whose lines are kept; the oldest one makes room */
        MAX_TEXT = 16 << 20,            /* characters that are searched for lines */
        MAX_LINES = 1 << 20,
        PIECE = 32 << 10,               /* bytes of a text that are read at a time */
        MAX_LOCALS = 1 << 16,
        MAX_INLINED_NAMES = 75,         /* variables of a scope; names of more are in a table */
        MAX_SCOPE_TAIL = 8,             /* slots behind the variables that are looked at */
        SLOT = 8, SCOPE_SLOTS = 8,      /* bytes of a slot, and in front of the first */
        POSITIONS_FIRST = 5,            /* the first variable part, where begin and end stand before */
        SCRIPT_LINE_OFFSET = 8,         /* behind the script's name */
};

typedef struct Text {
        uint64_t address;               /* 0 = none */
        uint32_t n_characters, n_ends;
        uint32_t *ends;
} Text;

struct V8Lines {
        Text texts[N_TEXTS];
        uint32_t next;
        uint8_t piece[PIECE];
};

V8Lines *v8_lines_new(void) {
        return calloc(1, sizeof(V8Lines));
}

V8Lines *v8_lines_free(V8Lines *lines) {
        if (!lines)
                return NULL;
        for (size_t i = 0; i < N_TEXTS; i++)
                free(lines->texts[i].ends);
        free(lines);
        return NULL;
}

/* ---- lines ---- */

/* Index of the line that has @offset, among @n ends in rising order; the end is part of its line. */
static uint32_t search_ends(const uint32_t *ends, uint32_t n, uint32_t offset) {
        uint32_t low = 0, high = n;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (ends[middle] < offset)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* Return: whether the array has an end at @index. */
static bool read_end(const V8Reader *reader, const V8Object *array, uint32_t index, int32_t *endp) {
        uint64_t word;

        return v8_word_of(reader, array, v8_value(reader, V8_ARRAY_DATA) + (int32_t)index * SLOT, &word) &&
                v8_small_number(word, endp);
}

/* The ends that V8 has counted. Return: whether it has. */
static bool line_of_array(const V8Reader *reader, const V8Object *script, int32_t offset, uint32_t *linep) {
        V8Object array;
        int32_t length, end;
        uint32_t low = 0, high;

        if (!v8_object_in(reader, script, v8_value(reader, V8_SCRIPT_LINE_ENDS), &array) ||
            array.type != v8_value(reader, V8_TYPE_ARRAY) ||
            !v8_length_of(reader, &array, MAX_LINES, &length) || !length)
                return false;
        high = (uint32_t)length;
        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (!read_end(reader, &array, middle, &end))
                        return false;
                if (end < offset)
                        low = middle + 1;
                else
                        high = middle;
        }
        *linep = low;
        return true;
}

static bool count_piece(Text *text, const uint8_t *bytes, size_t n, const V8Characters *row, uint32_t first,
                        uint32_t next) {
        size_t room = 64 + n / 8, found;
        uint32_t *ends = realloc(text->ends, (text->n_ends + room) * sizeof(*ends));

        if (!ends)
                return false;
        text->ends = ends;
        found = v8_line_ends(bytes, n, row->width, first, next, ends + text->n_ends, room);
        if (found > room) {
                ends = realloc(text->ends, (text->n_ends + found) * sizeof(*ends));
                if (!ends)
                        return false;
                text->ends = ends;
                v8_line_ends(bytes, n, row->width, first, next, ends + text->n_ends, found);
        }
        text->n_ends += (uint32_t)found;
        return text->n_ends <= MAX_LINES;
}

/* Counts the ends of all lines. Each piece has one character more, which tells what follows a \r. */
static bool count_text(const V8Reader *reader, V8Lines *lines, const V8Characters *row, Text *text) {
        uint32_t in_piece = PIECE / row->width - 1;

        for (uint32_t first = 0; first < row->n; first += in_piece) {
                uint32_t n = MIN(in_piece, row->n - first), n_read = MIN(in_piece + 1, row->n - first),
                         next = 0;

                if (!v8_read(reader, row->address + (uint64_t)first * row->width, lines->piece,
                             (size_t)n_read * row->width))
                        return false;
                if (n_read > n)
                        next = row->width == 1 ? lines->piece[n]
                                               : lines->piece[2 * n] | (uint32_t)lines->piece[2 * n + 1] << 8;
                if (!count_piece(text, lines->piece, n, row, first, next))
                        return false;
        }
        return true;
}

static const Text *text_of(const V8Reader *reader, V8Lines *lines, const V8Characters *row) {
        Text *text;

        for (size_t i = 0; i < N_TEXTS; i++)
                if (lines->texts[i].address == row->address && lines->texts[i].n_characters == row->n)
                        return &lines->texts[i];
        text = &lines->texts[lines->next++ % N_TEXTS];
        free(text->ends);
        *text = (Text){ 0 };
        if (!row->n || row->n > MAX_TEXT || !count_text(reader, lines, row, text)) {
                free(text->ends);
                *text = (Text){ 0 };
                return NULL;
        }
        text->address = row->address;
        text->n_characters = row->n;
        return text;
}

static bool line_of_text(const V8Reader *reader, V8Lines *lines, const V8Object *script, int32_t offset,
                         uint32_t *linep) {
        V8Object source;
        V8Characters row;
        const Text *text;

        if (!lines || !v8_object_in(reader, script, v8_value(reader, V8_SCRIPT_SOURCE), &source) ||
            !v8_characters_of(reader, &source, &row) || (uint32_t)offset > row.n)
                return false;
        text = text_of(reader, lines, &row);
        if (!text)
                return false;
        *linep = search_ends(text->ends, text->n_ends, (uint32_t)offset);
        return true;
}

/* The line of a place in a script; 0 = not known. */
static uint32_t line_of(const V8Reader *reader, V8Lines *lines, const V8Object *script, int32_t offset) {
        int32_t before = 0;
        uint32_t line;
        uint64_t word;

        if (offset < 0 || (!line_of_array(reader, script, offset, &line) &&
                           !line_of_text(reader, lines, script, offset, &line)))
                return 0;
        if (!v8_word_of(reader, script, v8_value(reader, V8_SCRIPT_NAME) + SCRIPT_LINE_OFFSET, &word) ||
            !v8_small_number(word, &before) || before < 0 || before > MAX_LINES)
                return 0;
        return line + (uint32_t)before + 1;
}

/* ---- scopes ---- */

typedef struct Scope {
        V8Object name, inferred;
        bool has_name, has_inferred;
        int32_t start, end;             /* -1 = not known */
} Scope;

static bool read_slot(const V8Reader *reader, const V8Object *scope, int32_t slot, uint64_t *word) {
        return v8_word_of(reader, scope, SCOPE_SLOTS + slot * SLOT, word);
}

static bool read_string(const V8Reader *reader, uint64_t word, V8Object *string) {
        return v8_object_at(reader, word, string) && v8_is_string(reader, string);
}

static void read_positions(const V8Reader *reader, const V8Object *object, int32_t slot, Scope *scope) {
        uint64_t start, end;

        if (!read_slot(reader, object, slot, &start) || !read_slot(reader, object, slot + 1, &end) ||
            !v8_small_number(start, &scope->start) || !v8_small_number(end, &scope->end) ||
            scope->start < 0 || scope->end < scope->start)
                scope->start = scope->end = -1;
}

/* The first slot behind the variables' names and properties. */
static bool find_tail(const V8Reader *reader, const V8Object *object, int32_t *slotp) {
        int32_t n, first = v8_value(reader, V8_SCOPE_FIRST);
        uint64_t word;

        if (!read_slot(reader, object, v8_value(reader, V8_SCOPE_N_LOCALS), &word) ||
            !v8_small_number(word, &n) || n < 0 || n > MAX_LOCALS)
                return false;
        *slotp = first + (n < MAX_INLINED_NAMES ? n : 1) + n;
        return true;
}

/* The inferred name at @slot, or `undefined`, and what follows it. */
static void read_inferred(const V8Reader *reader, const V8Object *object, int32_t slot, Scope *scope) {
        uint64_t word;

        scope->has_inferred = read_slot(reader, object, slot, &word) &&
                read_string(reader, word, &scope->inferred);
        if (scope->start < 0)
                read_positions(reader, object, slot + 1, scope);
}

/* A name is told from an inferred one by the number and the tagged word behind it. */
static void read_names(const V8Reader *reader, const V8Object *object, int32_t slot, Scope *scope) {
        uint64_t word, next, after;
        int32_t number;

        for (int32_t i = slot; i < slot + MAX_SCOPE_TAIL && read_slot(reader, object, i, &word); i++) {
                if (!read_string(reader, word, &scope->name))
                        continue;
                scope->has_name = read_slot(reader, object, i + 1, &next) && v8_small_number(next, &number) &&
                        read_slot(reader, object, i + 2, &after) && !v8_small_number(after, &number);
                read_inferred(reader, object, scope->has_name ? i + 2 : i, scope);
                return;
        }
}

static void read_scope(const V8Reader *reader, const V8Object *object, Scope *scope) {
        int32_t slot;

        *scope = (Scope){ .start = -1, .end = -1 };
        if (v8_value(reader, V8_SCOPE_FIRST) >= POSITIONS_FIRST)
                read_positions(reader, object, v8_value(reader, V8_SCOPE_FIRST) - 2, scope);
        if (find_tail(reader, object, &slot))
                read_names(reader, object, slot, scope);
}

/* ---- functions ---- */

static bool read_info(const V8Reader *reader, const V8Object *info, Scope *scope) {
        V8Object object;

        *scope = (Scope){ .start = -1, .end = -1 };
        if (info->type != v8_value(reader, V8_TYPE_INFO))
                return false;
        if (!v8_object_in(reader, info, v8_value(reader, V8_INFO_NAME), &object))
                return true;
        if (v8_is_string(reader, &object)) {
                scope->name = object;
                scope->has_name = true;
        } else if (object.type == v8_value(reader, V8_TYPE_SCOPE)) {
                read_scope(reader, &object, scope);
        }
        return true;
}

bool v8_function_range(const V8Reader *reader, const V8Object *info, int32_t *startp, int32_t *endp) {
        Scope scope;

        if (!read_info(reader, info, &scope) || scope.start < 0)
                return false;
        *startp = scope.start;
        *endp = scope.end;
        return true;
}

static bool read_name(const V8Reader *reader, const Scope *scope, char name[V8_MAX_TEXT]) {
        *name = '\0';
        if (scope->has_name && !v8_text_read(reader, &scope->name, name))
                return false;
        if (!*name && scope->has_inferred && !v8_text_read(reader, &scope->inferred, name))
                return false;
        return true;
}

/* A function without any name is told from others by its place. */
static void name_by_place(V8Function *function) {
        const char *file = strrchr(function->file, '/');

        file = file ? file + 1 : function->file;
        if (*file && function->first_line)
                snprintf(function->name, sizeof(function->name), "(anonymous %.200s:%u)", file,
                         function->first_line);
        else
                strcpy(function->name, "(anonymous)");
}

static int digit_of(char c) {
        return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Makes a path of one in a URL: `%20` is a blank. It stays as it is where that is no text. */
static void decode_path(char path[V8_MAX_TEXT]) {
        char decoded[V8_MAX_TEXT];
        size_t n = 0;

        for (const char *at = path; *at; n++) {
                int high = *at == '%' ? digit_of(at[1]) : -1, low = high < 0 ? -1 : digit_of(at[2]);

                decoded[n] = low < 0 ? *at : (char)(high << 4 | low);
                at += low < 0 ? 1 : 3;
        }
        decoded[n++] = '\0';
        if (reader_text_check(decoded, n))
                memcpy(path, decoded, n);
}

/* A script's name is a path, a URL of a file, or a name of Node's own (`node:fs`). */
static void read_file(const V8Reader *reader, const V8Object *script, char file[V8_MAX_TEXT]) {
        static const char scheme[] = "file://";
        V8Object name;

        if (!v8_object_in(reader, script, v8_value(reader, V8_SCRIPT_NAME), &name) ||
            !v8_text_read(reader, &name, file))
                *file = '\0';
        if (strncmp(file, scheme, strlen(scheme)))
                return;
        memmove(file, file + strlen(scheme), strlen(file + strlen(scheme)) + 1);
        decode_path(file);
}

bool v8_function_read(const V8Reader *reader, V8Lines *lines, const V8Object *info, int32_t script_offset,
                      V8Function *function) {
        V8Object script;
        Scope scope;

        memset(function, 0, sizeof(*function));
        if (!read_info(reader, info, &scope) || !read_name(reader, &scope, function->name))
                return false;
        if (v8_object_in(reader, info, v8_value(reader, V8_INFO_SCRIPT), &script) &&
            script.type == v8_value(reader, V8_TYPE_SCRIPT)) {
                read_file(reader, &script, function->file);
                function->line = line_of(reader, lines, &script, script_offset);
                function->first_line = line_of(reader, lines, &script, scope.start);
        }
        if (!*function->name)
                name_by_place(function);
        return true;
}
