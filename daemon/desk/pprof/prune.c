/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Matches names against drop_frames and keep_frames. They are written for Go's expressions; regcomp() has
 * nearly the same. What means something else there is refused. A file must not make the matcher as large as
 * it likes: counted repetitions are refused, too, and what regexec() has learned of an expression is thrown
 * away after some names, since it grows with them.
 */

#include "desk/pprof/prune.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"

enum {
        MAX_EXPRESSION = 4 << 10,       /* bytes; each byte may be a place in each state of the matcher */
        MAX_DEPTH = 100,                /* of parentheses */
        MAX_NAMES = 16 << 10,           /* bytes of names that one matcher sees: each may make a state */
};

typedef struct Expression {
        Text text;                      /* as regcomp() takes it; empty = none */
        regex_t compiled;
        bool is_compiled;
        size_t n_seen;                  /* bytes of names */
} Expression;

struct Prune {
        Expression drop, keep;
};

/* An escaped character that means the same to both: punctuation is itself, letters are classes. */
static bool is_known_escape(char c) {
        return c && strchr("wWsSbB.*+?()[]{}|^$\\/-_:;,=!@#%&~\" ", c);
}

/* Copies a class in brackets, which has no escape there. Return: bytes read; 0 = not known here. */
static size_t copy_class(Text *to, const char *from, size_t size) {
        size_t i = 1;

        if (i < size && from[i] == '^')
                i++;
        if (i < size && from[i] == ']')
                return 0;
        while (i < size && from[i] != ']' && from[i] != '\\' && from[i] != '[')
                i++;
        if (i >= size || from[i] != ']')
                return 0;
        text_append(to, from, i + 1);
        return i + 1;
}

/* A repetition that stops early finds the same whole names, so its mark is left out. */
static bool is_lazy(const char *from, size_t i) {
        return from[i] == '?' && i && strchr("*+?", from[i - 1]) && (i < 2 || from[i - 2] != '\\');
}

/* Whether a brace repeats what is before it; any other one is itself. */
static bool is_count(const char *from, size_t i, size_t size) {
        return from[i] == '{' && i + 1 < size && strchr("0123456789,", from[i + 1]);
}

/* The next part of Go's expression as regcomp() takes it. Return: bytes read; 0 = not known here. */
static size_t copy_part(Text *to, const char *from, size_t i, size_t size) {
        if (!from[i] || is_count(from, i, size))
                return 0;
        if (from[i] == '[')
                return copy_class(to, from + i, size - i);
        if (from[i] == '(' && size - i >= 3 && from[i + 1] == '?' && from[i + 2] == ':') {
                text_append(to, "(", 1);
                return 3;
        }
        if (from[i] == '(' && i + 1 < size && from[i + 1] == '?')
                return 0;
        if (from[i] == '\\' && (i + 1 >= size || !is_known_escape(from[i + 1])))
                return 0;
        if (is_lazy(from, i))
                return 1;
        if (from[i] == '{')
                text_append(to, "\\", 1);
        text_append(to, from + i, from[i] == '\\' ? 2 : 1);
        return from[i] == '\\' ? 2 : 1;
}

static bool translate(const char *from, size_t size, Text *to) {
        int depth = 0;

        if (size > MAX_EXPRESSION)
                return false;
        text_append(to, "^(", 2);
        for (size_t i = 0; i < size;) {
                size_t n = copy_part(to, from, i, size);

                depth += from[i] == '(' ? 1 : from[i] == ')' ? -1 : 0;
                if (!n || depth < 0 || depth > MAX_DEPTH)
                        return false;
                i += n;
        }
        text_append(to, ")$", 2);
        return true;
}

static void forget_compiled(Expression *expression) {
        if (expression->is_compiled)
                regfree(&expression->compiled);
        expression->is_compiled = false;
        expression->n_seen = 0;
}

/* Return: 0, PRUNE_E_UNKNOWN, -ENOMEM. */
static int compile(Expression *expression) {
        int r;

        forget_compiled(expression);
        r = regcomp(&expression->compiled, expression->text.data, REG_EXTENDED | REG_NOSUB);
        expression->is_compiled = !r;
        return !r ? 0 : r == REG_ESPACE ? error_origin(-ENOMEM) : PRUNE_E_UNKNOWN;
}

static int set_expression(Expression *expression, const char *from, size_t size) {
        if (!size)
                return 0;
        if (!translate(from, size, &expression->text))
                return PRUNE_E_UNKNOWN;
        return expression->text.failed ? error_origin(-ENOMEM) : compile(expression);
}

int prune_new(Prune **prunep, const char *drop, size_t drop_size, const char *keep, size_t keep_size) {
        _cleanup_(prune_freep) Prune *prune = calloc(1, sizeof(*prune));
        int r;

        if (!prune)
                return error_origin(-ENOMEM);
        r = set_expression(&prune->drop, drop, drop_size);
        r = r ? r : set_expression(&prune->keep, keep, keep_size);
        if (!r)
                *prunep = take(prune);
        return r;
}

Prune *prune_free(Prune *prune) {
        if (!prune)
                return NULL;
        forget_compiled(&prune->drop);
        forget_compiled(&prune->keep);
        text_deinit(&prune->drop.text);
        text_deinit(&prune->keep.text);
        free(prune);
        return NULL;
}

/* Return: 1, 0, -ENOMEM. */
static int matches(Expression *expression, const char *name, size_t size) {
        int r;

        if (!expression->text.size)
                return 0;
        if (expression->n_seen + size > MAX_NAMES) {
                r = compile(expression);
                if (r)
                        return MIN(r, 0);
        }
        expression->n_seen += size;
        r = regexec(&expression->compiled, name, 0, NULL, 0);
        return r == REG_ESPACE ? error_origin(-ENOMEM) : !r;
}

/* Length of a name without its arguments; what is in parentheses and part of a name stays. */
static size_t plain_size(const char *name, size_t size) {
        static const char *const reserved[] = { "(anonymous namespace)", "operator()" };

        for (size_t i = 0, n; i < size; i += n) {
                n = 1;
                for (size_t k = 0; k < ARRAY_SIZE(reserved); k++)
                        if (!strncmp(name + i, reserved[k], strlen(reserved[k])))
                                n = strlen(reserved[k]);
                if (n == 1 && name[i] == '(')
                        return i;
        }
        return size;
}

int prune_matches(Prune *prune, const char *name, size_t size) {
        _cleanup_(freep) char *copy = NULL;
        int r;

        if (size && name[0] == '.')     /* as PowerPC has them */
                name++, size--;
        if (size > MAX_NAMES)
                return 0;
        copy = strndup(name, size);
        if (!copy)
                return error_origin(-ENOMEM);
        size = plain_size(copy, strlen(copy));
        copy[size] = 0;
        r = matches(&prune->drop, copy, size);
        if (r <= 0)
                return r;
        r = matches(&prune->keep, copy, size);
        return r < 0 ? r : !r;
}
