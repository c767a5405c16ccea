/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Receiver
 *
 * The other end of OTLP/HTTP: takes POST …/v1development/profiles (any base path), or the path of another
 * signal, as protobuf or JSON, plain or gzip, and hands each whole, expanded body to a
 * callback, which decides the answer. Everything about HTTP is here and nothing about
 * what a request means. Runs on the caller's event loop, in its thread.
 *
 * The same server answers questions about the daemon (on_page), so that HTTP is in one file.
 *
 * Bodies are bounded before and after expanding, by a ratio too, and all bodies under way together, of one
 * address less than of all; over that, senders are told to come back (503). How long a connection may take is
 * in connections.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "core/base/util/macro.h"
#include "core/base/util/text.h"
#include "core/http/bearer.h"

typedef struct Receiver Receiver;

typedef enum ReceiverVerdict {
        RECEIVER_TAKEN,                 /* 200 with an empty ExportProfilesServiceResponse */
        RECEIVER_MALFORMED,             /* 400: never send it again */
        RECEIVER_TOO_LARGE,             /* 413 */
        RECEIVER_BUSY,                  /* 503 with Retry-After: the same request may work later */
} ReceiverVerdict;

/* A whole body, expanded; valid during the call. */
typedef struct ReceiverRequest {
        const uint8_t *data;
        size_t size;
        /* bytes that the sender had to send for it: less, if it was compressed */
        size_t n_sent;
        bool json;
        const char *sender;             /* connection_address() */
} ReceiverRequest;

/*
 * For another verdict than RECEIVER_TAKEN, @why (@why_size bytes) gets the message that the sender is shown.
 */
typedef ReceiverVerdict (*ReceiverTake)(const ReceiverRequest *request, char *why, size_t why_size,
                                        void *userdata);

/* Valid during the call. Headers: "" = there is none. */
typedef struct ReceiverQuestion {
        const char *method, *path;
        const char *accept, *authorization;
} ReceiverQuestion;

/*
 * Answers any request on its own, without a body: @page gets the text, *typep its media type. Return: HTTP
 * status.
 */
typedef int (*ReceiverPage)(const ReceiverQuestion *question, Text *page, const char **typep, void *userdata);

typedef struct ReceiverConfig {
        const char *path;               /* a socket in the filesystem, mode 0660; NULL = address and port */
        const char *address;            /* numeric or a name */
        uint16_t port;                  /* 0 = any free one */
        uint64_t max_request_bytes;     /* bytes of one body, before and after expanding */
        const Bearer *bearer;           /* requests need one of its tokens; NULL = they need none; borrowed */
        const char *path_end;           /* NULL = /v1development/profiles */
        ReceiverTake on_request;
        /* NULL = none; with it nothing is taken in, and on_request is not called */
        ReceiverPage on_page;
        void *userdata;
} ReceiverConfig;

typedef struct ReceiverCounts {
        uint64_t n_taken;
        uint64_t n_malformed;           /* 400 */
        uint64_t n_busy;                /* 503 */
        uint64_t n_misplaced;           /* 404, 405, 415 */
        uint64_t n_unauthorized;        /* 401 */
        uint64_t n_too_large;           /* 413 */
        uint64_t n_overexpanded;        /* part of n_too_large: gzip that expands too far */
        uint64_t n_too_many;            /* part of n_busy: more than one sender may have in a time */
} ReceiverCounts;

enum {
        _RECEIVER_E_SUCCESS,
        RECEIVER_E_ADDRESS,             /* no such address here; a message was logged */
        RECEIVER_E_PORT,                /* not allowed; a message with a hint was logged */
        RECEIVER_E_TAKEN,               /* another process has the port; nothing was logged */
        RECEIVER_E_LIBRARY,             /* libmicrohttpd is not installed; a message was logged */
        RECEIVER_E_PATH,                /* no socket there; errno says why */
};

/* Listens. Return: 0, RECEIVER_E_*, -errno. */
int receiver_new(Receiver **receiverp, sd_event *event, const ReceiverConfig *config);
Receiver *receiver_free(Receiver *receiver);
DEFINE_CLEANUP(Receiver, receiver_free)

/*
 * For a server that outlives its loop: detached it answers nothing, and clients that are connected wait.
 * Attached, it answers what they have asked meanwhile, by @page. Return: 0, -errno.
 */
void receiver_detach(Receiver *receiver);
int receiver_attach(Receiver *receiver, sd_event *event, ReceiverPage page, void *userdata);

/* Answers what has come, without waiting for the loop to say so. */
void receiver_answer_now(Receiver *receiver);

/* `http://ADDRESS:PORT` with the port that is really used. */
const char *receiver_url(const Receiver *receiver);
const ReceiverCounts *receiver_counts(const Receiver *receiver);
