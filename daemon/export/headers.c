/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "export/endpoint.h"
#include "util/error.h"
#include "util/text.h"

enum { HEADERS_MAX = 64 };

typedef struct Span {
        const char *at;
        size_t size;
} Span;

static Span trim(const char *from, const char *to) {
        while (from < to && (*from == ' ' || *from == '\t'))
                from++;
        while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
                to--;
        return (Span){ from, (size_t)(to - from) };
}

/* token of RFC 9110, 5.6.2 */
static bool is_token(Span span) {
        for (size_t i = 0; i < span.size; i++) {
                unsigned char c = (unsigned char)span.at[i];

                if (c <= ' ' || c >= 0x7F || strchr("\"(),/:;<=>?@[\\]{}", c))
                        return false;
        }
        return span.size > 0;
}

/* Set by the request itself: a second one would make it a different request. */
static bool is_ours(Span name) {
        static const char *const ours[] = { "content-type", "content-encoding", "content-length",
                                            "transfer-encoding", "connection", "expect", "host" };

        for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
                if (strlen(ours[i]) == name.size && !strncasecmp(ours[i], name.at, name.size))
                        return true;
        return false;
}

/* Appends @value with %XX decoded. Return: 1 = a bad escape or a byte that no header may hold. */
static int decode_value(Text *text, Span value) {
        for (size_t i = 0; i < value.size; i++) {
                char c = value.at[i];
                uint64_t byte;

                if (c == '%') {
                        if (i + 2 >= value.size || text_hex(value.at + i + 1, value.at + i + 3, &byte))
                                return 1;
                        c = (char)byte;
                        i += 2;
                }
                if (((unsigned char)c < ' ' && c != '\t') || c == 0x7F)
                        return 1;
                text_append(text, &c, 1);
        }
        return 0;
}

/* One `name=value;properties` → `name: value`. Values may be secrets: the message names the name alone. */
static int parse_member(Span member, char **headerp, char *why, size_t why_size) {
        const char *end = member.at + member.size;
        const char *equals = memchr(member.at, '=', member.size);
        const char *semicolon = memchr(member.at, ';', member.size);
        Text text = { 0 };
        Span name, value;

        if (!equals || (semicolon && semicolon < equals)) {
                snprintf(why, why_size, "headers are not in the form name=value,name2=value2");
                return ENDPOINT_E_INVALID;
        }
        name = trim(member.at, equals);
        value = trim(equals + 1, semicolon ? semicolon : end);
        if (!is_token(name)) {
                snprintf(why, why_size, "a header has a name that HTTP does not allow");
                return ENDPOINT_E_INVALID;
        }
        if (is_ours(name)) {
                snprintf(why, why_size, "header \"%.*s\" is set by spanprof itself", (int)MIN(name.size, 40u), name.at);
                return ENDPOINT_E_INVALID;
        }
        text_printf(&text, "%.*s: ", (int)name.size, name.at);
        if (decode_value(&text, value)) {
                snprintf(why, why_size, "header \"%.*s\" has a bad %%XX or a control character in its value",
                         (int)MIN(name.size, 40u), name.at);
                text_deinit(&text);
                return ENDPOINT_E_INVALID;
        }
        if (text.failed) {
                text_deinit(&text);
                return error_origin(-ENOMEM);
        }
        /* libcurl's form for a header without a value; `name:` would remove it */
        if (!value.size) {
                text.data[name.size] = ';';
                text.data[name.size + 1] = 0;
        }
        *headerp = take(text.data);
        return 0;
}

static void headers_freep(char ***headers) {
        endpoint_headers_free(*headers);
}

int endpoint_parse_headers(const char *text, char ***headersp, char *why, size_t why_size) {
        _cleanup_(headers_freep) char **headers = calloc(HEADERS_MAX + 1, sizeof(*headers));
        size_t n = 0;

        if (!headers)
                return error_origin(-ENOMEM);
        while (*text) {
                size_t length = strcspn(text, ",");
                Span member = trim(text, text + length);
                int r;

                text += length + (text[length] == ',');
                if (!member.size)
                        continue;
                if (n == HEADERS_MAX) {
                        snprintf(why, why_size, "more than %d headers", HEADERS_MAX);
                        return ENDPOINT_E_INVALID;
                }
                r = parse_member(member, &headers[n], why, why_size);
                if (r)
                        return r;
                n++;
        }
        *headersp = take(headers);
        return 0;
}

char **endpoint_headers_free(char **headers) {
        for (char **p = headers; p && *p; p++)
                free(*p);
        free(headers);
        return NULL;
}
