/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decode
 *
 * Bytes of one record → Sample or Notice, every bound checked. Pure: no
 * allocation, no state; the result points into the bytes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

enum {
        _DECODE_E_SUCCESS,
        /* a count, kind or outcome that the kernel half cannot have written */
        DECODE_E_MALFORMED,
};

/* Coroutine that the thread was running; it is found out later. */
typedef struct SampleCoroutine {
        uint64_t probe_id, birth_ns;    /* 0 = not told */
        uint32_t station;
        bool known;
} SampleCoroutine;

/* One sample; its pointers lead into the record. */
typedef struct Sample {
        const struct abi_sample *header;
        const uint64_t *kernel;         /* header->n_kernel addresses, leaf first */
        const uint64_t *user;           /* header->n_user words, leaf first; no frame is cut */
        const uint8_t *attributes;      /* header->attributes_size bytes that a thread published */
        SampleCoroutine coroutine;
} Sample;

/* @data: 8-aligned record of @size bytes. Return: 0, DECODE_E_MALFORMED. */
int decode_sample(const void *data, size_t size, Sample *samplep);
int decode_stack(const void *data, size_t size, const struct abi_stack **stackp);
int decode_notice(const void *data, size_t size, const struct abi_notice **noticep);
