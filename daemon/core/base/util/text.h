/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Text
 *
 * Numbers, UTF-8 and buffers of text. Strict: a number is the whole text or an error.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/util/macro.h"

/* Decimal, no sign, no blanks, at most @max. Return: 0, or 1 = no such number. */
int text_u64(const char *text, uint64_t max, uint64_t *valuep);

/* Hexadecimal digits of @text until @end (exclusive). Return: 0, or 1. */
int text_hex(const char *text, const char *end, uint64_t *valuep);

/* Lower-case hex of @size bytes, NUL-terminated; @to has 2 × @size + 1 bytes. */
void text_to_hex(char *to, const void *data, size_t size);

/*
 * Copies the part of a path behind its first slash, up to the next one, into @part of @room bytes; *@path
 * goes on behind it. Return: false = there is none, or it is empty or too long.
 */
bool text_take_part(const char **path, char *part, size_t room);

/* Whether @size bytes are valid UTF-8 without NUL. */
bool text_is_utf8(const char *text, size_t size);

/*
 * Copies with every bad byte (and NUL) as U+FFFD. JVMs write a character above U+FFFF as two surrogates of
 * three bytes each, and NUL as C0 80: these become that character, and one U+FFFD. @to has 3 × @size + 1
 * bytes.
 * Return: length of the result.
 */
size_t text_repair_utf8(char *to, const char *text, size_t size);

/*
 * The length of @text, cut between two characters if it is longer than @max bytes. Without a NUL it has at
 * least one byte more than @max. A text that is no UTF-8 may be cut to nothing.
 */
size_t text_cut_utf8(const char *text, size_t max);

/*
 * Untrusted text on its way to people: a terminal, a log, a page. What would drive or disguise there is
 * masked: controls, ends of lines, what turns the direction of writing or is not seen (text.c has the list),
 * and bytes that are no UTF-8. Files for programs get text as it is.
 *
 * Return: bytes of the character at @text, or 1 if there is none; *shownp: whether it may be shown. @size:
 * bytes that are there, at least 1; SIZE_MAX if a NUL ends them.
 */
size_t text_character(const char *text, size_t size, bool *shownp);

/* Masks by `?`, in place. */
void text_mask(char *text);

/* Prints @size bytes, masked by `?`. */
void text_print(const char *text, size_t size, FILE *out);

/* Prints several lines, of which each is masked but for its end. */
void text_print_lines(const char *text, FILE *out);

/* A growing buffer of text; after a failed allocation it stays as it is and `failed` is set. */
typedef struct Text {
        char *data;                     /* NUL-terminated, or NULL when empty */
        size_t size, room;
        bool failed;
} Text;

void text_deinit(Text *text);
void text_append(Text *text, const char *data, size_t size);
/* @value, masked by `?`. */
void text_append_masked(Text *text, const char *value);
/* @value for a page of HTML: masked by `?`, and never markup. */
void text_append_html(Text *text, const char *value);
/* @value as a part of a URI: what is no letter, digit or of @plain becomes %XX. */
void text_append_escaped(Text *text, const char *value, const char *plain);
/* A number of base 128, as cursor_varint() reads it. */
void text_append_varint(Text *text, uint64_t value);
_printf_(2, 3) void text_printf(Text *text, const char *format, ...);
