/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A finding of the validator: a rule, whether it is an error, and where. */

#include <stdbool.h>
#include <stdint.h>

enum { VALIDATE_PATH_MAX = 320, VALIDATE_TEXT_MAX = 320 };

/* X(NAME, what a program calls it, what is broken) */
#define VALIDATE_RULES(X) \
        X(WIRE, "wire", "no such protobuf or JSON, or bytes that another encoder would not make") \
        X(TABLES, "tables", "a table of the dictionary is missing, or its row 0 is not empty") \
        X(INDEX, "index", "an index outside its table, or 0 where something must be named") \
        X(DOUBLE, "double", "two equal rows in a table") \
        X(ORPHAN, "orphan", "a row that nothing refers to") \
        X(KEYS, "keys", "attributes: a key twice, no key, or no value") \
        X(STRINDEX, "strindex", "attributes told by string index, which older readers lose") \
        X(UTF8, "utf8", "a string that is no UTF-8") \
        X(PRESENT, "present", "something that must be there is not") \
        X(TYPES, "types", "samples, profiles or resources that should be one") \
        X(SHAPE, "shape", "values and timestamps of a profile's samples do not fit together") \
        X(RANGE, "range", "a time outside its profile") \
        X(MAPPING, "mapping", "a mapping or a location that does not fit its mapping") \
        X(ID, "id", "an id of a wrong size, zero, or twice; without a profile's id nobody knows doubles") \
        X(TYPE, "type", "a known profile type in a form that some readers refuse") \
        X(SIZE, "size", "larger than receivers take") \
        X(BACKEND, "backend", "the backend that was asked for refuses it, or makes less of it")

typedef enum ValidateRule {
#define X(name, text, what) VALIDATE_##name,
        VALIDATE_RULES(X) VALIDATE_N_RULES
#undef X
} ValidateRule;

/* The reader that a request is meant for. */
typedef enum ValidateFor {
        VALIDATE_FOR_OTLP,              /* any */
        VALIDATE_FOR_PYROSCOPE,
        VALIDATE_FOR_PARCA,
} ValidateFor;

typedef struct ValidateFinding {
        bool warning;
        ValidateRule rule;
        const char *path;               /* "" = the whole request */
        const char *text;
} ValidateFinding;

typedef struct ValidateCounts {
        uint64_t n_errors, n_warnings;
} ValidateCounts;

/* Called for each finding, in the order of the request; valid during the call. */
typedef void (*ValidateSink)(const ValidateFinding *finding, void *userdata);
