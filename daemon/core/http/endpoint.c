/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks a URL or a socket's path part by part, and splits headers at commas and decodes their percent
 * signs.
 */

#include "core/http/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "core/base/util/error.h"

enum { HEADERS_MAX = 64 };

typedef struct Span {
        const char *at;
        size_t size;
} Span;

_printf_(3, 4) static int invalid(char *why, size_t why_size, const char *format, ...) {
        va_list args;

        va_start(args, format);
        vsnprintf(why, why_size, format, args);
        va_end(args);
        return ENDPOINT_E_INVALID;
}

/* The end of the authority: host, with user and port. */
static const char *authority(const char *url, const char **endp) {
        const char *host = strstr(url, "://");

        host = host ? host + 3 : url;
        *endp = host + strcspn(host, "/?#");
        return host;
}

static int check_port(const char *port, const char *end) {
        uint64_t value = 0;
        char digits[8];
        size_t n = (size_t)(end - port);

        if (n == 0 || n >= sizeof(digits))
                return 1;
        memcpy(digits, port, n);
        digits[n] = 0;
        return text_u64(digits, 65535, &value) || value == 0;
}

/*
 * @text begins with a bracket. *afterp: what follows the other one. Return: 0, 1 = it has none, 2 = no
 * address.
 */
static int check_bracketed(const char *text, const char *end, const char **afterp) {
        const char *close = memchr(text, ']', (size_t)(end - text));
        char address[INET6_ADDRSTRLEN];
        struct in6_addr parsed;
        size_t n;

        if (!close)
                return 1;
        *afterp = close + 1;
        n = strcspn(text + 1, "]%");            /* a zone may follow */
        if (n >= sizeof(address))
                return 2;
        memcpy(address, text + 1, n);
        address[n] = 0;
        return inet_pton(AF_INET6, address, &parsed) == 1 ? 0 : 2;
}

/* SOCKET or SOCKET:PATH */
static int check_socket(const char *text, char *why, size_t why_size) {
        size_t n = strcspn(text, ":");

        if (*text != '/' || n >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
                return invalid(why, why_size,
                               "the endpoint's socket must be a path from / with less than 108 bytes");
        if (text[n] && text[n + 1] != '/')
                return invalid(why, why_size,
                               "the endpoint's path behind the socket must begin with a slash");
        return 0;
}

int endpoint_check_url(const char *url, char *why, size_t why_size) {
        const char *host, *end, *at, *port;
        int r = 0;

        for (const char *p = url; *p; p++)
                if ((unsigned char)*p <= ' ' || *p == 0x7F)
                        return invalid(why, why_size, "the endpoint has a blank or control character in it");
        if (!strncmp(url, "unix:", 5))
                return check_socket(url + 5, why, why_size);
        if (strncasecmp(url, "http://", 7) && strncasecmp(url, "https://", 8))
                return invalid(why, why_size,
                               "the endpoint must be a URL that starts with http:// or https://");
        host = authority(url, &end);
        at = memrchr(host, '@', (size_t)(end - host));
        if (at)
                host = at + 1;
        port = host + strcspn(host, ":/?#");
        if (*host == '[')
                r = check_bracketed(host, end, &port);
        if (r == 1)
                return invalid(why, why_size, "the endpoint's IPv6 address has no closing bracket");
        if (r || (port < end && *port != ':'))
                return invalid(why, why_size, "the endpoint's host in brackets is no IPv6 address");
        if (host == end || host == port)
                return invalid(why, why_size, "the endpoint names no host");
        if (port < end && check_port(port + 1, end))
                return invalid(why, why_size, "the endpoint's port is no number from 1 to 65535");
        return 0;
}

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

/*
 * Parses a member `name=value;properties` → `name: value`. Values may be secrets: the message names the name
 * alone.
 */
static int parse_member(Span member, char **headerp, char *why, size_t why_size) {
        const char *end = member.at + member.size;
        const char *equals = memchr(member.at, '=', member.size);
        const char *semicolon = memchr(member.at, ';', member.size);
        _cleanup_(text_deinit) Text text = { 0 };
        Span name, value;

        if (!equals || (semicolon && semicolon < equals))
                return invalid(why, why_size, "headers are not in the form name=value,name2=value2");
        name = trim(member.at, equals);
        value = trim(equals + 1, semicolon ? semicolon : end);
        if (!is_token(name))
                return invalid(why, why_size, "a header has a name that HTTP does not allow");
        if (is_ours(name))
                return invalid(why, why_size, "header \"%.*s\" is set by spanprof itself",
                               (int)MIN(name.size, 40u), name.at);
        text_printf(&text, "%.*s: ", (int)name.size, name.at);
        if (decode_value(&text, value))
                return invalid(why, why_size,
                               "header \"%.*s\" has a bad %%XX or a control character in its value",
                               (int)MIN(name.size, 40u), name.at);
        if (text.failed)
                return error_origin(-ENOMEM);
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
                if (n == HEADERS_MAX)
                        return invalid(why, why_size, "more than %d headers", HEADERS_MAX);
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

void endpoint_append_shown(Text *text, const char *url) {
        const char *end, *host = authority(url, &end), *at;

        text_append(text, url, (size_t)(host - url));
        at = memrchr(host, '@', (size_t)(end - host));
        if (at)
                host = at + 1;
        text_append(text, host, (size_t)(end - host) + strcspn(end, "?#"));
}
