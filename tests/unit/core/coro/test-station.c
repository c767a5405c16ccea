/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/coro/station-read.h"
#include "station-writer.h"

#define NOW UINT64_C(1000000000000)

static struct spanprof_station *station_new(void) {
        struct spanprof_station *station = aligned_alloc(1024, sizeof(*station));

        memset(station, 0, sizeof(*station));
        return station;
}

static StationDialect dialect_of(int document) {
        return document ? STATION_DIALECT_DOCUMENT : STATION_DIALECT_SEQLOCK;
}

/* Writes events whose fields all tell their number. */
static void write_events(StationWriter *writer, unsigned n) {
        for (; n; n--) {
                uint64_t k = writer->n_written;

                station_writer_write(writer, 1000 + k, 1 + k % 1000, 0x1000 * k, k % 2);
        }
}

/* Reads as a reader that leaves the station after each event. */
static int next_event(const struct spanprof_station *station, StationDialect dialect, StationState *state,
                      CoroEvent *event) {
        StationRing ring = { 0 };

        return station_next(station, dialect, NOW, state, &ring, event);
}

static void expect_event(const CoroEvent *event, uint64_t k) {
        cr_expect_eq(event->number, k);
        cr_expect_eq(event->time_ns, 1000 + k);
        cr_expect_eq(event->tid, 1 + k % 1000);
        cr_expect_eq(event->address, 0x1000 * k);
        cr_expect_eq(event->active, k % 2);
}

static uint64_t accounted(const StationState *state) {
        return state->n_skipped + state->n_read + state->n_lost + state->n_rejected;
}

ParameterizedTestParameters(station, reads_each_event_once_and_in_order) {
        static int kinds[] = { 0, 1 };

        return cr_make_param_array(int, kinds, 2);
}

ParameterizedTest(int *document, station, reads_each_event_once_and_in_order) {
        StationWriter writer = { .station = station_new(), .document = *document };
        StationState state = { 0 };
        CoroEvent event;
        uint64_t k = 0;

        for (unsigned turn = 0; turn < 40; turn++) {
                write_events(&writer, turn % 7);        /* up to 6: what both dialects keep */
                while (!next_event(writer.station, dialect_of(*document), &state, &event))
                        expect_event(&event, k++);
                cr_assert_eq(k, writer.n_written);
        }
        cr_expect_eq(state.n_lost, 0);
        cr_expect_eq(accounted(&state), writer.n_written);
        free(writer.station);
}

Test(station, tells_the_seq_of_each_dialect) {
        StationWriter lock = { .station = station_new() },
                      document = { .station = station_new(), .document = 1 };
        StationState a = { 0 }, b = { 0 };
        CoroEvent event;

        write_events(&lock, 12);
        write_events(&document, 5);
        cr_assert_eq(next_event(lock.station, STATION_DIALECT_SEQLOCK, &a, &event), 0);
        cr_expect_eq(event.number, 4);
        cr_expect_eq(event.seq, 2);
        for (int i = 0; i < 4; i++)
                next_event(lock.station, STATION_DIALECT_SEQLOCK, &a, &event);
        cr_expect_eq(event.number, 8);
        cr_expect_eq(event.seq, 4);
        cr_assert_eq(next_event(document.station, STATION_DIALECT_DOCUMENT, &b, &event), 0);
        cr_expect_eq(event.seq, 1);
        free(lock.station);
        free(document.station);
}

ParameterizedTestParameters(station, counts_what_was_overwritten_to_the_event) {
        static int kinds[] = { 0, 1 };

        return cr_make_param_array(int, kinds, 2);
}

ParameterizedTest(int *document, station, counts_what_was_overwritten_to_the_event) {
        const unsigned kept = *document ? 7 : 8;

        for (unsigned n = 1; n < 70; n++) {
                StationWriter writer = { .station = station_new(), .document = *document };
                StationState state = { 0 };
                CoroEvent event;
                uint64_t first = n > kept ? n - kept : 0;

                write_events(&writer, n);
                cr_assert_eq(next_event(writer.station, dialect_of(*document), &state, &event), 0);
                expect_event(&event, first);
                cr_expect_eq(event.n_lost, first, "%u", n);
                while (!next_event(writer.station, dialect_of(*document), &state, &event))
                        cr_expect_eq(event.n_lost, 0);
                cr_expect_eq(state.n_lost, first);
                cr_expect_eq(accounted(&state), n);
                free(writer.station);
        }
}

