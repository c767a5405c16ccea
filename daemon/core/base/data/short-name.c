/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The part of a name that tells least goes first. With
 * `shop::pricing::Engine<unsigned long, Table>::price(int, Book const&)`:
 *
 *     1. arguments of templates     shop::pricing::Engine<…>::price(int, Book const&)
 *     2. parameters                 shop::pricing::Engine<…>::price(…)
 *     3. leading scopes             …Engine<…>::price(…)
 *     4. the middle of what stays   …pr…e(…)
 *
 * and it stops where the name fits. A `<` or `(` without its end, and those of `operator<` and `operator()`,
 * are letters as others, and so is the `<init>` of Java. Scopes end at `::`, `.`, `/` or `$`, but not
 * before what a compiler appends to a function that it has cut: `order.part.0`.
 *
 * Of names that would look the same then, below each other, the arguments are what tells them apart. They
 * stay, each without its scopes and its own arguments:
 *
 *     Engine<std::basic_string<char, …>, shop::RoundUp>::price  →  Engine<basic_string<…>, RoundUp>::price
 */

#include "core/base/data/short-name.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"

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

/* The end of what @at opens, the bracket that closes it; NULL = none before @end. `->` closes nothing. */
static const char *find_end(const char *at, const char *end, char open, char close) {
        unsigned depth = 0;

        for (; at < end; at++) {
                if (*at == open)
                        depth++;
                else if (*at == close && at[-1] != '-' && --depth == 0)
                        return at;
        }
        return NULL;
}

/* Is what stands from @at to the bracket @end a whole name: `<init>`, `<module>`? */
static bool is_name(const char *name, const char *at, const char *end) {
        return *at == '<' && (at == name || at[-1] == '.') && (!end[1] || end[1] == '(');
}

/* Is what stands between @at and the bracket @end shown as an ellipsis? */
static bool is_folded(const char *name, const char *at, const char *end) {
        /* a receiver of Go, `(*Engine).price`, is no list of parameters */
        return end - at > (ptrdiff_t)strlen(ELLIPSIS) && !(*at == '(' && end[1] == '.') &&
               !is_name(name, at, end);
}

/* Finds the end of the pair that @at opens, if that is no name of an operator. NULL = no end before @end. */
static const char *find_pair(const char *name, const char *at, const char *end, char open, char close) {
        return *at == open && !follows_operator(name, at) ? find_end(at, end, open, close) : NULL;
}

/*
 * Copies @name up to @end to @to, with an ellipsis for what stands between @open and @close, where that is
 * longer. The copy is never longer than the name. Return: its end.
 */
static char *fold(char *to, const char *name, const char *end, char open, char close) {
        for (const char *from = name; from < end; from++) {
                const char *closed = find_pair(name, from, end, open, close);

                *to++ = *from;
                if (!closed || !is_folded(name, from, closed))
                        continue;
                to = stpcpy(to, ELLIPSIS);
                *to++ = close;
                from = closed;
        }
        *to = 0;
        return to;
}

/* Compilers append these words to names of functions, with a number behind. */
static bool is_suffix(const char *at) {
        static const char *const words[] = { ".part.", ".constprop.", ".isra.", ".cold", ".lto_priv.", ".llvm.",
                                             ".localalias" };

        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (!strncmp(at, words[i], strlen(words[i])))
                        return true;
        return false;
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
                if (strchr("./$", *at) && !isdigit((unsigned char)at[1]) && !is_suffix(at))
                        return at + 1;
        }
        return NULL;
}

/* Where the argument of a template that begins @at ends, before @end: at its comma. */
static const char *find_comma(const char *at, const char *end) {
        unsigned depth = 0;

        for (; at < end && (depth || *at != ','); at++) {
                if (strchr("<([{", *at))
                        depth++;
                else if (strchr(">)]}", *at) && depth)
                        depth--;
        }
        return at;
}

/* Copies an argument without its scopes and its own arguments. Return: its end. */
static char *fold_argument(char *to, const char *at, const char *end) {
        const char *next;

        while ((next = next_scope(at)) && next < end)
                at = next;
        return fold(to, at, end, '<', '>');
}

