/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Environment
 *
 * What a program says of itself in OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
 * (OpenTelemetry specification, "Resource SDK"). Environments hold secrets: bytes come
 * in pieces, and of all other variables nothing is kept. Opens no file.
 *
 * All of it is a target's word: text may be anything but holds no NUL.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/util/text.h"

enum {
        ENVIRONMENT_MAX_BYTES = 1 << 20,        /* that are looked at */
        ENVIRONMENT_MAX_ATTRIBUTES = 64,
        ENVIRONMENT_MAX_KEY = 255,              /* bytes, as decoded */
        ENVIRONMENT_MAX_VALUE = 1024,
        ENVIRONMENT_MAX_TEXT = 65536,           /* of the one variable, as written */
};

typedef struct EnvironmentAttribute {
        const char *key, *value;                /* neither is empty */
} EnvironmentAttribute;

typedef struct Environment {
        char *service_name;                     /* owned; NULL = not set */
        EnvironmentAttribute attributes[ENVIRONMENT_MAX_ATTRIBUTES];
        size_t n_attributes;
        /* attributes and names that were left out: malformed, or over a cap */
        size_t n_invalid;
        char *text;                             /* that the attributes point into; owned */
} Environment;

void environment_deinit(Environment *environment);

/* Picks the two variables out of /proc/PID/environ. Starts as zeros. */
typedef struct EnvironmentReader {
        Text values[2];
        /* the first of its name is the one that counts, as for getenv() */
        bool ended[2];
        char name[32];                          /* the start of the current variable */
        unsigned n_name;
        /* which of the two it is; -1 = another one, -2 = not known yet */
        int at;
        bool started;
} EnvironmentReader;

void environment_reader_deinit(EnvironmentReader *reader);

/* The next piece. Running out of memory shows in environment_reader_finish(). */
void environment_reader_feed(EnvironmentReader *reader, const char *data, size_t size);

/* @environment is set in any case; pair with environment_deinit(). Return: 0, -ENOMEM. */
int environment_reader_finish(EnvironmentReader *reader, Environment *environment);
