/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sorts a failure by its fault and status, and adds the hint that fits: version, proxy, port, protocol.
 * Another draft shows in an answer only: as no such path, or in the words of a reader of protobuf.
 */

#include "host/delivery/export/trouble.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/http/endpoint.h"

TroubleKind trouble_kind(const HttpReply *reply) {
        switch (reply->fault) {
        case HTTP_FAULT_NONE:
                break;
        case HTTP_FAULT_RESOLVE:
                return TROUBLE_RESOLVE;
        case HTTP_FAULT_CONNECT:
                return TROUBLE_CONNECT;
        case HTTP_FAULT_TIMEOUT:
                return TROUBLE_TIMEOUT;
        case HTTP_FAULT_CONNECTION:
                return TROUBLE_CONNECTION;
        case HTTP_FAULT_PROTOCOL:
                return TROUBLE_PROTOCOL;
        case HTTP_FAULT_TLS:
                return TROUBLE_TLS;
        case HTTP_FAULT_INTERNAL:
                return TROUBLE_INTERNAL;
        }
        if (reply->status == 429 || (reply->status >= 502 && reply->status <= 504))
                return TROUBLE_BUSY;
        return TROUBLE_REFUSED;
}

static bool has_port(const char *url, const char *port) {
        const char *host = strstr(url, "://"), *end;
        size_t n = strlen(port);

        host = host ? host + 3 : url;
        end = host + strcspn(host, "/?#");
        return (size_t)(end - host) > n && end[-(ptrdiff_t)n - 1] == ':' && !memcmp(end - n, port, n);
}

/*
 * A gRPC server answers HTTP/1 with its own first frame, with silence, or with a 4xx of type
 * application/grpc.
 */
static bool looks_like_grpc(const char *url, const HttpReply *reply) {
        if (reply->fault == HTTP_FAULT_PROTOCOL)
                return true;
        if (!strncasecmp(reply->content_type, "application/grpc", 16))
                return true;
        return has_port(url, "4317") && (reply->fault == HTTP_FAULT_CONNECTION || reply->status >= 400);
}

static const char *status_hint(int status) {
        switch (status) {
        case 401:
        case 403:
                return "check the credentials in OTEL_EXPORTER_OTLP_HEADERS";
        case 404:
        case 405:
                return "is its profiles signal on (for the collector: --feature-gates=service.profilesSupport), "
                       "is the path right (it usually ends in /v1development/profiles), and its version "
                       "(another draft of OTLP profiles has another path)?";
        case 413:
                return "its limit for requests is lower than ours";
        case 415:
                return "it does not take application/x-protobuf; is this an OTLP/HTTP receiver?";
        default:
                return NULL;
        }
}

/*
 * Fields of samples have other numbers since version 1.10 of the protocol. A reader of an older one finds no
 * values, or values in place of other fields; no request tells a version.
 */
static bool says_draft(const char *message) {
        static const char *const words[] = { "sample value is required", "cannot parse invalid wire",
                                             "wrong wireType", "invalid ProfileID length" };

        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (strstr(message, words[i]))
                        return true;
        return false;
}

bool trouble_is_draft(const HttpReply *reply, const char *message) {
        return !reply->fault && (reply->status == 404 || says_draft(message));
}

static const char *answer_hint(int status, const char *message) {
        if (says_draft(message))
                return "it may read an older version of the protocol: opentelemetry-proto 1.10 or later is "
                       "needed (Collector 0.150, Pyroscope 1.20, Parca 0.27)";
        return status_hint(status);
}

/* The variable that names a proxy for @url, as curl(1) reads them. It ignores HTTP_PROXY. NULL = none. */
static const char *proxy_variable(const char *url) {
        static const char *const names[] = { "https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy",
                                             "ALL_PROXY" };
        bool is_tls = !strncasecmp(url, "https:", 6);

        if (!strncasecmp(url, "unix:", 5))
                return NULL;
        for (size_t i = is_tls ? 0 : 2; i < ARRAY_SIZE(names); i++) {
                const char *value = is_tls && i == 2 ? NULL : getenv(names[i]);

                if (value && *value)
                        return names[i];
        }
        return NULL;
}

static const char *fault_hint(HttpFault fault) {
        switch (fault) {
        case HTTP_FAULT_CONNECT:
                return "is a receiver running there?";
        case HTTP_FAULT_TLS:
                return "check http:// or https://, certificate= and client-certificate= "
                       "(OTEL_EXPORTER_OTLP_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE)";
        default:
                return NULL;
        }
}

void trouble_describe(Text *text, const char *url, const HttpReply *reply, const char *message) {
        bool redirect = reply->status >= 300 && reply->status < 400;
        const char *proxy = proxy_variable(url);
        const char *hint = reply->fault ? fault_hint(reply->fault) : answer_hint(reply->status, message);

        endpoint_append_shown(text, url);
        if (reply->fault == HTTP_FAULT_PROTOCOL)
                text_printf(text, " does not speak HTTP/1.1");
        else if (reply->fault)
                text_printf(text, ": %s", reply->error[0] ? reply->error : "request failed");
        else if (redirect)
                text_printf(text, " answered %d with a redirect", reply->status);
        else
                text_printf(text, " answered %d", reply->status);
        if (message[0])
                text_printf(text, ", \"%s\"", message);
        if (redirect) {
                text_printf(text, "; redirects are not followed, set the endpoint to ");
                endpoint_append_shown(text, reply->location[0] ? reply->location : "the real URL");
        }
        if (looks_like_grpc(url, reply))
                text_printf(text,
                            "; this looks like a gRPC endpoint (usual port 4317): spanprof speaks OTLP/HTTP "
                            "(http/protobuf), which usually listens on port 4318");
        else if (hint)
                text_printf(text, "; %s", hint);
        if (proxy && reply->fault)
                text_printf(text, "; %s names a proxy for it: is that right, or does the host belong into no_proxy?",
                            proxy);
}
