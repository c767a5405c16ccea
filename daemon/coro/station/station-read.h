/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Station
 *
 * Reads the events of one coroutine out of its station (spanprof/station.h), in
 * the order of their numbers, while its writer goes on. What the writer has
 * overwritten is counted, to the event. Opens and maps nothing: any 1024 bytes do.
 *
 * For each station: written = skipped + read + lost + rejected, once station_next()
 * has said STATION_E_NONE and the writer has stopped.
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
        uint64_t probe_id, birth_ns;    /* 0 = the station did not say */
        uint64_t number;                /* of this station's events, from 0 */
        uint64_t seq;                   /* as the writer numbers it */
        uint64_t time_ns, tid, address;
        /* events of this station between the previous one read and this one */
        uint64_t n_lost;
        uint32_t station;
        uint32_t pid;                   /* 0 = not known */
        bool active;
        bool has_payload;               /* not all zero */
        uint8_t payload[SPANPROF_STATION_PAYLOAD];
} CoroEvent;

/* What is known of a station between two looks; starts as zeros. */
typedef struct StationState {
        uint64_t next;                  /* number of the event that is read next */
        uint64_t n_skipped;             /* were written before we came */
        uint64_t n_read, n_lost, n_rejected;
        uint64_t n_gap;                 /* lost since the last event read */
        uint64_t probe_id, birth_ns;
        uint64_t first_ns, last_ns;     /* times of the first and last event read, 0 = none */
        uint64_t last_tid, last_address;
        uint32_t n_suspends, n_resumes, n_migrations;
        bool named;                     /* probe_id or birth_ns was seen */
        bool active;                    /* by the last event read */
        bool dead;
        bool torn;                      /* a write began and did not end */
        bool corrupt;                   /* sequence numbers that no writer makes: not read any more */
} StationState;

/*
 * A copy of the whole ring, for the case that the writer has lapped us: all that is left is taken at once,
 * since one by one a writer that goes on is faster. Starts as zeros; serves one station at a time, as long as
 * it is read without a pause.
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
        STATION_E_NONE,                 /* no event that can be read now */
        STATION_E_REJECTED,             /* one was there and is nonsense; it was counted, go on */
        STATION_E_CORRUPT,              /* state->corrupt was set */
};

/* By the first two epochs. They are not read at one instant: an answer counts when it was given twice. */
StationDialect station_dialect(const struct spanprof_station *station);

static inline unsigned station_epoch_of(StationDialect dialect, uint64_t number) {
        return (number + (dialect == STATION_DIALECT_DOCUMENT)) % SPANPROF_STATION_EPOCHS;
}

/* The seq that says: event @number is here. */
static inline uint64_t station_seq_of(StationDialect dialect, uint64_t number) {
        return dialect == STATION_DIALECT_DOCUMENT ? number + 1 : 2 * (number / SPANPROF_STATION_EPOCHS + 1);
}

/* Whether there may be something to read: one load, so that scans are cheap. */
static inline bool station_is_ready(const struct spanprof_station *station, StationDialect dialect,
                                    uint64_t next) {
        return __atomic_load_n(&station->epochs[station_epoch_of(dialect, next)].seq, __ATOMIC_ACQUIRE) >=
                station_seq_of(dialect, next);
}

/* Goes to the oldest event that is still there, for readers that come late. */
void station_begin(const struct spanprof_station *station, StationDialect dialect, uint64_t now_ns,
                   StationState *state);

/* Probe id, birth and death, which may appear after the first event. */
void station_look(const struct spanprof_station *station, StationState *state);

/*
 * Reads the next event. @now_ns: what is later than a second after it is rejected. *event is set on success
 * only, but for station and pid, which are the caller's. Return: 0, STATION_E_*.
 */
int station_next(const struct spanprof_station *station, StationDialect dialect, uint64_t now_ns,
                 StationState *state, StationRing *ring, CoroEvent *event);

/*
 * At the end: counts what was overwritten while it could not be read, and notices a write that never ended.
 */
void station_finish(const struct spanprof_station *station, StationDialect dialect, uint64_t now_ns,
                    StationState *state);
