/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The ring of a station holds the last eight events, and the writer waits for nobody. The seq of an epoch
 * tells which event it holds; here is the seqlock dialect while event 10 is being written:
 *
 *      epoch   0    1    2    3    4    5    6    7
 *      seq     4    4    3    2    2    2    2    2        odd: epoch 2 is being written
 *      holds   8    9   (10)  3    4    5    6    7
 *
 * We wait for event `next` at its epoch: a smaller seq means that it has not come, the right one that it is
 * there, a larger one that it has been overwritten. Then the whole ring is copied: eight loads at once take
 * hardly longer than one, and a writer that goes on would overwrite the oldest event each time while we reach
 * for it. What is not in the copy is lost, and known exactly.
 *
 * An event is copied and then looked at again. In the seqlock dialect the seq must be the same. In the
 * document dialect that is not enough: the old seq stands while the next lap is being written over it. But
 * before event n + 8 is begun, event n + 7 is published: if that has not come after the copy, nothing was
 * overwritten.
 */

#include <string.h>

#include "base/util/clock.h"
#include "base/util/macro.h"
#include "coro/station/station-read.h"

enum {
        EPOCHS = SPANPROF_STATION_EPOCHS,
        MAX_TID = 1 << 22,              /* the kernel's PID_MAX_LIMIT */
        MIN_EVENT_NS = 2,               /* nobody writes events faster */
        MAX_TURNS = 64,                 /* of a race against one writer before others get their turn */
        LAPPED = -1,                    /* the event is not there any more */
};

static uint64_t load_seq(const struct spanprof_station *station, unsigned epoch) {
        return __atomic_load_n(&station->epochs[epoch].seq, __ATOMIC_ACQUIRE);
}

/* Events written up to the one that @epoch holds; 0 = it holds none, or what no writer writes there. */
static uint64_t written_by(StationDialect dialect, unsigned epoch, uint64_t seq) {
        if (dialect == STATION_DIALECT_DOCUMENT)
                return seq % EPOCHS == epoch ? seq : 0;
        if (seq / 2 > UINT64_MAX / (2 * EPOCHS))
                return UINT64_MAX;
        return seq > 1 ? EPOCHS * (seq / 2 - 1) + epoch + 1 : 0;
}

static uint64_t count_written(const struct spanprof_station *station, StationDialect dialect) {
        uint64_t most = 0;

        for (unsigned i = 0; i < EPOCHS; i++) {
                uint64_t written = written_by(dialect, i, load_seq(station, i));

                most = MAX(most, written);
        }
        return most;
}

/* No writer has written so many. */
static bool is_absurd(uint64_t written, uint64_t now_ns) {
        return written > now_ns / MIN_EVENT_NS;
}

/* Of @written events the ring has so many that can be read; see above for the eighth. */
static unsigned n_kept(StationDialect dialect) {
        return dialect == STATION_DIALECT_DOCUMENT ? EPOCHS - 1 : EPOCHS;
}

static StationDialect look_at_dialect(uint64_t seq0, uint64_t seq1) {
        if (!seq0 && !seq1)
                return STATION_DIALECT_UNKNOWN;
        return seq1 % EPOCHS == 1 && seq0 % EPOCHS == 0 ? STATION_DIALECT_DOCUMENT : STATION_DIALECT_SEQLOCK;
}

StationDialect station_dialect(const struct spanprof_station *station) {
        uint64_t seq0 = load_seq(station, 0), seq1 = load_seq(station, 1);

        if (seq0 == load_seq(station, 0) && seq1 == load_seq(station, 1))
                return look_at_dialect(seq0, seq1);
        return STATION_DIALECT_UNKNOWN;
}

void station_begin(const struct spanprof_station *station, StationDialect dialect, uint64_t now_ns,
                   StationState *state) {
        uint64_t written = count_written(station, dialect);

        state->corrupt = is_absurd(written, now_ns);
        if (state->corrupt)
                return;
        state->next = state->n_skipped = written > n_kept(dialect) ? written - n_kept(dialect) : 0;
}

void station_look(const struct spanprof_station *station, StationState *state) {
        uint64_t probe_id = __atomic_load_n(&station->probe_id, __ATOMIC_RELAXED);
        uint64_t birth_ns = __atomic_load_n(&station->birth_ns, __ATOMIC_RELAXED);

        if (!state->probe_id)
                state->probe_id = probe_id;
        if (!state->birth_ns)
                state->birth_ns = birth_ns;
        state->named = state->probe_id || state->birth_ns;
        state->dead |= __atomic_load_n(&station->is_dead, __ATOMIC_ACQUIRE) == 1;
}

