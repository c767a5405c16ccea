/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Environment
 *
 * What a program says of itself in OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES (OpenTelemetry
 * specification, "Resource SDK") and in DD_SERVICE, DD_ENV and DD_VERSION (Datadog, "Unified Service
 * Tagging"), or as system properties of a JVM on its command line (-Dotel.service.name,
 * -Dotel.resource.attributes, -Ddd.service, -Ddd.env, -Ddd.version). Environments and command lines hold
 * secrets: bytes come in pieces, and of all else nothing is kept. A value whose key looks like that of a
 * credential is "***". Opens no file.
 *
 * All of it is a target's word: text may be anything but holds no NUL.
 */

#include <stdbool.h>
#include <stddef.h>

#include "core/base/util/text.h"

enum {
        ENVIRONMENT_MAX_BYTES = 1 << 20,        /* bytes that are looked at */
        ENVIRONMENT_MAX_ATTRIBUTES = 64,
        ENVIRONMENT_MAX_KEY = 255,              /* bytes, as decoded */
        ENVIRONMENT_MAX_VALUE = 1024,
        ENVIRONMENT_MAX_TEXT = 65536,           /* text of the one variable, as written */
        ENVIRONMENT_N_VARIABLES = 5,
};

typedef struct EnvironmentAttribute {
        const char *key, *value;                /* not empty, both */
} EnvironmentAttribute;

typedef struct Environment {
        char *service_name;                     /* owned; NULL = not set */
        EnvironmentAttribute attributes[ENVIRONMENT_MAX_ATTRIBUTES];
        size_t n_attributes;
        /* attributes and names that were left out: malformed, or over a cap */
        size_t n_invalid;
        char *texts[ENVIRONMENT_N_VARIABLES];   /* texts that the attributes point into; owned */
} Environment;

void environment_deinit(Environment *environment);

typedef enum EnvironmentSource {
        ENVIRONMENT_VARIABLES,                  /* /proc/PID/environ */
        ENVIRONMENT_ARGUMENTS,                  /* /proc/PID/cmdline */
} EnvironmentSource;

/*
 * Picks the variables out of /proc/PID/environ, or the properties out of /proc/PID/cmdline. A JVM prefers its
 * properties, so the command line is fed first. Starts as zeros.
 */
typedef struct EnvironmentReader {
        Text values[ENVIRONMENT_N_VARIABLES];
        /* the first of its name is the one that counts, as for getenv() */
        bool ended[ENVIRONMENT_N_VARIABLES];
        EnvironmentSource source;
        char name[32];                          /* the start of the current variable */
        unsigned n_name;
        /* index of the variable; -1 = another one, -2 = not known yet */
        int at;
        bool started;
} EnvironmentReader;

void environment_reader_deinit(EnvironmentReader *reader);

/* Bytes that are fed from now on are of @source, from its start. Before it: of ENVIRONMENT_VARIABLES. */
void environment_reader_begin(EnvironmentReader *reader, EnvironmentSource source);

/* The next piece. Running out of memory shows in environment_reader_finish(). */
void environment_reader_feed(EnvironmentReader *reader, const char *data, size_t size);

/*
 * The attributes of @text, in the form of OTEL_RESOURCE_ATTRIBUTES. @environment is set in any case; pair
 * with environment_deinit(). Return: 0, -ENOMEM.
 */
int environment_read_attributes(const char *text, Environment *environment);

/* @environment is set in any case; pair with environment_deinit(). Return: 0, -ENOMEM. */
int environment_reader_finish(EnvironmentReader *reader, Environment *environment);
