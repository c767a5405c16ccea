/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Batch Store
 *
 * The port through which the exporter keeps batches somewhere safer than its memory. spool-store.c implements
 * it by the spool; batch_store_none() stands for no store. Nothing here blocks: results come as events, from
 * the event loop.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/delivery/export/batch.h"
#include "host/delivery/export/export-books.h"

typedef struct BatchStoreEvents {
        /* The answer to fetch(): a BATCH_STORED one, now the callee's; NULL = there is none. */
        void (*fetched)(Batch *batch, void *userdata);
        /* A batch that was kept could not be written. It is the callee's again. */
        void (*returned)(Batch *batch, void *userdata);
        /* The store may have room again, or more to give out. */
        void (*progressed)(void *userdata);
} BatchStoreEvents;

typedef struct BatchStoreLevel {
        size_t n_stored;                /* batches that fetch() may give out */
        uint64_t stored_events;         /* samples in them */
        uint64_t stored_bytes, max_bytes;       /* bytes of all that is stored, and may be; 0 = no limit */
        size_t unsaved_bytes;           /* bytes of batches that were kept and are not written yet */
        uint64_t unsaved_events;
        uint64_t released_events;       /* samples that were held, and are about to count as stored */
        bool is_stuck;                  /* the store does not answer: others should not wait for it */
} BatchStoreLevel;

typedef struct BatchStoreOps {
        /* Called once, before all others. @books are written until free(). */
        void (*listen)(void *self, const BatchStoreEvents *events, ExportBooks *books, void *userdata);
        /*
         * Stores a copy of @batch while memory has it, and holds it back until keep() or remove(). Return:
         * false = there is no room now: try again when it progressed.
         */
        bool (*hold)(void *self, Batch *batch);
        /*
         * Takes @batch over from memory, in whatever state its copy is. @last: there is no other place for
         * it, so a long backlog is no reason to decline. Return: false = @batch stays the caller's.
         */
        bool (*keep)(void *self, Batch *batch, bool last);
        /* Asks for the oldest batch (@after: of those behind it; NULL = all). Return: fetched() is called. */
        bool (*fetch)(void *self, const SpoolEntry *after);
        /* A receiver refused @batch for good: keeps a copy among the dead letters. Return: it will. */
        bool (*bury)(void *self, Batch *batch);
        /* @batch has its end, delivered or lost: nothing of it stays. The caller keeps its reference. */
        void (*remove)(void *self, Batch *batch);
        /* Waits until about @deadline_ns (MONOTONIC, 0 = now). What is not stored then counts as lost. */
        void (*finish)(void *self, uint64_t deadline_ns);
        BatchStoreLevel (*level)(const void *self);
        void (*free)(void *self);
} BatchStoreOps;

typedef struct BatchStore {
        const BatchStoreOps *ops;
        void *self;                     /* NULL = no store */
} BatchStore;

/* Keeps nothing: batches are in memory alone. */
BatchStore batch_store_none(void);
