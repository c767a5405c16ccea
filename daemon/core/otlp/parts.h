/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parts of a Request
 *
 * One resource, the fields of one profile, and one sample (or as many of its
 * events as a request takes) as protobuf-c messages. They point into the window and into
 * themselves, so they are filled in place and used at once.
 */

#include <stdbool.h>

#include "core/otlp/dictionary.h"
#include "core/otlp/messages.h"

/* Form of events in a request: the fullest one that passes in every reader. */
typedef enum Shape {
        SHAPE_TIMES,                    /* every event counts 1, as on the CPU */
        SHAPE_TIMES_VALUES,             /* a duration for each event */
        SHAPE_VALUE,                    /* the sum */
} Shape;

/* The one shape of all samples of a profile. */
Shape shape_choose(const Window *window, uint32_t profile, bool timestamps);

typedef struct ResourcePart {
        OtlpResource message;
        OtlpKeyValue *pointers[WINDOW_MAX_SET], pairs[WINDOW_MAX_SET];
        OtlpAnyValue values[WINDOW_MAX_SET];
} ResourcePart;

void resource_part_fill(ResourcePart *part, const Window *window, uint32_t resource);

typedef struct ProfilePart {
        OtlpProfile head, tail;         /* the fields before and behind the samples */
        OtlpValueType sample_type, period_type;
        uint8_t id[16];
} ProfilePart;

/* @n_before: requests that have a part of this profile already; each gets an id of its own. */
void profile_part_fill(ProfilePart *part, Dictionary *dictionary, const WindowProfile *profile,
                       uint32_t n_before);

typedef struct SamplePart {
        OtlpSample message;             /* times in it are MONOTONIC still: their size is the same */
        int64_t value;
        int32_t attributes[WINDOW_MAX_SET];
        uint64_t n_events;
        uint32_t end;                   /* event behind the last one in it */
        bool last;                      /* no event of the sample is left */
} SamplePart;

/* The events of @sample from @first on, at most @max_events of them if they are told one by one. */
void sample_part_fill(SamplePart *part, Dictionary *dictionary, const WindowSample *sample, Shape shape,
                      uint32_t first, uint32_t max_events);
