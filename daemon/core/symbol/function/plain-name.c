/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Goes through a name once. At each place the first rule that knows what stands there says how much of it is
 * kept and how much is passed over; without a rule a character is kept.
 */
#include "core/symbol/function/plain-name.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/util/macro.h"

/* Bytes from a place on: so many kept, then so many passed over; both 0 = the rule does not know them. */
typedef struct Piece {
        size_t kept, dropped;
} Piece;

static bool is_word(char c) {
        return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static bool begins(const char *at, const char *word) {
        return !strncmp(at, word, strlen(word));
}

static bool ends(const char *name, const char *at, const char *word) {
        size_t n = strlen(word);

        return (size_t)(at - name) >= n && !memcmp(at - n, word, n);
}

static size_t count_digits(const char *at) {
        return strspn(at, "0123456789");
}

static size_t count_hex(const char *at) {
        return strspn(at, "0123456789abcdef");
}

/* `operator<<` and the like, whose brackets open and close nothing. */
static Piece take_operator(const char *name, const char *at) {
        static const char word[] = "operator";
        static const char *const signs[] = { "<=>", "<<=", ">>=", "->*", "<<", ">>",
                                             "<=",  ">=",  "->",  "<",   ">" };
        const size_t n = sizeof(word) - 1;

        if (!begins(at, word) || (at > name && is_word(at[-1])))
                return (Piece){ 0 };
        for (size_t i = 0; i < ARRAY_SIZE(signs); i++)
                if (begins(at + n, signs[i]))
                        return (Piece){ n + strlen(signs[i]), 0 };
        return (Piece){ 0 };
}

/* Bytes up to the bracket that closes the one at @at; 0 = there is none. */
static size_t bracketed(const char *at) {
        int depth = 0, round = 0;

        for (const char *c = at; *c; c++) {
                round += (*c == '(') - (*c == ')');
                if (round || (*c == '>' && c[-1] == '-'))       /* a comparison, or an arrow */
                        continue;
                depth += (*c == '<') - (*c == '>');
                if (!depth)
                        return (size_t)(c - at) + 1;
        }
        return 0;
}

/* `<int>` behind a name, `::<u32>` of Rust. `Foo.<init>`, `<T as Trait>::f` and `<lambda(int)>` are names. */
static Piece take_arguments(const char *name, const char *at) {
        bool is_rust = begins(at, "::<");
        const char *open = is_rust ? at + 2 : at;
        size_t n;

        if (*open != '<' || at == name || begins(open, "<impl ") || begins(open, "<lambda"))
                return (Piece){ 0 };
        if (!is_rust && !is_word(at[-1]) && !strchr(")]}> ", at[-1]))
                return (Piece){ 0 };
        /* ` <int>` is of an operator, ` <T as …` stands in a list */
        if (at[-1] == ' ' && !ends(name, at, "< ") && !ends(name, at, "> ") && !ends(name, at, "= "))
                return (Piece){ 0 };
        n = bracketed(open);
        return n ? (Piece){ 0, (size_t)(open - at) + n } : (Piece){ 0 };
}

/* `{lambda(int)#2}`, `{closure#0}`, `'lambda1'`, `$_3`, `lambda$main$4`. */
static Piece take_number(const char *name, const char *at) {
        size_t n = *at == '#' ? count_digits(at + 1) : 0, word;

        if (n && at[1 + n] == '}')
                return (Piece){ 0, 1 + n };
        if (begins(at, "'lambda") && (n = count_digits(at + 7)) && at[7 + n] == '\'')
                return (Piece){ 7, n };
        if (begins(at, "$_") && (n = count_digits(at + 2)) && !is_word(at[2 + n]))
                return (Piece){ 2, n };
        if (!begins(at, "lambda$") || (at > name && is_word(at[-1])))
                return (Piece){ 0 };
        word = strcspn(at + 7, "$");
        n = at[7 + word] ? count_digits(at + 8 + word) : 0;
        return n && !is_word(at[8 + word + n]) ? (Piece){ 8 + word, n } : (Piece){ 0 };
}

/* `$$Lambda$14+0x0000000800c03000`, `$$Lambda/1234567`: what recordings of others have. */
static Piece take_class(const char *at) {
        static const char word[] = "$$Lambda";
        const size_t kept = sizeof(word) - 1;
        size_t n = 0, digits;

        if (!begins(at, word))
                return (Piece){ 0 };
        at += kept;
        if (*at == '$')
                n = 1 + count_digits(at + 1);
        if (at[n] && strchr("+/.", at[n]) && begins(at + n + 1, "0x"))
                n += 3 + count_hex(at + n + 3);
        else if ((at[n] == '/' || at[n] == '+') && (digits = count_digits(at + n + 1)))
                n += 1 + digits;
        return (Piece){ kept, n };
}

/* `::h0123456789abcdef` of a function, `[0123456789abcdef]` of a crate. */
static Piece take_hash(const char *at) {
        size_t n;

        if (begins(at, "::h") && count_hex(at + 3) == 16 && !is_word(at[19]))
                return (Piece){ 0, 19 };
        n = *at == '[' ? count_hex(at + 1) : 0;
        return n >= 8 && n <= 16 && at[1 + n] == ']' ? (Piece){ 0, n + 2 } : (Piece){ 0 };
}

static Piece take_piece(const char *name, const char *at) {
        Piece piece = take_operator(name, at);

        if (!piece.kept)
                piece = take_arguments(name, at);
        if (!piece.kept && !piece.dropped)
                piece = take_number(name, at);
        if (!piece.kept && !piece.dropped)
                piece = take_class(at);
        if (!piece.kept && !piece.dropped)
                piece = take_hash(at);
        return piece.kept || piece.dropped ? piece : (Piece){ 1, 0 };
}

void plain_name_append(Text *text, const char *name) {
        for (const char *at = name; *at;) {
                Piece piece = take_piece(name, at);

                text_append(text, at, piece.kept);
                at += piece.kept + piece.dropped;
        }
}
