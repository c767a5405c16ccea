/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes events as the two kinds of real writers do: made from the protocol's text, with nothing of the
 * reader. `document`: seq counts 1, 2, 3 …, place seq % 8, seq last. Else seqlock: place n % 8, odd, fields,
 * even.
 */

#include <stdint.h>
#include <string.h>

#include "spanprof/station.h"

typedef struct StationWriter {
        struct spanprof_station *station;
        int document;
        uint64_t n_written;
} StationWriter;

/* The two halves of a write, so that a test can stop between them. */
static inline struct spanprof_epoch *station_writer_begin(StationWriter *writer) {
        struct spanprof_epoch
                *epoch = &writer->station->epochs[(writer->n_written + (writer->document ? 1 : 0)) & 7];

        if (!writer->document)
                __atomic_store_n(&epoch->seq, epoch->seq + 1, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        return epoch;
}

static inline void station_writer_end(StationWriter *writer, struct spanprof_epoch *epoch) {
        writer->n_written++;
        __atomic_store_n(&epoch->seq, writer->document ? writer->n_written : epoch->seq + 1,
                         __ATOMIC_RELEASE);
}

static inline void station_writer_fill(struct spanprof_epoch *epoch, uint64_t time_ns, uint64_t tid,
                                       uint64_t address, int active) {
        __atomic_store_n(&epoch->time_ns, time_ns, __ATOMIC_RELAXED);
        __atomic_store_n(&epoch->tid, tid, __ATOMIC_RELAXED);
        __atomic_store_n(&epoch->address, address, __ATOMIC_RELAXED);
        __atomic_store_n(&epoch->is_active, (uint8_t)active, __ATOMIC_RELAXED);
}

static inline void station_writer_write(StationWriter *writer, uint64_t time_ns, uint64_t tid,
                                        uint64_t address, int active) {
        struct spanprof_epoch *epoch = station_writer_begin(writer);

        station_writer_fill(epoch, time_ns, tid, address, active);
        station_writer_end(writer, epoch);
}
