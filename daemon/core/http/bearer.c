/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Splits a text into tokens, and compares each of them with the one in a header, all of its bytes whatever
 * the first difference is.
 */

#include "core/http/bearer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"

static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";

int bearer_parse(Bearer *bearer, const char *text) {
        char *rest = NULL;
        Bearer new = { .text = strdup(text) };
        int r = 0;

        if (!new.text)
                return error_origin(-ENOMEM);
        for (char *line = strtok_r(new.text, "\r\n", &rest); line && !r; line = strtok_r(NULL, "\r\n", &rest))
                if (line[strspn(line, characters)])
                        r = BEARER_E_CHARACTER;
                else if (new.n == BEARER_MAX_TOKENS)
                        r = BEARER_E_MANY;
                else
                        new.tokens[new.n++] = line;
        if (!r && !new.n)
                r = BEARER_E_NONE;
        if (r)
                bearer_deinit(&new);
        else
                *bearer = new;
        return r;
}

void bearer_deinit(Bearer *bearer) {
        if (bearer->text)
                explicit_bzero(bearer->text, strlen(bearer->text));
        free(bearer->text);
        *bearer = (Bearer){ 0 };
}

static const char *describe(int r) {
        switch (r) {
        case BEARER_E_NONE:
                return "no token in it: write one on each line";
        case BEARER_E_MANY:
                return "more than 16 tokens";
        default:
                return "a line with other characters than letters, digits and -._~+/=";
        }
}

int bearer_read(Bearer *bearer, const char *name, const char *path) {
        _cleanup_(freep) char *text = NULL;
        size_t size = 0;
        int r = file_read_regular(path, BEARER_MAX_TEXT, &text, &size);

        if (r) {
                log_error("%s: %s: %s", name, path,
                          r == FILE_E_KIND              ? "not a regular file"
                                  : r == FILE_E_TOO_LARGE ? "too large for tokens"
                                                          : strerror(r < 0 ? -r : errno));
                return BEARER_E_FILE;
        }
        r = strlen(text) == size ? bearer_parse(bearer, text) : BEARER_E_CHARACTER;
        explicit_bzero(text, size);
        if (r > 0)
                log_error("%s: %s: %s", name, path, describe(r));
        return r > 0 ? BEARER_E_FILE : r;
}

static bool is_same(const char *token, const char *given, size_t n_given) {
        size_t n = strlen(token);
        unsigned char differ = n != n_given;

        for (size_t i = 0; i < n_given; i++)
                differ |= (unsigned char)(given[i] ^ token[i % n]);
        return !differ;
}

bool bearer_accepts(const Bearer *bearer, const char *authorization) {
        static const char scheme[] = "Bearer ";
        bool is_one = false;
        size_t n;

        if (strncasecmp(authorization, scheme, sizeof(scheme) - 1))
                return false;
        authorization += sizeof(scheme) - 1;
        authorization += strspn(authorization, " ");
        n = strcspn(authorization, " \t");
        for (size_t i = 0; i < bearer->n; i++)
                is_one |= is_same(bearer->tokens[i], authorization, n);
        return is_one && !authorization[n + strspn(authorization + n, " \t")];
}