/* Both writers at every point of their first 200 events, also in the middle of a write. */
Test(station, tells_the_dialects_apart_at_each_moment) {
        for (int document = 0; document < 2; document++) {
                StationWriter writer = { .station = station_new(), .document = document };

                cr_expect_eq(station_dialect(writer.station), STATION_DIALECT_UNKNOWN);
                for (unsigned i = 0; i < 200; i++) {
                        struct spanprof_epoch *epoch = station_writer_begin(&writer);

                        if (i || !document)
                                cr_expect_eq(station_dialect(writer.station), dialect_of(document), "%d %u",
                                             document, i);
                        station_writer_fill(epoch, 1, 1, 1, 1);
                        station_writer_end(&writer, epoch);
                        cr_expect_eq(station_dialect(writer.station), dialect_of(document), "%d %u", document,
                                     i);
                }
                free(writer.station);
        }
}

Test(station, does_not_wait_for_a_write_that_never_ends) {
        StationWriter writer = { .station = station_new() };
        StationState state = { 0 };
        CoroEvent event;
        unsigned n = 0;

        write_events(&writer, 10);
        station_writer_begin(&writer);          /* of event 10, over event 2 */
        while (!next_event(writer.station, STATION_DIALECT_SEQLOCK, &state, &event))
                expect_event(&event, 3 + n++);
        cr_expect_eq(n, 7);
        cr_expect_not(state.torn);
        station_finish(writer.station, STATION_DIALECT_SEQLOCK, NOW, &state);
        cr_expect(state.torn);
        cr_expect_not(state.corrupt);
        cr_expect_eq(state.n_lost, 3);
        cr_expect_eq(accounted(&state), 10);
        free(writer.station);
}

/* In the document dialect the old seq stands while event n + 8 is written over event n. */
Test(station, does_not_believe_a_seq_that_stands_over_a_new_payload) {
        StationWriter writer = { .station = station_new(), .document = 1 };
        StationState state = { 0 };
        CoroEvent event;

        write_events(&writer, 8);
        station_writer_fill(station_writer_begin(&writer), 77, 77, 77, 1);     /* of event 8, over event 0 */
        cr_assert_eq(next_event(writer.station, STATION_DIALECT_DOCUMENT, &state, &event), 0);
        expect_event(&event, 1);
        cr_expect_eq(event.n_lost, 1);
        free(writer.station);
}

Test(station, rejects_what_no_writer_writes) {
        static const struct { uint64_t time_ns, tid; int active;
        } bad[] = {
                { 1000, 0, 1 }, { 1000, (1 << 22) + 1, 1 }, { 1000, 5, 2 },
                { 0, 5, 1 },    { NOW + 1000000000, 5, 0 },
        };
        StationWriter writer = { .station = station_new() };
        StationState state = { 0 };
        CoroEvent event, untouched;

        memset(&event, 0x5A, sizeof(event));
        memset(&untouched, 0x5A, sizeof(untouched));
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                station_writer_write(&writer, bad[i].time_ns, bad[i].tid, 1, bad[i].active);
                cr_expect_eq(next_event(writer.station, STATION_DIALECT_SEQLOCK, &state, &event),
                             STATION_E_REJECTED);
                cr_expect_eq(memcmp(&event, &untouched, sizeof(event)), 0);
        }
        cr_expect_eq(state.n_rejected, 5);
        cr_expect_eq(state.n_read, 0);
        station_writer_write(&writer, 1000, 1 << 22, 1, 1);
        cr_expect_eq(next_event(writer.station, STATION_DIALECT_SEQLOCK, &state, &event), 0);
        cr_expect_eq(accounted(&state), 6);
        free(writer.station);
}

ParameterizedTestParameters(station, gives_up_on_numbers_that_no_writer_reaches) {
        static int kinds[] = { 0, 1 };

        return cr_make_param_array(int, kinds, 2);
}

ParameterizedTest(int *document, station, gives_up_on_numbers_that_no_writer_reaches) {
        static const uint64_t seqs[] = { UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 63, NOW + 2, 4096 * NOW };

        for (size_t i = 0; i < sizeof(seqs) / sizeof(seqs[0]); i++) {
                StationWriter writer = { .station = station_new(), .document = *document };
                StationState state = { 0 };
                CoroEvent event;

                writer.station->epochs[*document].seq = seqs[i];
                cr_expect_eq(next_event(writer.station, dialect_of(*document), &state, &event),
                             STATION_E_CORRUPT, "%zu", i);
                cr_expect(state.corrupt);
                cr_expect_eq(state.n_lost, 0);
                free(writer.station);
        }
}

