/* SPDX-License-Identifier: Apache-2.0 */
#include "export/endpoint.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "util/clock.h"
#include "util/error.h"
#include "util/text.h"

enum {
        DEFAULT_TIMEOUT_MS = 10000,     /* the OTLP exporter specification's */
        MAX_TIMEOUT_MS = 600000,
};

typedef struct Reader {
        EndpointGetenv get;
        void *userdata;
        char name[64];                  /* of the variable found last */
        char *why;
        size_t why_size;
} Reader;

/* The value of OTEL_EXPORTER_OTLP_PROFILES_X, else of OTEL_EXPORTER_OTLP_X, else NULL. */
static const char *lookup(Reader *reader, const char *suffix) {
        static const char *const prefixes[] = { "OTEL_EXPORTER_OTLP_PROFILES_", "OTEL_EXPORTER_OTLP_" };

        for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
                const char *value;

                snprintf(reader->name, sizeof(reader->name), "%s%s", prefixes[i], suffix);
                value = reader->get(reader->name, reader->userdata);
                if (value && *value)
                        return value;
        }
        return NULL;
}

_printf_(3, 4) static int invalid(char *why, size_t why_size, const char *format, ...) {
        va_list args;

        va_start(args, format);
        vsnprintf(why, why_size, format, args);
        va_end(args);
        return ENDPOINT_E_INVALID;
}

static int copy(const char *value, char **top) {
        if (!value)
                return 0;
        *top = strdup(value);
        return *top ? 0 : error_origin(-ENOMEM);
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

int endpoint_check_url(const char *url, char *why, size_t why_size) {
        const char *host, *end, *at, *port;

        for (const char *p = url; *p; p++)
                if ((unsigned char)*p <= ' ' || *p == 0x7F)
                        return invalid(why, why_size, "the endpoint has a blank or control character in it");
        if (strncasecmp(url, "http://", 7) && strncasecmp(url, "https://", 8))
                return invalid(why, why_size, "the endpoint must be a URL that starts with http:// or https://");
        host = authority(url, &end);
        at = memrchr(host, '@', (size_t)(end - host));
        if (at)
                host = at + 1;
        port = *host == '[' ? memchr(host, ']', (size_t)(end - host)) : host;
        if (!port)
                return invalid(why, why_size, "the endpoint's IPv6 address has no closing bracket");
        port = memchr(port, ':', (size_t)(end - port));
        if (host == end || host == port)
                return invalid(why, why_size, "the endpoint names no host");
        if (port && check_port(port + 1, end))
                return invalid(why, why_size, "the endpoint's port is no number from 1 to 65535");
        return 0;
}

/* The base, without slashes at its end, and the signal's path; a query stays behind the path. */
static int append_path(const char *base, char **urlp) {
        size_t path = strcspn(base, "?#"), end = path;

        while (end && base[end - 1] == '/')
                end--;
        if (asprintf(urlp, "%.*s" ENDPOINT_PATH "%s", (int)end, base, base + path) < 0) {
                *urlp = NULL;
                return error_origin(-ENOMEM);
        }
        return 0;
}

static int read_url(Endpoint *endpoint, Reader *reader) {
        const char *value = lookup(reader, "ENDPOINT");
        char why[128];
        int r;

        if (value && endpoint_check_url(value, why, sizeof(why)))
                return invalid(reader->why, reader->why_size, "%s: %s", reader->name, why);
        if (value && strstr(reader->name, "PROFILES"))
                r = copy(value, &endpoint->url);
        else
                r = append_path(value ? value : ENDPOINT_DEFAULT_BASE, &endpoint->url);
        return r;
}

static int read_protocol(Reader *reader) {
        const char *value = lookup(reader, "PROTOCOL");

        if (!value || !strcmp(value, "http/protobuf"))
                return 0;
        if (!strcmp(value, "grpc"))
                return invalid(reader->why, reader->why_size,
                               "%s=grpc: spanprof does not speak gRPC; set it to http/protobuf and the endpoint "
                               "to the receiver's HTTP port, usually 4318", reader->name);
        if (!strcmp(value, "http/json"))
                return invalid(reader->why, reader->why_size,
                               "%s=http/json: not supported, use http/protobuf (the same port takes both)",
                               reader->name);
        return invalid(reader->why, reader->why_size, "%s: unknown protocol \"%s\", use http/protobuf",
                       reader->name, value);
}

static int read_compression(Endpoint *endpoint, Reader *reader) {
        const char *value = lookup(reader, "COMPRESSION");

        endpoint->gzip = !value || strcmp(value, "none");
        if (value && endpoint->gzip && strcmp(value, "gzip"))
                return invalid(reader->why, reader->why_size, "%s: \"%s\" is neither gzip nor none", reader->name,
                               value);
        return 0;
}

static int read_timeout(Endpoint *endpoint, Reader *reader) {
        const char *value = lookup(reader, "TIMEOUT");
        uint64_t ms = DEFAULT_TIMEOUT_MS;

        if (value && (text_u64(value, MAX_TIMEOUT_MS, &ms) || ms == 0))
                return invalid(reader->why, reader->why_size,
                               "%s: \"%s\" is no number of milliseconds from 1 to %d", reader->name, value,
                               MAX_TIMEOUT_MS);
        endpoint->timeout_ns = ms * NS_PER_MS;
        return 0;
}

static int read_headers(Endpoint *endpoint, Reader *reader) {
        const char *value = lookup(reader, "HEADERS");
        char **headers = NULL;
        char why[128];
        int r;

        if (!value)
                return 0;
        r = endpoint_parse_headers(value, &headers, why, sizeof(why));
        endpoint_headers_free(headers);
        if (r == ENDPOINT_E_INVALID)
                return invalid(reader->why, reader->why_size, "%s: %s", reader->name, why);
        return r ? r : copy(value, &endpoint->headers);
}

static int read_all(Endpoint *endpoint, Reader *reader) {
        int r;

        if ((r = read_protocol(reader)) || (r = read_url(endpoint, reader)) ||
            (r = read_compression(endpoint, reader)) || (r = read_timeout(endpoint, reader)) ||
            (r = read_headers(endpoint, reader)))
                return r;
        if ((r = copy(lookup(reader, "CERTIFICATE"), &endpoint->certificate)) ||
            (r = copy(lookup(reader, "CLIENT_CERTIFICATE"), &endpoint->client_certificate)) ||
            (r = copy(lookup(reader, "CLIENT_KEY"), &endpoint->client_key)))
                return r;
        if (!endpoint->client_certificate != !endpoint->client_key)
                return invalid(reader->why, reader->why_size,
                               "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY go together, one is missing");
        return 0;
}

int endpoint_from_environment(Endpoint *endpoint, EndpointGetenv get, void *userdata, char *why,
                              size_t why_size) {
        Reader reader = { .get = get, .userdata = userdata, .why = why, .why_size = why_size };
        Endpoint found = { 0 };
        int r = read_all(&found, &reader);

        if (r) {
                endpoint_deinit(&found);
                return r;
        }
        *endpoint = found;
        return 0;
}

void endpoint_deinit(Endpoint *endpoint) {
        free(endpoint->url);
        free(endpoint->headers);
        free(endpoint->certificate);
        free(endpoint->client_certificate);
        free(endpoint->client_key);
        *endpoint = (Endpoint){ 0 };
}
