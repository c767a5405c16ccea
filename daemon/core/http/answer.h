/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Answers
 *
 * The body of an error: a google.rpc.Status, which is what OTLP asks for, in the form
 * in which the request came.
 */

#include "core/base/util/text.h"

enum { ANSWER_MESSAGE_MAX = 256 };

/* Appends the body for HTTP @status. Longer messages are cut. */
void answer_status_json(Text *text, int status, const char *message);
void answer_status_protobuf(Text *text, int status, const char *message);
