/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Short Name
 *
 * Names of functions that are longer than their column. What differs between two of them stands inside or at
 * the end as a rule, so an end that is cut off makes them alike.
 */

#include <stdbool.h>
#include <stddef.h>

/*
 * Shortens @name to at most @width characters of UTF-8. *shortp is malloc()ed. Return: 0, -ENOMEM.
 */
int short_name(const char *name, size_t width, char **shortp);

/*
 * Shortens @n names that stand below each other: those that would become alike show their arguments. @shorts:
 * all NULL; each is malloc()ed, also on failure where it is not NULL. Return: 0, -ENOMEM.
 */
int short_names(const char *const *names, size_t n, size_t width, char **shorts);

/* Whether a character of UTF-8 begins with this byte. */
static inline bool text_is_first_byte(char c) {
        return ((unsigned char)c & 0xc0) != 0x80;
}

/* Characters of UTF-8 text (all taken as one column wide). */
size_t text_columns(const char *text);