ParameterizedTestParameters(station, gives_up_when_numbers_go_back) {
        static int kinds[] = { 0, 1 };

        return cr_make_param_array(int, kinds, 2);
}

ParameterizedTest(int *document, station, gives_up_when_numbers_go_back) {
        StationWriter writer = { .station = station_new(), .document = *document };
        StationState state = { 0 };
        CoroEvent event;

        write_events(&writer, 30);
        while (!next_event(writer.station, dialect_of(*document), &state, &event))
                ;
        memset(writer.station, 0, sizeof(*writer.station));
        cr_expect_eq(next_event(writer.station, dialect_of(*document), &state, &event), STATION_E_CORRUPT);
        cr_expect_eq(accounted(&state), 30);
        free(writer.station);
}

Test(station, starts_late_without_calling_it_a_loss) {
        StationWriter writer = { .station = station_new() };
        StationState state = { 0 };
        CoroEvent event;

        write_events(&writer, 100);
        station_begin(writer.station, STATION_DIALECT_SEQLOCK, NOW, &state);
        cr_expect_eq(state.n_skipped, 92);
        cr_assert_eq(next_event(writer.station, STATION_DIALECT_SEQLOCK, &state, &event), 0);
        expect_event(&event, 92);
        cr_expect_eq(event.n_lost, 0);
        while (!next_event(writer.station, STATION_DIALECT_SEQLOCK, &state, &event))
                ;
        cr_expect_eq(accounted(&state), 100);
        free(writer.station);
}

Test(station, knows_names_that_come_after_the_first_event) {
        StationWriter writer = { .station = station_new() };
        StationState state = { 0 };
        CoroEvent event;

        write_events(&writer, 1);
        next_event(writer.station, STATION_DIALECT_SEQLOCK, &state, &event);
        cr_expect_eq(event.probe_id, 0);
        writer.station->probe_id = 0xABC;
        writer.station->birth_ns = 999;
        memcpy(writer.station->epochs[1].payload, "note", 4);
        write_events(&writer, 1);
        next_event(writer.station, STATION_DIALECT_SEQLOCK, &state, &event);
        cr_expect_eq(event.probe_id, 0xABC);
        cr_expect_eq(event.birth_ns, 999);
        cr_expect(event.has_payload);
        cr_expect_eq(memcmp(event.payload, "note\0\0", 6), 0);
        cr_expect_eq(state.n_migrations, 1);    /* tid 1, then 2 */
        free(writer.station);
}

/* A writer that never waits: each event tells its number in all fields, so a torn copy would show. */
typedef struct Race {
        StationWriter writer;
        uint64_t n;
} Race;

static void *race_write(void *userdata) {
        Race *race = userdata;

        while (race->writer.n_written < race->n) {
                uint64_t k = race->writer.n_written;

                station_writer_write(&race->writer, 1000 + k, 1 + k % 1000, 0x1000 * k, k % 2);
                for (volatile unsigned wait = 0; wait < k % 64; wait++)
                        ;
        }
        return NULL;
}

ParameterizedTestParameters(station, never_takes_a_torn_event_from_a_racing_writer) {
        static int kinds[] = { 0, 1 };

        return cr_make_param_array(int, kinds, 2);
}

ParameterizedTest(int *document, station, never_takes_a_torn_event_from_a_racing_writer) {
        Race race = { .writer = { .station = station_new(), .document = *document }, .n = 2000000 };
        StationState state = { 0 };
        StationRing ring = { 0 };
        uint64_t last = 0;
        pthread_t thread;
        CoroEvent event;

        pthread_create(&thread, NULL, race_write, &race);
        while (state.next < race.n) {
                int r = station_next(race.writer.station, dialect_of(*document), NOW, &state, &ring, &event);

                cr_assert(r == 0 || r == STATION_E_NONE, "%d", r);
                if (r)
                        continue;
                cr_assert(!last || event.number > last);
                last = event.number;
                expect_event(&event, last);
        }
        pthread_join(thread, NULL);
        station_finish(race.writer.station, dialect_of(*document), NOW, &state);
        cr_expect_eq(accounted(&state), race.n);
        cr_expect_eq(last, race.n - 1);
        cr_expect_gt(state.n_read, 0);
        free(race.writer.station);
}
