/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Endpoint
 *
 * Checks what a user gave as address and headers of a receiver, before anything is
 * sent. Where the two come from (options, files, OTEL_EXPORTER_OTLP_*) is config/'s.
 * Values may be secrets, so messages name no more than a header's name.
 */

#include <stddef.h>

#include "core/base/util/text.h"

enum {
        _ENDPOINT_E_SUCCESS,
        ENDPOINT_E_INVALID,             /* cannot be used; the message says why */
};

/*
 * Whether @url can be posted to: http or https, a host, a port that exists; or unix:SOCKET[:PATH]. Return: 0,
 * ENDPOINT_E_INVALID.
 */
int endpoint_check_url(const char *url, char *why, size_t why_size);

/*
 * Turns `name=value,name2=value2` (percent-encoded) into `name: value` lines, NULL at the end. Properties
 * behind a `;` are dropped. Refused: what is no such list, line breaks, and names that the request sets
 * itself. *headersp is owned by the caller (endpoint_headers_free). Return: 0, ENDPOINT_E_INVALID, -ENOMEM.
 */
int endpoint_parse_headers(const char *text, char ***headersp, char *why, size_t why_size);
char **endpoint_headers_free(char **headers);

/* Appends @url without a user, password, query or fragment: those may be secrets. */
void endpoint_append_shown(Text *text, const char *url);
