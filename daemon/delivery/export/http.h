/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP Client
 *
 * POSTs to one URL, one request at a time, on the daemon's event loop: the
 * connection is kept, redirects are not followed, and the reply's body is cut at
 * HTTP_BODY_MAX. Says what happened; what it means is decided in retry.c.
 *
 * The library behind it is loaded with the first client and set up by the first request, and TLS only for
 * https.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/util/macro.h"

enum {
        HTTP_BODY_MAX = 64 << 10,
        HTTP_TEXT_MAX = 256,
};

/* Why there is no status, or HTTP_FAULT_NONE. */
typedef enum HttpFault {
        HTTP_FAULT_NONE,
        HTTP_FAULT_RESOLVE,             /* the name of the host (or proxy) does not resolve */
        HTTP_FAULT_CONNECT,             /* refused or unreachable */
        HTTP_FAULT_TIMEOUT,
        HTTP_FAULT_CONNECTION,          /* closed or reset before a status came */
        HTTP_FAULT_PROTOCOL,            /* what came back is no HTTP */
        HTTP_FAULT_TLS,                 /* certificates do not fit, or one side speaks no TLS */
        HTTP_FAULT_INTERNAL,            /* no memory and the like */
} HttpFault;

typedef struct HttpReply {
        HttpFault fault;
        int status;                     /* final status; 0 with a fault */
        bool cut;                       /* a status came, but not the whole body */
        bool gzip;                      /* body is compressed */
        const uint8_t *body;            /* at most HTTP_BODY_MAX bytes, valid during the callback */
        size_t body_size;
        char content_type[HTTP_TEXT_MAX];
        char retry_after[HTTP_TEXT_MAX];        /* "" = no such header */
        char location[HTTP_TEXT_MAX];
        char error[HTTP_TEXT_MAX];      /* the library's words for the fault */
} HttpReply;

typedef struct HttpConfig {
        const char *url;                /* or `unix:SOCKET:PATH` */
        const char *const *headers;     /* `Name: value`, NULL at the end; NULL = none */
        bool gzip;                      /* bodies are gzip */
        bool json;                      /* … of JSON, not of protobuf */
        uint64_t timeout_ns;            /* of one request, connecting included */
        const char *certificate;        /* CA file, NULL = the system's */
        const char *client_certificate, *client_key;
} HttpConfig;

typedef struct Http Http;

/* Called from the event loop. May post again or cancel, but not free the client. */
typedef void (*HttpDone)(const HttpReply *reply, void *userdata);

enum {
        _HTTP_E_SUCCESS,
        HTTP_E_LIBRARY,                 /* libcurl is not installed; a message was logged */
};

/* Strings are copied. Return: 0, HTTP_E_LIBRARY, -errno. */
int http_new(Http **httpp, sd_event *event, const HttpConfig *config);
Http *http_free(Http *http);
DEFINE_CLEANUP(Http, http_free)

/* @data stays the caller's and must live until @done or http_cancel(). Return: 0, -errno. */
int http_post(Http *http, const void *data, size_t size, HttpDone done, void *userdata);

/* Drops a running request; its callback is not called. */
void http_cancel(Http *http);
