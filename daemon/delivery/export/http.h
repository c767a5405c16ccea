/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP Client
 *
 * POSTs to one URL, one request at a time, on the daemon's event loop: the
 * connection is kept, redirects are not followed, and the reply's body is cut at
 * HTTP_BODY_MAX. It tells what happened; retry.c decides what that means.
 *
 * libcurl is loaded with the first client and set up by the first request; TLS is set up for https only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/util/macro.h"
#include "delivery/export/transport.h"

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

enum {
        _HTTP_E_SUCCESS,
        HTTP_E_LIBRARY,                 /* libcurl is not installed; a message was logged */
};

/* Strings are copied. Return: 0, HTTP_E_LIBRARY, -errno. */
int http_new(Http **httpp, sd_event *event, const HttpConfig *config);
Http *http_free(Http *http);
DEFINE_CLEANUP(Http, http_free)

/* @data stays the caller's and must live until @done or http_cancel(). Return: 0, -errno. */
int http_post(Http *http, const void *data, size_t size, TransportDone done, void *userdata);

/* Drops a running request; its callback is not called. */
void http_cancel(Http *http);

/* The client as the exporter's transport, which frees it. */
Transport http_transport(Http *http);
