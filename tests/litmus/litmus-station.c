/* SPDX-License-Identifier: Apache-2.0 */
/* The SDK's writer of stations, and the reader of them (see litmus.h). */
#include "litmus.h"

#define clock_gettime litmus_clock_gettime
#define send litmus_send
#include <sys/socket.h>
#include <time.h>
int litmus_clock_gettime(clockid_t id, struct timespec *time);
ssize_t litmus_send(int fd, const void *data, size_t size, int flags);

#include "coroutine.c"
#define accept accept_event             /* the C library has one */
#include "core/coro/station-read.c"
#include "host/coro/region.h"

#include "litmus-station.h"
#include "station-writer.h"

static struct spanprof_station_region a_region;
static struct spanprof_station a_station;
static struct spanprof_coroutine a_coroutine;
static StationWriter a_writer;
static uint64_t clock_ns, n_sent;

int litmus_clock_gettime(clockid_t id, struct timespec *time) {
        (void)id;
        *time = (struct timespec){ .tv_sec = (time_t)(clock_ns / NS_PER_SEC),
                                   .tv_nsec = (long)(clock_ns % NS_PER_SEC) };
        return 0;
}

ssize_t litmus_send(int fd, const void *data, size_t size, int flags) {
        (void)fd, (void)data, (void)size, (void)flags;
        n_sent++;
        return 1;
}

static void watch_epoch(struct spanprof_epoch *epoch) {
        litmus_watch(&epoch->time_ns, 8);
        litmus_watch(&epoch->tid, 8);
        litmus_watch(&epoch->address, 8);
        litmus_watch(&epoch->seq, 8);
        litmus_watch((char *)epoch + 56, 8);    /* is_active is in it; the reader loads words */
}

void litmus_station_prepare(bool document, unsigned n_events) {
        the_region = &a_region;
        the_stations = &a_station;
        n_stations = 1;
        wake_fd = 0;
        a_region = (struct spanprof_station_region){ 0 };
        a_station = (struct spanprof_station){ 0 };
        a_coroutine = (struct spanprof_coroutine){ .station = &a_station };
        a_writer = (StationWriter){ .station = &a_station, .document = document };
        for (unsigned i = 0; i < n_events; i++)
                (document ? litmus_document_write : litmus_station_write)(i);
        n_sent = 0;
}

/* Of the n-th event, all that tells it from others. */
enum { FIRST_NS = 1000000, FIRST_TID = 100, ADDRESS = 4096 };

void litmus_station_write(uint64_t number) {
        clock_ns = FIRST_NS + number;
        cached_tid = FIRST_TID + number;
        a_coroutine.n_events = number;
        put_event(&a_coroutine, ADDRESS * (number + 1), number / SPANPROF_STATION_EPOCHS % 2);
}

void litmus_document_write(uint64_t number) {
        a_writer.n_written = number;
        station_writer_write(&a_writer, FIRST_NS + number, FIRST_TID + number, ADDRESS * (number + 1),
                             number / SPANPROF_STATION_EPOCHS % 2);
}

void litmus_station_begin(void) {
        clock_ns = FIRST_NS;
        spanprof_coroutine_begin(&a_coroutine, LITMUS_ID);
}

void litmus_station_end(void) {
        spanprof_coroutine_end(&a_coroutine);
}

static int judge(StationDialect dialect, uint64_t next, const StationState *state, const CoroEvent *event) {
        uint64_t n = event->number;

        if (event->seq != station_seq_of(dialect, n) || event->time_ns != FIRST_NS + n ||
            event->tid != FIRST_TID + n || event->address != ADDRESS * (n + 1) ||
            event->active != n / SPANPROF_STATION_EPOCHS % 2 || state->next != n + 1 || n < next)
                return LITMUS_WRONG;
        return event->probe_id == LITMUS_ID && event->birth_ns == FIRST_NS ? LITMUS_NAMED : LITMUS_WHOLE;
}

int litmus_station_read(bool document, uint64_t next) {
        StationDialect dialect = document ? STATION_DIALECT_DOCUMENT : STATION_DIALECT_SEQLOCK;
        StationState state = { .next = next };
        StationRing ring = { 0 };
        int got = LITMUS_NOTHING;

        for (;;) {
                CoroEvent event;
                int r = station_next(&a_station, dialect, NS_PER_SEC, &state, &ring, &event);

                if (r == STATION_E_NONE)
                        return got;
                got = r ? LITMUS_WRONG : judge(dialect, next, &state, &event);
                if (got == LITMUS_WRONG)
                        return got;
                next = state.next;
        }
}

bool litmus_station_is_dead(void) {
        StationState state = { 0 };

        station_look(&a_station, &state);
        return state.dead;
}

void litmus_station_watch(unsigned epoch) {
        watch_epoch(&a_station.epochs[epoch]);
}

void litmus_station_watch_birth(void) {
        litmus_watch(&a_station.probe_id, 8);
        litmus_watch(&a_station.birth_ns, 8);
        litmus_watch(&a_region.allocated_count, 4);
}

void litmus_station_watch_death(void) {
        litmus_watch(&a_station.is_dead, 1);
}

void litmus_station_watch_sleep(void) {
        litmus_watch(&a_region.tracer_sleeping, 4);
}

void litmus_station_ask(void) {
        region_set_sleeping(&a_region, 1);
}

unsigned litmus_station_n_sent(void) {
        return (unsigned)n_sent;
}
