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

#include "core/base/util/macro.h"
#include "core/http/transport.h"

typedef struct HttpConfig {
        const char *url;                /* URL, or `unix:SOCKET:PATH` */
        const char *const *headers;     /* `Name: value`, NULL at the end; NULL = none */
        bool gzip;                      /* bodies are gzip */
        bool json;                      /* … of JSON, not of protobuf */
        uint64_t timeout_ns;            /* time of one request, connecting included */
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

/*
 * A request by a thread that may wait for it: of any method, with a body from memory or a file, and a reply
 * into memory or a file. Redirects are followed if that is asked for, by http and https alone, and without
 * the credentials in the URL once another host is asked. It shares nothing with the loop's clients.
 */
typedef struct HttpCall {
        const char *method;             /* GET, POST, PUT */
        const char *url;                /* URL, or `unix:SOCKET:PATH` */
        const char *const *headers;     /* as in HttpConfig */
        const char *content_type;       /* NULL = none */
        const void *body;               /* NULL = none, or from body_fd */
        uint64_t body_size;
        int body_fd;                    /* -1 = none; read from its start */
        int to_fd;                      /* takes the body of a 200; -1 = HttpResult.body does */
        unsigned max_redirects;         /* 0 = none is followed */
        uint64_t max_bytes;             /* size of a reply into to_fd; more bytes end the call */
        uint64_t timeout_ns;            /* time of the whole call */
        uint64_t idle_ns;               /* less than a byte a second for so long ends it; 0 = the whole */
        const char *certificate, *client_certificate, *client_key;      /* NULL = none */
        /* asked at least once a second; true ends the call. NULL = never */
        bool (*is_over)(void *userdata);
        void *userdata;
} HttpCall;

typedef struct HttpResult {
        HttpReply reply;                /* reply whose body is this result's; cut: not all of it came */
        char *body;                     /* owned, with a NUL behind; NULL = none */
        uint64_t n_sent, n_received;    /* bytes of bodies */
        bool is_too_large, is_over;     /* why it was ended */
} HttpResult;

/*
 * In the main thread, before a thread calls: loads libcurl and sets it up. @url: one that will be called.
 * Return: 0, HTTP_E_LIBRARY, -ENOMEM.
 */
int http_prepare(const char *url);

/* Any thread. @result: in any case; free its body. */
void http_call(const HttpCall *call, HttpResult *result);
void http_result_deinit(HttpResult *result);