/* Word by word: a copy that the compiler may not tear, and may not repeat after the check. */
static void copy_epoch(struct spanprof_epoch *to, const struct spanprof_epoch *from) {
        const uint64_t *words = (const uint64_t *)from;
        uint64_t copy[sizeof(*to) / sizeof(uint64_t)];

#pragma GCC unroll 8
        for (size_t i = 0; i < ARRAY_SIZE(copy); i++)
                copy[i] = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
        memcpy(to, copy, sizeof(*to));
}

/* Whether event @number, copied before this call, cannot have been written over meanwhile. */
static bool is_untouched(const struct spanprof_station *station, StationDialect dialect, uint64_t number) {
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (load_seq(station, station_epoch_of(dialect, number)) != station_seq_of(dialect, number))
                return false;
        return dialect != STATION_DIALECT_DOCUMENT ||
                load_seq(station, station_epoch_of(dialect, number + EPOCHS - 1)) <
                station_seq_of(dialect, number + EPOCHS - 1);
}

/* The same of a copy of the ring whose seq is right. */
static bool is_untouched_in(const StationRing *ring, StationDialect dialect, uint64_t number) {
        return dialect != STATION_DIALECT_DOCUMENT ||
                ring->after[station_epoch_of(dialect, number + EPOCHS - 1)] <
                station_seq_of(dialect, number + EPOCHS - 1);
}

/* Goes on to event @next. */
static void lose_until(StationState *state, uint64_t next) {
        state->n_lost += next - state->next;
        state->n_gap += next - state->next;
        state->next = next;
}

/* Return: 0, STATION_E_CORRUPT. */
static int fill_ring(const struct spanprof_station *station, StationDialect dialect, uint64_t now_ns,
                     StationState *state, StationRing *ring) {
        ring->n_written = 0;
        for (unsigned i = 0; i < EPOCHS; i++) {
                ring->before[i] = load_seq(station, i);
                copy_epoch(&ring->epochs[i], &station->epochs[i]);
        }
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        for (unsigned i = 0; i < EPOCHS; i++) {
                uint64_t n_written;

                ring->after[i] = load_seq(station, i);
                n_written = written_by(dialect, i, ring->after[i]);
                ring->n_written = MAX(ring->n_written, n_written);
        }
        state->corrupt = is_absurd(ring->n_written, now_ns) || ring->n_written <= state->next;
        ring->filled = !state->corrupt;
        return state->corrupt ? STATION_E_CORRUPT : 0;
}

/*
 * Goes to the first event from state->next on that the copy of the ring has. Return: 0, STATION_E_NONE,
 * STATION_E_CORRUPT.
 */
static int take_from_ring(StationDialect dialect, StationState *state, StationRing *ring,
                          struct spanprof_epoch *copy) {
        for (;;) {
                unsigned epoch = station_epoch_of(dialect, state->next);
                uint64_t wanted = station_seq_of(dialect, state->next), seq = ring->after[epoch];

                if (seq < wanted || (seq == wanted && ring->before[epoch] != seq))
                        return STATION_E_NONE;          /* it came while or after we copied */
                if (seq == wanted && is_untouched_in(ring, dialect, state->next)) {
                        *copy = ring->epochs[epoch];
                        copy->seq = seq;
                        return 0;
                }
                if (state->next >= ring->n_written)
                        return STATION_E_CORRUPT;
                lose_until(state,
                           MAX(state->next + 1, ring->n_written - MIN(ring->n_written, n_kept(dialect))));
        }
}

static bool is_sound(const struct spanprof_epoch *epoch, uint64_t now_ns) {
        return epoch->tid && epoch->tid <= MAX_TID && epoch->is_active <= 1 && epoch->time_ns &&
               epoch->time_ns < now_ns + NS_PER_SEC;
}

static void note(StationState *state, const struct spanprof_epoch *epoch) {
        if (!state->first_ns)
                state->first_ns = epoch->time_ns;
        state->n_migrations += state->last_tid && state->last_tid != epoch->tid;
        state->n_suspends += !epoch->is_active;
        state->n_resumes += epoch->is_active;
        state->last_ns = epoch->time_ns;
        state->last_tid = epoch->tid;
        state->active = epoch->is_active;
        if (epoch->address)
                state->last_address = epoch->address;
}

/* As words, the last of which overlaps: memcmp() is a call for each event. */
static bool is_zero(const uint8_t payload[SPANPROF_STATION_PAYLOAD]) {
        uint64_t words[4];

        memcpy(words, payload, 3 * sizeof(*words));
        memcpy(&words[3], payload + SPANPROF_STATION_PAYLOAD - sizeof(*words), sizeof(*words));
        return !(words[0] | words[1] | words[2] | words[3]);
}

