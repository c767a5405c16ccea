/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A station is a ring of the last eight events of one coroutine. Its writer never waits. The seq of an epoch
 * tells which event the epoch holds; here is the seqlock dialect while event 10 is being written:
 *
 *      epoch   0    1    2    3    4    5    6    7
 *      seq     4    4    3    2    2    2    2    2        odd: epoch 2 is being written
 *      holds   8    9   (10)  3    4    5    6    7
 *
 * An epoch is 64 bytes, a cache line; event 9 of the ring above, suspended by thread 32614:
 *
 *      00  e7 e9 23 32 cb 07 00 00     time_ns         8569300969959
 *      08  66 7f 00 00 00 00 00 00     tid             32614
 *      10  10 b1 02 0e a4 55 00 00     address         0x55a40e02b110
 *      18  04 00 00 00 00 00 00 00     seq             4: the second lap
 *      20  31 bytes of payload, then is_active 0
 *
 * The reader waits for event `next` at its epoch. A smaller seq: it has not come. The right seq: it is there.
 * A larger seq: it was overwritten. In that case the whole ring is copied: eight loads at once take hardly
 * longer than one, and one by one a writer that goes on would overwrite the oldest event each time. Events
 * that are not in the copy are lost, and their number is known exactly: if 20 was wanted and the copy holds
 * 31 to 38, 11 are.
 *
 * An event is copied, then its seq is loaded again. In the seqlock dialect it must be the same. In the
 * document dialect that is not enough, because the old seq stands while the next lap is written over it. But
 * before event n + 8 is begun, event n + 7 is published: if that one has not come after the copy, nothing was
 * overwritten.
 */

#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/coro/station-read.h"

enum {
        EPOCHS = SPANPROF_STATION_EPOCHS,
        MAX_TID = 1 << 22,              /* the kernel's PID_MAX_LIMIT */
        MIN_EVENT_NS = 2,               /* no writer writes events faster */
        /* rounds of a race against one writer, before other stations are read */
        MAX_TURNS = 64,
        LAPPED = -1,                    /* the event was overwritten */
};

static uint64_t load_seq(const struct spanprof_station *station, unsigned epoch) {
        return __atomic_load_n(&station->epochs[epoch].seq, __ATOMIC_ACQUIRE);
}

/* Number of events written up to the one that @epoch holds; 0 = it holds none, or an impossible one. */
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

/* Whether no writer can have written so many. */
static bool is_absurd(uint64_t written, uint64_t now_ns) {
        return written > now_ns / MIN_EVENT_NS;
}

/* Events of the ring that can be read; see the top for the eighth of the document dialect. */
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

/* Copies word by word: the compiler may neither tear these loads nor repeat them after the check. */
static void copy_epoch(struct spanprof_epoch *to, const struct spanprof_epoch *from) {
        const uint64_t *words = (const uint64_t *)from;
        uint64_t copy[sizeof(*to) / sizeof(uint64_t)];

#pragma GCC unroll 8
        for (size_t i = 0; i < ARRAY_SIZE(copy); i++)
                copy[i] = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
        memcpy(to, copy, sizeof(*to));
}

/* Whether event @number, copied before this call, was not overwritten during the copy. */
static bool is_untouched(const struct spanprof_station *station, StationDialect dialect, uint64_t number) {
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (load_seq(station, station_epoch_of(dialect, number)) != station_seq_of(dialect, number))
                return false;
        return dialect != STATION_DIALECT_DOCUMENT ||
                load_seq(station, station_epoch_of(dialect, number + EPOCHS - 1)) <
                station_seq_of(dialect, number + EPOCHS - 1);
}

/* The same for an event in a copy of the ring, whose seq is right. */
static bool is_untouched_in(const StationRing *ring, StationDialect dialect, uint64_t number) {
        return dialect != STATION_DIALECT_DOCUMENT ||
                ring->after[station_epoch_of(dialect, number + EPOCHS - 1)] <
                station_seq_of(dialect, number + EPOCHS - 1);
}

/* Counts the events before @next as lost. */
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
                        return STATION_E_NONE;          /* the event came during or after the copy */
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

/* Compares words, of which the last overlaps: memcmp() would be a call for each event. */
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

/* Whether the seq is smaller than in the lap before: something else has written to the ring. */
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

/* Reads from a copy of the ring, since the writer has overwritten the event, or is about to. */
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
         * Events are written in order. A later event without the next one was not written by a writer.
         */
        if (written > state->next &&
            (is_absurd(written, now_ns) || !station_is_ready(station, dialect, state->next)))
                state->corrupt = true;
        else if (written > state->next)
                lose_until(state, written);
        for (unsigned i = 0; dialect == STATION_DIALECT_SEQLOCK && i < EPOCHS; i++)
                state->torn |= load_seq(station, i) % 2;
}
