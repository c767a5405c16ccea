/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bearer
 *
 * Tokens that a server takes (RFC 6750), from a text with one on each line: several, so that senders can go
 * from an old one to a new one in their own time. How long a comparison takes says nothing of a token but
 * its length.
 */

#include <stdbool.h>
#include <stddef.h>

#include "core/base/util/macro.h"

enum {
        BEARER_MAX_TOKENS = 16,
        BEARER_MAX_TEXT = 16 << 10,     /* bytes of the text */
};

enum {
        _BEARER_E_SUCCESS,
        BEARER_E_NONE,                  /* the text holds no token */
        BEARER_E_MANY,                  /* more than BEARER_MAX_TOKENS */
        BEARER_E_CHARACTER,             /* a line has something else than letters, digits and -._~+/= */
        BEARER_E_FILE,                  /* no such file, or not one of tokens; a message was logged */
};

typedef struct Bearer {
        char *text;                     /* lines, each ended by NUL */
        const char *tokens[BEARER_MAX_TOKENS];
        size_t n;
} Bearer;

/* Empty lines do not count. Return: 0, BEARER_E_*, -ENOMEM. */
int bearer_parse(Bearer *bearer, const char *text);
void bearer_deinit(Bearer *bearer);

/* The same of a file, which the option @name has. Return: 0, BEARER_E_FILE, -ENOMEM. */
int bearer_read(Bearer *bearer, const char *name, const char *path);

/* Whether @authorization, the header of that name, has one of the tokens. */
bool bearer_accepts(const Bearer *bearer, const char *authorization);
