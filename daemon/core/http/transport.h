/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Transport
 *
 * The port through which the exporter sends: one request at a time goes out, and its reply is told from the
 * event loop. http.c implements it. A reply is in the words of HTTP, which are those of OTLP's retry rules.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

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
        HTTP_FAULT_PROTOCOL,            /* the reply is no HTTP */
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
        /* end of the peer's certificate that ends first, since 1970; 0 = the peer has shown none */
        time_t certificate_end;
} HttpReply;

/* Called from the event loop. May send again or cancel, but not free the transport. */
typedef void (*TransportDone)(const HttpReply *reply, void *userdata);

typedef struct TransportOps {
        /*
         * @data is in the form that the transport was made for; it must live until @done or cancel(). Return:
         * 0, -errno: nothing is sent and @done is not called.
         */
        int (*send)(void *self, const void *data, size_t size, TransportDone done, void *userdata);
        /* Drops a running request; its callback is not called. */
        void (*cancel)(void *self);
        void (*free)(void *self);
} TransportOps;

typedef struct Transport {
        const TransportOps *ops;
        void *self;
} Transport;
