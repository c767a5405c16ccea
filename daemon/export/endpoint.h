/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Endpoint
 *
 * Where to send and how, from OpenTelemetry's environment variables
 * (OTEL_EXPORTER_OTLP_*; the _PROFILES_ form of each wins; an empty value is
 * no value). Pure: it reads through a callback, so that tests give it a table.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENDPOINT_DEFAULT_BASE "http://localhost:4318"
#define ENDPOINT_PATH "/v1development/profiles"

enum {
        _ENDPOINT_E_SUCCESS,
        ENDPOINT_E_INVALID,             /* a value that cannot be used; the message names it */
};

typedef struct Endpoint {
        char *url;                      /* full URL of the profiles endpoint */
        char *headers;                  /* baggage form as found, or NULL */
        bool gzip;                      /* on unless compression is `none` */
        uint64_t timeout_ns;            /* default 10 s */
        char *certificate, *client_certificate, *client_key;   /* paths, or NULL */
} Endpoint;

/* The value of a variable, or NULL. */
typedef const char *(*EndpointGetenv)(const char *name, void *userdata);

/*
 * Fills an empty @endpoint. @why (@why_size bytes) gets a message for ENDPOINT_E_INVALID.
 * Return: 0, ENDPOINT_E_INVALID, -ENOMEM.
 */
int endpoint_from_environment(Endpoint *endpoint, EndpointGetenv get, void *userdata, char *why, size_t why_size);
void endpoint_deinit(Endpoint *endpoint);

/* Whether @url can be posted to: http or https, a host, a port that exists. Return: 0, ENDPOINT_E_INVALID. */
int endpoint_check_url(const char *url, char *why, size_t why_size);

/*
 * Turns `name=value,name2=value2` (percent-encoded) into `name: value` lines, NULL at the end. Properties
 * behind a `;` are dropped. Refused: what is no such list, line breaks, and names that the request sets itself.
 * *headersp is owned by the caller (endpoint_headers_free). Return: 0, ENDPOINT_E_INVALID, -ENOMEM.
 */
int endpoint_parse_headers(const char *text, char ***headersp, char *why, size_t why_size);
char **endpoint_headers_free(char **headers);
