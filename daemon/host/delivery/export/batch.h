/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Batch
 *
 * One finished OTLP request on its way out, in the form in which it is sent, with what is needed to account
 * for it: samples, profiles, time of the first attempt, and whether the disk has it too.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/delivery/spool/spool.h"

/* An ExportProfilesServiceRequest in protobuf. */
typedef struct ExportRequest {
        const uint8_t *data;
        size_t size;
        uint64_t n_events;              /* samples in it */
        uint64_t n_profiles;
} ExportRequest;

/*
 * Turns a request from protobuf into JSON, or back. *datap is malloc()ed. Return: 0, positive = it is no
 * request, -ENOMEM.
 */
typedef int (*ExportConvert)(const uint8_t *data, size_t size, bool to_json, uint8_t **datap, size_t *sizep);

typedef struct Batch Batch;

/* State on disk of a batch in memory. */
typedef enum BatchCopy {
        BATCH_UNSTORED,
        BATCH_STORING,                  /* the batch is on its way to the disk */
        BATCH_HELD,                     /* the disk has it, and holds it back: memory sends it */
        BATCH_STORED,                   /* the batch was read from the disk, where it stays until its end */
} BatchCopy;

/* A place in the list of batches whose files are not flushed yet. */
typedef struct BatchUnflushed BatchUnflushed;

struct BatchUnflushed {
        BatchUnflushed *next, *previous;
        Batch *batch;                   /* NULL = not in the list */
        uint64_t since_ns;              /* MONOTONIC */
};

struct Batch {
        Batch *next;                    /* in its queue */
        unsigned n_refs;                /* counted by the loop alone: the sender's, and the store's */
        uint8_t *data;
        size_t size;                    /* as sent */
        uint64_t n_events;
        uint64_t n_profiles;
        uint64_t first_try_ns;          /* MONOTONIC, 0 = not tried yet */
        bool gzip, json;                /* form of the data */
        BatchCopy copy;
        SpoolEntry entry;               /* the file, when the disk has it */
        BatchUnflushed unflushed;
        atomic_bool done;               /* delivered or lost: a thread need not begin to store it */
};

/* Copies, or compresses, one request; @json: its data is JSON. Return: 0, -ENOMEM. */
int batch_new(Batch **batchp, const ExportRequest *request, bool gzip, bool json);
Batch *batch_ref(Batch *batch);
/* Gives one reference back. */
Batch *batch_free(Batch *batch);
DEFINE_CLEANUP(Batch, batch_free)

static inline bool batch_is_on_disk(const Batch *batch) {
        return batch->copy == BATCH_HELD || batch->copy == BATCH_STORED;
}

/*
 * How many of its samples are lost when a receiver rejects @n_rejected of its profiles. The reply
 * does not say which profiles, so samples are taken in proportion, rounded up.
 */
uint64_t batch_rejected_events(const Batch *batch, uint64_t n_rejected);