/* Copies arguments of a template. Return: their end. */
static char *fold_arguments(char *to, const char *at, const char *end) {
        while (at < end) {
                const char *comma = find_comma(at, end);

                to = fold_argument(to, at, comma);
                at = comma;
                while (at < end && (*at == ',' || *at == ' '))
                        *to++ = *at++;
        }
        return to;
}

/* As fold(), but arguments of templates stay, each in short. */
static void fold_each(char *to, const char *name) {
        const char *end = name + strlen(name);

        for (const char *from = name; from < end; from++) {
                const char *closed = find_pair(name, from, end, '<', '>');

                *to++ = *from;
                if (!closed || !is_folded(name, from, closed))
                        continue;
                to = fold_arguments(to, from + 1, closed);
                *to++ = '>';
                from = closed;
        }
        *to = 0;
}

/* The most of the last scopes that fits behind an ellipsis; the last one, or the first with @arguments. */
static const char *last_scopes(const char *name, size_t width, bool arguments) {
        const char *at = name, *next;

        while (text_columns(at) + (at > name) > width && (next = next_scope(at)) &&
               !(arguments && memchr(at, '<', (size_t)(next - at))))
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

/* @arguments: those of templates stay, in short. */
static int shorten(const char *name, size_t width, bool arguments, char **shortp) {
        size_t room = strlen(name) + 2 * sizeof(ELLIPSIS);
        _cleanup_(freep) char *first = malloc(room), *second = malloc(room), *to = malloc(room);
        const char *folded = name, *last;

        if (!first || !second || !to)
                return error_origin(-ENOMEM);
        if (text_columns(folded) > width) {
                if (arguments)
                        fold_each(first, folded);
                else
                        fold(first, folded, folded + strlen(folded), '<', '>');
                folded = first;
        }
        if (text_columns(folded) > width) {
                fold(second, folded, folded + strlen(folded), '(', ')');
                folded = second;
        }
        last = last_scopes(folded, width, arguments);
        if (text_columns(name) <= width)
                strcpy(to, name);
        else if (width < 2)
                strcpy(to, width ? ELLIPSIS : "");
        else
                cut_middle(to, last, last > folded, width);
        *shortp = take(to);
        return 0;
}

int short_name(const char *name, size_t width, char **shortp) {
        return shorten(name, width, false, shortp);
}

typedef struct Twin {
        const char *name, *shorter;
        size_t at;
} Twin;

static int compare_twins(const void *a, const void *b) {
        const Twin *x = a, *y = b;
        int r = strcmp(x->shorter, y->shorter);

        return r ? r : strcmp(x->name, y->name);
}

/* The end of those from @first on that have become the same; *differp: whether they were it before. */
static size_t find_alike(const Twin *twins, size_t n, size_t first, bool *differp) {
        size_t end = first + 1;

        while (end < n && !strcmp(twins[first].shorter, twins[end].shorter))
                end++;
        *differp = strcmp(twins[first].name, twins[end - 1].name) != 0;
        return end;
}

static int part_twins(const Twin *twins, size_t n, size_t width, char **shorts) {
        bool differ;
        int r = 0;

        for (size_t i = 0, end; i < n && !r; i = end) {
                end = find_alike(twins, n, i, &differ);
                for (size_t j = i; j < end && differ && !r; j++) {
                        char **to = &shorts[twins[j].at];

                        free(take(*to));
                        r = shorten(twins[j].name, width, true, to);
                }
        }
        return r;
}

int short_names(const char *const *names, size_t n, size_t width, char **shorts) {
        _cleanup_(freep) Twin *twins = calloc(n + 1, sizeof(*twins));
        int r = twins ? 0 : error_origin(-ENOMEM);

        for (size_t i = 0; i < n && !r; i++) {
                r = short_name(names[i], width, &shorts[i]);
                if (!r)
                        twins[i] = (Twin){ names[i], shorts[i], i };
        }
        if (r)
                return r;
        qsort(twins, n, sizeof(*twins), compare_twins);
        return part_twins(twins, n, width, shorts);
}