static void fill(CoroEvent *event, const StationState *state, uint64_t number,
                 const struct spanprof_epoch *epoch) {
        event->probe_id = state->probe_id;
        event->birth_ns = state->birth_ns;
        event->number = number;
        event->seq = epoch->seq;
        event->time_ns = epoch->time_ns;
        event->tid = epoch->tid;
        event->address = epoch->address;
        event->n_lost = state->n_gap;
        event->active = epoch->is_active;
        event->has_payload = !is_zero(epoch->payload);
        if (event->has_payload)
                memcpy(event->payload, epoch->payload, sizeof(event->payload));
}

/*
 * Takes the copy of event state->next. Inlined, as take_one() is: at millions of events a second the calls
 * show.
 */
static _always_inline_ int accept(const struct spanprof_station *station, uint64_t now_ns,
                                  StationState *state, const struct spanprof_epoch *epoch, CoroEvent *event) {
        uint64_t number = state->next++;

        if (!is_sound(epoch, now_ns)) {
                state->n_rejected++;
                return STATION_E_REJECTED;
        }
        if (!state->probe_id || !state->birth_ns)
                station_look(station, state);
        note(state, epoch);
        state->n_read++;
        fill(event, state, number, epoch);
        state->n_gap = 0;
        return 0;
}

/* A seq smaller than the one of the lap before: somebody has written zeros, or worse. */
static bool is_rewound(StationDialect dialect, uint64_t number, uint64_t seq) {
        uint64_t before = number >= EPOCHS ? station_seq_of(dialect, number - EPOCHS) : 0;

        return seq < before ||
                (dialect == STATION_DIALECT_DOCUMENT && seq &&
                 seq % EPOCHS != station_epoch_of(dialect, number));
}

/* Copies event state->next. Return: 0, STATION_E_NONE, STATION_E_CORRUPT, LAPPED. */
static _always_inline_ int take_one(const struct spanprof_station *station, StationDialect dialect,
                                    const StationState *state, struct spanprof_epoch *copy) {
        unsigned epoch = station_epoch_of(dialect, state->next);
        uint64_t seq = load_seq(station, epoch), wanted = station_seq_of(dialect, state->next);

        if (is_rewound(dialect, state->next, seq))
                return STATION_E_CORRUPT;
        if (seq < wanted)
                return STATION_E_NONE;
        if (seq > wanted)
                return LAPPED;
        copy_epoch(copy, &station->epochs[epoch]);
        copy->seq = seq;
        return is_untouched(station, dialect, state->next) ? 0 : LAPPED;
}

/* What is left when the writer has lapped us, or is about to. */
_noinline_ static int next_of_ring(const struct spanprof_station *station, StationDialect dialect,
                                   uint64_t now_ns, StationState *state, StationRing *ring,
                                   CoroEvent *event) {
        for (int turn = 0; turn < MAX_TURNS && !state->corrupt; turn++) {
                struct spanprof_epoch copy;
                int r = ring->filled ? take_from_ring(dialect, state, ring, &copy)
                                     : take_one(station, dialect, state, &copy);

                if (!r)
                        return accept(station, now_ns, state, &copy, event);
                if (r == STATION_E_NONE && !ring->filled)
                        return r;
                if (r == LAPPED)
                        r = fill_ring(station, dialect, now_ns, state, ring);
                else
                        ring->filled = false;
                state->corrupt |= r == STATION_E_CORRUPT;
        }
        return state->corrupt ? STATION_E_CORRUPT : STATION_E_NONE;
}

int station_next(const struct spanprof_station *station, StationDialect dialect, uint64_t now_ns,
                 StationState *state, StationRing *ring, CoroEvent *event) {
        if (!ring->filled && !state->corrupt) {
                struct spanprof_epoch copy;
                int r = take_one(station, dialect, state, &copy);

                if (!r)
                        return accept(station, now_ns, state, &copy, event);
                if (r == STATION_E_NONE)
                        return r;
        }
        return next_of_ring(station, dialect, now_ns, state, ring, event);
}

void station_finish(const struct spanprof_station *station, StationDialect dialect, uint64_t now_ns,
                    StationState *state) {
        uint64_t written;

        station_look(station, state);
        if (state->corrupt || dialect == STATION_DIALECT_UNKNOWN)
                return;
        written = count_written(station, dialect);
        /*
         * Events are written in order: a later one than the next without the next itself was never written.
         */
        if (written > state->next &&
            (is_absurd(written, now_ns) || !station_is_ready(station, dialect, state->next)))
                state->corrupt = true;
        else if (written > state->next)
                lose_until(state, written);
        for (unsigned i = 0; dialect == STATION_DIALECT_SEQLOCK && i < EPOCHS; i++)
                state->torn |= load_seq(station, i) % 2;
}
