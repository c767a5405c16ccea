/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What goes first is what tells least. With `shop::pricing::Engine<unsigned long, Table>::price(int, Book const&)`:
 *
 *     1. arguments of templates     shop::pricing::Engine<…>::price(int, Book const&)
 *     2. parameters                 shop::pricing::Engine<…>::price(…)
 *     3. leading scopes             …Engine<…>::price(…)
 *     4. the middle of what stays   …pr…e(…)
 *
 * and it stops where the name fits. A `<` or `(` without its end, and those of `operator<` and `operator()`,
 * are letters as others. Scopes end at `::`, `.`, `/` or `$`.
 */

#include "base/util/short-name.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/error.h"
#include "base/util/macro.h"

#define ELLIPSIS "…"

size_t text_columns(const char *text) {
        size_t n = 0;

        for (; *text; text++)
                n += text_is_first_byte(*text);
        return n;
}

/* Is the bracket @at in @name the name of an operator: `operator<`, `operator<<`, `operator()`? */
static bool follows_operator(const char *name, const char *at) {
        static const char word[] = "operator";
        size_t n = strlen(word);
        char bracket = *at;

        while (at > name && at[-1] == bracket)
                at--;
        return (size_t)(at - name) >= n && !memcmp(at - n, word, n);
}

/* The end of what @at opens, the bracket that closes it; NULL = there is none. `->` closes nothing. */
static const char *find_end(const char *at, char open, char close) {
        unsigned depth = 0;

        for (; *at; at++) {
                if (*at == open)
                        depth++;
                else if (*at == close && at[-1] != '-' && --depth == 0)
                        return at;
        }
        return NULL;
}

/*
 * Copies @name to @to, with an ellipsis for what stands between @open and @close, where that is longer. The
 * copy is never longer than the name.
 */
static void fold(char *to, const char *name, char open, char close) {
        for (const char *from = name; *from; from++) {
                const char *end = *from == open && !follows_operator(name, from) ? find_end(from, open, close)
                                                                                 : NULL;

                *to++ = *from;
                /* a receiver of Go, `(*Engine).price`, is no list of parameters */
                if (!end || end - from <= (ptrdiff_t)strlen(ELLIPSIS) || (open == '(' && end[1] == '.'))
                        continue;
                memcpy(to, ELLIPSIS, strlen(ELLIPSIS));
                to += strlen(ELLIPSIS);
                *to++ = close;
                from = end;
        }
        *to = 0;
}

/* Where the next scope begins, after its separator and outside of brackets; NULL = this is the last one. */
static const char *next_scope(const char *at) {
        unsigned depth = 0;

        for (; *at; at++) {
                if (strchr("<([{", *at))
                        depth++;
                else if (strchr(">)]}", *at) && depth)
                        depth--;
                if (depth || !at[1])
                        continue;
                if (at[0] == ':' && at[1] == ':' && at[2])
                        return at + 2;
                if (strchr("./$", *at) && !isdigit((unsigned char)at[1]))
                        return at + 1;
        }
        return NULL;
}

/* The most of the last scopes that fits behind an ellipsis; the last one, if none does. */
static const char *last_scopes(const char *name, size_t width) {
        const char *at = name, *next;

        while (text_columns(at) + (at > name) > width && (next = next_scope(at)))
                at = next;
        return at;
}

/* Copies the first @n characters of @text. Return: the end in @to. */
static char *copy_columns(char *to, const char *text, size_t n) {
        for (; *text && (n || !text_is_first_byte(*text)); text++) {
                n -= text_is_first_byte(*text);
                *to++ = *text;
        }
        return to;
}

static const char *skip_columns(const char *text, size_t n) {
        for (; *text && (n || !text_is_first_byte(*text)); text++)
                n -= text_is_first_byte(*text);
        return text;
}

/* @lead: something was left out before @name. A third of the room is for its start. */
static char *cut_middle(char *to, const char *name, bool lead, size_t width) {
        size_t n = text_columns(name), head, tail;

        if (lead)
                to = stpcpy(to, ELLIPSIS);
        width -= lead;
        if (n <= width)
                return stpcpy(to, name);
        head = (width - 1) / 3;
        tail = width - 1 - head;
        if (head || !lead)
                to = stpcpy(copy_columns(to, name, head), ELLIPSIS);
        else
                tail++;
        return stpcpy(to, skip_columns(name, n - tail));
}

int short_name(const char *name, size_t width, char **shortp) {
        size_t room = strlen(name) + 2 * sizeof(ELLIPSIS);
        _cleanup_(freep) char *first = malloc(room), *second = malloc(room), *to = malloc(room);
        const char *folded = name, *last;

        if (!first || !second || !to)
                return error_origin(-ENOMEM);
        if (text_columns(folded) > width) {
                fold(first, folded, '<', '>');
                folded = first;
        }
        if (text_columns(folded) > width) {
                fold(second, folded, '(', ')');
                folded = second;
        }
        last = last_scopes(folded, width);
        if (text_columns(name) <= width)
                strcpy(to, name);
        else if (width < 2)
                strcpy(to, width ? ELLIPSIS : "");
        else
                cut_middle(to, last, last > folded, width);
        *shortp = take(to);
        return 0;
}
