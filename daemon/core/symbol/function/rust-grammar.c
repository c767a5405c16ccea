/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each rule of the grammar has a function, and all share a cursor. A part may be a reference (`B`) to an
 * earlier place, whatever is there, even the middle of an identifier: the place is walked once for each rule
 * that it is referred to by.
 *
 *     _R Nv C 3foo 3bar        foo::bar: N, its namespace v, a path (crate foo), an identifier
 *     _R I Nv C3foo 3bar h E   foo::bar::<u8>
 */
#include "core/symbol/function/rust-grammar.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef enum Rule { RULE_PATH, RULE_TYPE, RULE_CONST } Rule;

typedef struct Walk {
        const char *name;
        size_t size, at;
        unsigned depth;
        bool failed;
        uint8_t seen[RUST_MAX_NAME];    /* a bit for each rule that was walked from there by reference */
} Walk;

static void walk_rule(Walk *walk, Rule rule);

static char peek(const Walk *walk) {
        return walk->at < walk->size && !walk->failed ? walk->name[walk->at] : 0;
}

static char next(Walk *walk) {
        char c = peek(walk);

        if (c)
                walk->at++;
        else
                walk->failed = true;
        return c;
}

static bool eat(Walk *walk, char c) {
        if (peek(walk) != c)
                return false;
        walk->at++;
        return true;
}

static int digit_of(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'Z' ? c - 'A' + 36 : -1;
}

/* `_` is 0, `0_` is 1, `10_` is 63 … */
static uint64_t base62(Walk *walk) {
        uint64_t value = 0;

        if (eat(walk, '_'))
                return 0;
        while (!eat(walk, '_')) {
                int digit = digit_of(next(walk));

                if (digit < 0 || __builtin_mul_overflow(value, 62u, &value) ||
                    __builtin_add_overflow(value, (uint64_t)digit, &value))
                        walk->failed = true;
                if (walk->failed)
                        return 0;
        }
        return value + 1;
}

static uint64_t optional_base62(Walk *walk, char mark) {
        return eat(walk, mark) ? base62(walk) + 1 : 0;
}

static void plain_identifier(Walk *walk) {
        uint64_t n = 0;

        eat(walk, 'u');
        if (peek(walk) < '0' || peek(walk) > '9') {
                walk->failed = true;
                return;
        }
        if (!eat(walk, '0'))
                while (peek(walk) >= '0' && peek(walk) <= '9' && n <= walk->size)
                        n = n * 10 + (uint64_t)(next(walk) - '0');
        eat(walk, '_');
        if (n > walk->size - walk->at)
                walk->failed = true;
        else
                walk->at += n;
}

static void identifier(Walk *walk) {
        optional_base62(walk, 's');
        plain_identifier(walk);
}

/* The place is behind us, so that what is walked there ends before it comes here again. */
static void reference(Walk *walk, Rule rule) {
        size_t mark = walk->at - 1, back;
        uint64_t target = base62(walk);

        if (walk->failed || target >= mark) {
                walk->failed = true;
                return;
        }
        if (walk->seen[target] & 1u << rule)
                return;
        walk->seen[target] |= (uint8_t)(1u << rule);
        back = walk->at;
        walk->at = target;
        walk_rule(walk, rule);
        walk->at = back;
}

static void lifetimes(Walk *walk) {
        if (optional_base62(walk, 'G') > RUST_MAX_LIFETIMES)
                walk->failed = true;
}

static void generic_argument(Walk *walk) {
        if (eat(walk, 'L'))
                base62(walk);
        else
                walk_rule(walk, eat(walk, 'K') ? RULE_CONST : RULE_TYPE);
}

static void impl_path(Walk *walk) {
        optional_base62(walk, 's');
        walk_rule(walk, RULE_PATH);
}

static void path(Walk *walk) {
        switch (next(walk)) {
        case 'C':
                identifier(walk);
                break;
        case 'N':
                next(walk);
                walk_rule(walk, RULE_PATH);
                identifier(walk);
                break;
        case 'M':
                impl_path(walk);
                walk_rule(walk, RULE_TYPE);
                break;
        case 'X':
                impl_path(walk);
                walk_rule(walk, RULE_TYPE);
                walk_rule(walk, RULE_PATH);
                break;
        case 'Y':
                walk_rule(walk, RULE_TYPE);
                walk_rule(walk, RULE_PATH);
                break;
        case 'I':
                walk_rule(walk, RULE_PATH);
                while (!walk->failed && !eat(walk, 'E'))
                        generic_argument(walk);
                break;
        case 'B':
                reference(walk, RULE_PATH);
                break;
        default:
                walk->failed = true;
        }
}

static void function(Walk *walk) {
        lifetimes(walk);
        eat(walk, 'U');
        if (eat(walk, 'K') && !eat(walk, 'C'))
                plain_identifier(walk);
        while (!walk->failed && !eat(walk, 'E'))
                walk_rule(walk, RULE_TYPE);
        walk_rule(walk, RULE_TYPE);
}

static void trait_object(Walk *walk) {
        lifetimes(walk);
        while (!walk->failed && !eat(walk, 'E')) {
                walk_rule(walk, RULE_PATH);
                while (eat(walk, 'p')) {
                        plain_identifier(walk);
                        walk_rule(walk, RULE_TYPE);
                }
        }
        if (!eat(walk, 'L'))
                walk->failed = true;
        base62(walk);
}

static void type(Walk *walk) {
        char c = next(walk);

        if (strchr("abcdefhijlmnopstuvxyz", c) || walk->failed)
                return;
        switch (c) {
        case 'R':
        case 'Q':
                if (eat(walk, 'L'))
                        base62(walk);
                walk_rule(walk, RULE_TYPE);
                break;
        case 'P':
        case 'O':
        case 'S':
                walk_rule(walk, RULE_TYPE);
                break;
        case 'A':
                walk_rule(walk, RULE_TYPE);
                walk_rule(walk, RULE_CONST);
                break;
        case 'T':
                while (!walk->failed && !eat(walk, 'E'))
                        walk_rule(walk, RULE_TYPE);
                break;
        case 'F':
                function(walk);
                break;
        case 'D':
                trait_object(walk);
                break;
        case 'B':
                reference(walk, RULE_TYPE);
                break;
        default:
                walk->at--;
                walk_rule(walk, RULE_PATH);
        }
}

/* A type of integers, bool or char, and its value in hexadecimal digits. */
static void constant(Walk *walk) {
        char c = next(walk);

        if (c == 'B') {
                reference(walk, RULE_CONST);
                return;
        }
        if (c == 'p' || walk->failed)
                return;
        if (!strchr("hmtyojaxslnibc", c))
                walk->failed = true;
        eat(walk, 'n');
        while (!walk->failed && !eat(walk, '_'))
                if (!strchr("0123456789abcdef", next(walk)))
                        walk->failed = true;
}

static void walk_rule(Walk *walk, Rule rule) {
        if (walk->failed || walk->depth == RUST_MAX_DEPTH) {
                walk->failed = true;
                return;
        }
        walk->depth++;
        if (rule == RULE_PATH)
                path(walk);
        else if (rule == RULE_TYPE)
                type(walk);
        else
                constant(walk);
        walk->depth--;
}

bool rust_name_is_sound(const char *name) {
        Walk walk = { .name = name, .size = strcspn(name, ".") };

        if (walk.size >= RUST_MAX_NAME)
                return false;
        walk_rule(&walk, RULE_PATH);
        if (!walk.failed && walk.at < walk.size)
                walk_rule(&walk, RULE_PATH);    /* the crate that has instantiated it */
        return !walk.failed && walk.at == walk.size;
}
