/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Trouble
 *
 * Turns the outcome of a failed attempt into one line for a person: what
 * happened, in the server's words if it had any, and what to do about it.
 */

#include <stdbool.h>

#include "core/base/util/text.h"
#include "core/http/transport.h"

/* Kinds of trouble that are told apart when log lines are held back. */
typedef enum TroubleKind {
        TROUBLE_RESOLVE,
        TROUBLE_CONNECT,
        TROUBLE_TIMEOUT,
        TROUBLE_CONNECTION,
        TROUBLE_PROTOCOL,
        TROUBLE_TLS,
        TROUBLE_INTERNAL,
        TROUBLE_BUSY,                   /* 429, 502, 503, 504 */
        TROUBLE_REFUSED,                /* any other status */
        TROUBLE_REJECTED,               /* partial success */
        TROUBLE_WARNING,                /* success with a message, or with a body that is no response */
        TROUBLE_QUEUE,                  /* oldest batch dropped */
        TROUBLE_SPOOL,                  /* not written */
        TROUBLE_SPOOL_LOST,
        TROUBLE_N,
} TroubleKind;

TroubleKind trouble_kind(const HttpReply *reply);

/* Whether it reads another draft of OTLP profiles, or none: a later version may take the same. */
bool trouble_is_draft(const HttpReply *reply, const char *message);

/* Appends the line. @url: endpoint as configured. @message: of the server, "" = none. */
void trouble_describe(Text *text, const char *url, const HttpReply *reply, const char *message);
