/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * OTLP Encoder
 *
 * Turns a closed Window into ExportProfilesServiceRequest messages
 * (opentelemetry-proto 1.11, profiles v1development), each a whole valid request
 * with its own dictionary that holds exactly the rows it needs. The same window
 * and options give the same bytes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/profile/window.h"

typedef struct OtlpOptions {
        size_t max_bytes;               /* split so that each request stays under it; 0 = 4 MiB */
        const char *scope_version;      /* version of spanprof, in the InstrumentationScope */
        int timestamps;                 /* 0 = leave timestamps out */
        uint64_t untimed_ns;            /* REALTIME of a window that begins at 0, which has no times */
        /* n_events, n_lost: samples of the CPU alone, which are those that are accounted for */
        bool count_cpu;
        bool no_fine;                   /* profiles of PROFILE_FINE are left out */
        bool one_value;                 /* a sample has one value or times, never a value for each time */
        bool by_type;                   /* a request has profiles of one type: a refusal loses no other */
        /* limits of one profile in one request: samples, and the size as pprof, about; 0 = no limit */
        uint32_t max_samples;
        size_t max_pprof_bytes;
} OtlpOptions;

/*
 * Called for each request. @data is valid during the call. @n_events: samples (events) in it; @n_profiles:
 * profiles. A non-zero return ends the encoding and is returned.
 */
typedef int (*OtlpSink)(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles,
                        void *userdata);

/*
 * Splits between resources where it can, else between samples, else between the times of one sample (parts of
 * one profile get ids of their own, made from the profile's).
 * @n_lostp: events that could not be put into any request (the stack of one sample is larger than max_bytes).
 * A window without samples gives no request. Return: 0, -ENOMEM, or the sink's code.
 */
int otlp_encode(const Window *window, const OtlpOptions *options, OtlpSink sink, void *userdata,
                uint64_t *n_lostp);
