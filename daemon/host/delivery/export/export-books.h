/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Export Books
 *
 * What one exporter counts and logs. The exporter and its store write the same books, on the loop's thread.
 */

#include "core/base/util/stat.h"
#include "host/delivery/export/export-log.h"

typedef struct ExportBooks {
        /* an exporter beside the first: util/stat counts for the first alone */
        bool secondary;
        uint64_t counts[COUNTER_N];
        ExportLog log;
} ExportBooks;

static inline void books_add(ExportBooks *books, enum counter counter, uint64_t n) {
        books->counts[counter] += n;
        if (!books->secondary)
                stat_add(counter, n);
}

/* @n_batches with @n_events samples are lost. @counter: why. */
static inline void books_add_lost(ExportBooks *books, enum counter counter, uint64_t n_batches,
                                  uint64_t n_events) {
        books_add(books, counter, n_events);
        books_add(books, COUNTER_EXPORT_DROPPED, n_batches);
}
