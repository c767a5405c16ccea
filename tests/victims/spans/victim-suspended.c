/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Coroutines that are suspended, and a log of how long and where: truth for profiles of suspended time.
 *
 *      victim-suspended LOG [dialect]
 *
 * Prints `pid N`, and uses the CPU half of the time so that it is sampled. At the line `go` its coroutines
 * live, which takes about two seconds; then it writes LOG, prints `ok`, and goes on until SIGTERM. At `idle`
 * it uses the CPU no longer. A line of LOG: station,kind,address,sum_ns,since_ns,late_ns, one for each place
 * of each coroutine; since_ns: it is suspended there still; late_ns: so long after it had read the clock an
 * event of its end was in the station, at most: who looks meanwhile still sees it suspended. Kinds:
 *
 *      exact   three turns: seven events at most, which no reader can lose, however slow
 *      open    suspended once, and never resumed; the first one in memory where no code is
 *      lossy   a thousand events at once, of which a station keeps eight; the sum is what it was at most
 *      dying   dies while it is suspended; the sum is until then
 *
 * Events that are before `go` are none. Makes its own region, deleted right after it was mapped.
 */

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>

#include "station-region.h"
#include "station-writer.h"
#include "victim.h"

enum {
        EXACT = 24,
        OPEN = 6,
        LOSSY = 3,
        DYING = 3,
        ALL = EXACT + OPEN + LOSSY + DYING,
        PLACES = 3,
        TURNS = 3,
        BURST = 500
};

static struct spanprof_station_region *region;
static StationWriter writers[ALL];
static uint64_t sums[ALL][PLACES], since[ALL], late[ALL], heap_place;
static int at[ALL], document;
static volatile int idle;

STEP static void wait_for_reply(void) {
        KEEP_FRAME();
}

STEP static void wait_for_lock(void) {
        KEEP_FRAME();
        KEEP_FRAME();
}

STEP static void wait_for_turn(void) {
        KEEP_FRAME();
        KEEP_FRAME();
        KEEP_FRAME();
}

static uint64_t place_of(int station, int place) {
        void (*const places[PLACES])(void) = { wait_for_reply, wait_for_lock, wait_for_turn };

        return station == EXACT ? heap_place : (uint64_t)(uintptr_t)places[place];
}

static void suspend(int station, int place) {
        since[station] = victim_clock_ns(CLOCK_MONOTONIC);
        at[station] = place;
        station_writer_write(&writers[station], since[station], (uint64_t)syscall(SYS_gettid),
                             place_of(station, place), 0);
}

static void resume(int station) {
        uint64_t now = victim_clock_ns(CLOCK_MONOTONIC);

        sums[station][at[station]] += now - since[station];
        since[station] = 0;
        station_writer_write(&writers[station], now, (uint64_t)syscall(SYS_gettid), 0, 1);
        now = victim_clock_ns(CLOCK_MONOTONIC) - now;
        late[station] = now > late[station] ? now : late[station];
}

static void *burn(void *userdata) {
        sigset_t set;

        sigfillset(&set);
        pthread_sigmask(SIG_BLOCK, &set, NULL);         /* SIGTERM ends the other thread's wait for a line */
        while (!victim_stopped) {
                uint64_t end = victim_cpu_ns() + 5000000;

                while (victim_cpu_ns() < end && !idle)
                        ;
                usleep(5000);
        }
        return NULL;
}

static void live(void) {
        for (int i = EXACT; i < ALL; i++)
                suspend(i, 1);
        for (int turn = 0; turn < TURNS; turn++) {
                for (int i = 0; i < EXACT; i++)
                        suspend(i, (i + turn) % PLACES);
                usleep(200000);
                for (int i = EXACT; i-- > 0;) {
                        usleep(5000);
                        resume(i);
                }
                for (int i = EXACT + OPEN; i < EXACT + OPEN + LOSSY; i++)
                        for (int n = 0; n < BURST; n++) {
                                resume(i);
                                suspend(i, 1);
                        }
                usleep(200000);
        }
        for (int i = ALL - DYING; i < ALL; i++) {
                __atomic_store_n(&writers[i].station->is_dead, 1, __ATOMIC_SEQ_CST);
                sums[i][1] += victim_clock_ns(CLOCK_MONOTONIC) - since[i];
                since[i] = 0;
        }
}

static int write_log(const char *path) {
        FILE *log = fopen(path, "w");

        if (!log)
                return 1;
        for (int i = 0; i < ALL; i++)
                for (int place = 0; place < PLACES; place++) {
                        const char *kind = i < EXACT ? "exact"
                                : i < EXACT + OPEN   ? "open"
                                : i < ALL - DYING    ? "lossy"
                                                     : "dying";
                        uint64_t open_ns = at[i] == place ? since[i] : 0;

                        if (sums[i][place] || open_ns)
                                fprintf(log, "%d,%s,0x%" PRIx64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", i,
                                        kind, place_of(i, place), sums[i][place], open_ns, late[i]);
                }
        return fclose(log);
}

static void make_region(void) {
        region = station_region_map(ALL);
        for (int i = 0; i < ALL; i++) {
                struct spanprof_station *station = (struct spanprof_station *)region + 1 + i;

                writers[i] = (StationWriter){ .station = station, .document = document };
                station->probe_id = 0x9000 + (uint64_t)i;
                station->birth_ns = victim_clock_ns(CLOCK_MONOTONIC);
        }
        station_region_publish(region, ALL);
}

int main(int argc, char **argv) {
        struct sigaction stop = { .sa_handler = victim_on_stop };
        pthread_t burner;
        char line[16];

        if (argc < 2)
                return 2;
        document = argc > 2 && !strcmp(argv[2], "document");
        sigaction(SIGTERM, &stop, NULL);        /* ends the wait for a line */
        heap_place = (uint64_t)(uintptr_t)malloc(64);
        make_region();
        pthread_create(&burner, NULL, burn, NULL);
        printf("pid %d\n", (int)getpid());
        fflush(stdout);
        while (!victim_stopped && fgets(line, sizeof(line), stdin)) {
                if (!strcmp(line, "go\n")) {
                        live();
                        if (write_log(argv[1]))
                                return 1;
                }
                idle |= !strcmp(line, "idle\n");
                puts("ok");
                fflush(stdout);
        }
        victim_stopped = 1;
        pthread_join(burner, NULL);
        return 0;
}
