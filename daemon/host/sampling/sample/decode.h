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

#include "border/abi.h"
#include "border/offcpu_abi.h"

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

/* State of a thread without CPU. */
typedef enum WaitState {
        WAIT_STATE_NONE,                /* a sample of the CPU */
        WAIT_STATE_BLOCKED,
        WAIT_STATE_RUNNABLE,            /* waited for a CPU */
} WaitState;

/* Lock that a thread waited for. */
typedef struct SampleLock {
        const char *kind;               /* a constant word; NULL = no lock that is known */
        const char *name;               /* of its class: one pointer for one text; NULL = not known */
        uint32_t owner;                 /* thread that had it, as the daemon counts; 0 = not known */
} SampleLock;

typedef struct SampleWait {
        const char *reason;             /* as shown: a constant of wait_reason(), wait_idle_reason() */
        const char *kind;               /* of wait_reason(): waits that were not walked know no more */
        WaitState state;
        struct abi_waker waker;         /* ended the wait, if the thread was blocked */
        uint32_t file;                  /* enum abi_wait_file */
        SampleLock lock;                /* lock that a blocked thread waited for */
} SampleWait;

/* A sample; its pointers lead into the record. */
typedef struct Sample {
        const struct abi_sample *header;
        const struct abi_fault *fault;  /* NULL = it is no page fault's */
        const struct abi_allocation *allocation;        /* NULL = it is no allocation's */
        const uint64_t *kernel;         /* header->n_kernel addresses, leaf first */
        const uint64_t *user;           /* header->n_user words, leaf first; no frame is cut */
        const uint8_t *attributes;      /* header->attributes_size bytes that a thread published */
        const uint8_t *task;            /* header->task_size bytes; NULL = no task is told */
        const char *task_name, *task_id;        /* found out later; NULL = none */
        SampleCoroutine coroutine;
        uint64_t local_root;            /* id of the span that labels name so; found out later, 0 = none */
        SampleWait wait;
        const char *age;                /* a constant: of an allocation that is alive; NULL = it is none */
        bool may_wait;                  /* for names of its runtime that are late */
} Sample;

/* @data: 8-aligned record of @size bytes. Return: 0, DECODE_E_MALFORMED. */
int decode_sample(const void *data, size_t size, Sample *samplep);

/* A record of the samples' ring that is none. Return: as above. */
int decode_free(const void *data, size_t size, const struct abi_free **freep);

/* *samplep: the sample in the record; @waitp: its head. Return: as above. */
int decode_wait(const void *data, size_t size, const struct abi_wait **waitp, Sample *samplep);

/* The wait->n_waker words of the waker's frames in a sound record; no frame is cut. */
const uint64_t *decode_wait_waker(const struct abi_wait *wait);

/* A sum, which is no record: whether its texts and outcomes can be believed. Return: as above. */
int decode_wait_sum(const struct abi_wait_key *key, const struct abi_wait_sum *sum);
int decode_stack(const void *data, size_t size, const struct abi_stack **stackp);
int decode_start(const void *data, size_t size, const struct abi_start **startp);
int decode_notice(const void *data, size_t size, const struct abi_notice **noticep);
