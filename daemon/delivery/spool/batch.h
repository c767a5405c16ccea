/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Batch
 *
 * One finished OTLP request on its way out, in the form in which it is sent,
 * with what is needed to account for it: samples, profiles, time of the first try.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util/macro.h"
#include "delivery/spool/spool.h"

/* One ExportProfilesServiceRequest in protobuf. */
typedef struct ExportRequest {
        const uint8_t *data;
        size_t size;
        uint64_t n_events;              /* samples in it */
        uint64_t n_profiles;
} ExportRequest;

typedef struct Batch Batch;

struct Batch {
        Batch *next;                    /* of its queue */
        unsigned n_refs;                /* the loop's alone: the one that sends, and the one that stores */
        uint8_t *data;
        size_t size;                    /* as sent */
        uint64_t n_events;
        uint64_t n_profiles;
        uint64_t first_try_ns;          /* MONOTONIC, 0 = not tried yet */
        bool gzip, json;                /* what data is */
        bool is_being_stored;           /* it is on its way to the disk while memory has it */
        bool is_spooled;                /* it is in the spool, too, as: */
        bool is_held;                   /* there nobody takes it, since memory has it */
        SpoolEntry spooled;
        uint64_t stored_ns;             /* MONOTONIC: spooled since */
        atomic_bool done;               /* it has its end: who has not begun to store it need not */
};

/* Copies, or compresses, one request; @json: its data is JSON. Return: 0, -ENOMEM. */
int batch_new(Batch **batchp, const ExportRequest *request, bool gzip, bool json);
Batch *batch_ref(Batch *batch);
/* Gives one reference back. */
Batch *batch_free(Batch *batch);
DEFINE_CLEANUP(Batch, batch_free)

/*
 * How many of its samples are lost when a receiver rejects @n_rejected of its profiles. The reply
 * does not say which profiles, so samples are taken in proportion, rounded up.
 */
uint64_t batch_rejected_events(const Batch *batch, uint64_t n_rejected);
