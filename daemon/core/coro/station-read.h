/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Station
 *
 * Reads the events of one coroutine out of its station (spanprof/station.h), in the order of their numbers,
 * while the writer goes on. Events that were overwritten are counted exactly. Opens and maps nothing: any
 * 1024 bytes do.
 *
 * For each station, written = skipped + read + lost + rejected, once station_next() has said STATION_E_NONE
 * and the writer has stopped.
 */

#include <stdbool.h>
#include <stdint.h>

#include "spanprof/station.h"

typedef enum StationDialect {
        STATION_DIALECT_UNKNOWN,        /* no event yet */
        STATION_DIALECT_DOCUMENT,
        STATION_DIALECT_SEQLOCK,
} StationDialect;

typedef struct CoroEvent {
        uint64_t probe_id, birth_ns;    /* 0 = not known yet */
        uint64_t number;                /* number among the station's events, from 0 */
        uint64_t seq;                   /* sequence number, as the writer stored it */
        uint64_t time_ns, tid, address;
        /* events of this station that were lost right before this one */
        uint64_t n_lost;
        uint32_t station;
        uint32_t pid;                   /* 0 = not known */
        bool active;
        bool has_payload;               /* the payload is not all zero */
        uint8_t payload[SPANPROF_STATION_PAYLOAD];
} CoroEvent;

/* State of a station between two looks. Starts as zeros. */
typedef struct StationState {
        uint64_t next;                  /* number of the event that is read next */
        uint64_t n_skipped;             /* events that were gone before the first look */
        uint64_t n_read, n_lost, n_rejected;
        uint64_t n_gap;                 /* events lost since the last event read */
        uint64_t probe_id, birth_ns;
        uint64_t first_ns, last_ns;     /* times of the first and last event read, 0 = none */
        uint64_t last_tid, last_address;
        uint32_t n_suspends, n_resumes, n_migrations;
        bool named;                     /* probe_id or birth_ns was seen */
        bool active;                    /* by the last event read */
        bool dead;
        bool torn;                      /* a write began and did not end */
        bool corrupt;                   /* has sequence numbers that no writer makes; is not read any more */
} StationState;

/*
 * A copy of the whole ring, taken when the writer has overwritten the wanted event. Reading the events that
 * are left one by one would be slower than a writer that goes on. Starts as zeros; serves one station at a
 * time, as long as it is read without a pause.
 */
typedef struct StationRing {
        bool filled;
        uint64_t n_written;
        /* seq, around the copy */
        uint64_t before[SPANPROF_STATION_EPOCHS], after[SPANPROF_STATION_EPOCHS];
        struct spanprof_epoch epochs[SPANPROF_STATION_EPOCHS];
} StationRing;

enum {
        _STATION_E_SUCCESS,
        STATION_E_NONE,                 /* there is no event that can be read now */
        STATION_E_REJECTED,             /* the event is nonsense; it was counted, go on */
        STATION_E_CORRUPT,              /* state->corrupt was set */
};

/*
 * Tells the dialect by the first two epochs. They are not read at one instant, so an answer counts when it
 * was given twice.
 */
StationDialect station_dialect(const struct spanprof_station *station);

static inline unsigned station_epoch_of(StationDialect dialect, uint64_t number) {
        return (number + (dialect == STATION_DIALECT_DOCUMENT)) % SPANPROF_STATION_EPOCHS;
}

/* The seq that an epoch has when it holds event @number. */
static inline uint64_t station_seq_of(StationDialect dialect, uint64_t number) {
        return dialect == STATION_DIALECT_DOCUMENT ? number + 1 : 2 * (number / SPANPROF_STATION_EPOCHS + 1);
}

/* Whether the next event may be there. One load, so that scans are cheap. */
static inline bool station_is_ready(const struct spanprof_station *station, StationDialect dialect,
                                    uint64_t next) {
        return __atomic_load_n(&station->epochs[station_epoch_of(dialect, next)].seq, __ATOMIC_ACQUIRE) >=
                station_seq_of(dialect, next);
}

/* Goes to the oldest event that is still there, for readers that start late. */
void station_begin(const struct spanprof_station *station, StationDialect dialect, uint64_t now_ns,
                   StationState *state);

/* Reads probe id, birth and death, which may appear after the first event. */
void station_look(const struct spanprof_station *station, StationState *state);

/*
 * Reads the next event. An event later than a second after @now_ns is rejected. *event is set on success
 * only, except station and pid, which the caller sets. Return: 0, STATION_E_*.
 */
int station_next(const struct spanprof_station *station, StationDialect dialect, uint64_t now_ns,
                 StationState *state, StationRing *ring, CoroEvent *event);

/*
 * Ends the reading: counts events that were overwritten unread, and notices a write that never ended.
 */
void station_finish(const struct spanprof_station *station, StationDialect dialect, uint64_t now_ns,
                    StationState *state);
