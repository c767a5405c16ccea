/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program whose coroutines publish stations, and that knows what it wrote. There are no real coroutines:
 * threads take turns writing the events of stations, which is all that a tracer sees of them.
 *
 *      victim-stations [key=value…]
 *
 *      coroutines=8 threads=1 turns=4          each thread gives each of its coroutines a turn; 8 events fit
 *                                              in a station
 *      awaits=1                                events of a turn: so many suspends and resumes
 *      pause=0                                 µs of sleep after each coroutine's turn
 *      together=US                             in a turn all coroutines of a thread resume, it sleeps for US
 *                                              microseconds, and all suspend
 *      rate=0                                  events a second of each thread at most, in turns that come on
 *                                              time
 *      wait=0                                  µs before the first turn
 *      dialect=seqlock|document
 *      hang=K                                  the last K coroutines end suspended and alive
 *      plain=K                                 leaves tracer_sleeping to the engine; turns end when the
 *                                              engine has set it to 0 K times, or is gone
 *      takes=0                                 leaves tracer_sleeping to the engine, for all turns
 *      payload=1                               each event carries bytes of its own
 *      end=exit|kill|torn|stop|hold            kill: SIGKILL itself; torn: in the middle of a write; hold:
 *                                              wait for a line
 *      status=0                                exit status
 *      truncate=1 garbage=1                    does that to the region when half of the turns are over
 *
 * Prints `ready`, at the end `wrote STATION N LAST` for each coroutine (N events, the number in the last
 * frame's address), `woke N REFUSED` (bytes for the engine, and those that its socket refused) and `done`.
 * Frames have the address 0x100000 × (station + 1) + turn.
 */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "station-writer.h"

static long coroutines = 8, threads = 1, turns = 4, awaits = 1, pause_us, wait_us, rate, document, hang,
            payload, status, cut, garbage, plain, takes = 1, together = -1;
static char end[16] = "exit";
static struct spanprof_station_region *region;
static StationWriter *writers;
static uint64_t *last;
static int wake_fd = -1;
static long n_taken_back;                /* with `plain`, by one thread */
static unsigned long n_woken, n_refused; /* atomic */
static pid_t engine;                     /* who started this program */
static size_t region_size;

static uint64_t now_ns(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void die(const char *what) {
        perror(what);
        exit(99);
}

/* As the SDKs do: map what the variables name, connect. */
static void attach(void) {
        const char *path = getenv("CTP_SHM_PATH"), *socket_path = getenv("CTP_SOCK_PATH"),
                   *max = getenv("CTP_MAX_STATIONS");
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd;

        if (!path || !max)
                die("not traced");
        region_size = 1024 + (size_t)atol(max) * 1024;
        fd = open(path, O_RDWR);
        region = mmap(NULL, region_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd < 0 || region == MAP_FAILED)
                die(path);
        close(fd);
        if (!socket_path)
                return;
        wake_fd = socket(AF_UNIX, SOCK_STREAM, 0);
        strncpy(address.sun_path, socket_path, sizeof(address.sun_path) - 1);
        if (connect(wake_fd, (struct sockaddr *)&address, sizeof(address)))
                die(socket_path);
        fcntl(wake_fd, F_SETFL, O_NONBLOCK);
}

static void write_byte(void) {
        __atomic_fetch_add(&n_woken, 1, __ATOMIC_RELAXED);
        if (write(wake_fd, "1", 1) != 1)
                __atomic_fetch_add(&n_refused, 1, __ATOMIC_RELAXED);
}

/* Writes a byte for each event that sees the flag, and never takes it back. */
static void wake_plainly(void) {
        static int was_set;
        int is_set = __atomic_load_n(&region->tracer_sleeping, __ATOMIC_ACQUIRE) == 1;

        if (is_set && wake_fd >= 0)
                write_byte();
        n_taken_back += was_set && !is_set;
        was_set = is_set;
}

/* A write(): a closed socket would end this program, as it ends those of the SDKs. */
static void wake(void) {
        uint32_t expected = 1;

        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (plain || !takes)
                wake_plainly();
        else if (__atomic_load_n(&region->tracer_sleeping, __ATOMIC_ACQUIRE) == 1 && wake_fd >= 0 &&
                 __atomic_compare_exchange_n(&region->tracer_sleeping, &expected, 0, 0, __ATOMIC_ACQ_REL,
                                             __ATOMIC_RELAXED))
                write_byte();
}

static void born(long i) {
        struct spanprof_station *stations = (struct spanprof_station *)region + 1;
        uint32_t index = __atomic_fetch_add(&region->allocated_count, 1, __ATOMIC_RELAXED);

        if (index >= region->max_stations)
                return;
        writers[i] = (StationWriter){ .station = &stations[index], .document = (int)document };
        stations[index].probe_id = 0x7000 + 16 * (uint64_t)i;
        stations[index].birth_ns = now_ns();
}

static void event(long i, uint64_t tid, uint64_t address, int active) {
        StationWriter *writer = &writers[i];
        struct spanprof_epoch *epoch;

        if (!writer->station)
                return;
        epoch = station_writer_begin(writer);
        if (payload)
                snprintf((char *)epoch->payload, sizeof(epoch->payload), "event %lu",
                         (unsigned long)writer->n_written);
        station_writer_fill(epoch, now_ns(), tid, address, active);
        station_writer_end(writer, epoch);
        last[i] = address ? address : last[i];
        wake();
}

static int has_turn(long turn) {
        return plain ? n_taken_back < plain && getppid() == engine : turn < turns;
}

/* See `together`. */
static void *take_turns_together(long first, uint64_t tid) {
        for (long turn = 0; has_turn(turn); turn++) {
                for (long i = first; i < coroutines; i += threads)
                        event(i, tid, 0, 1);
                usleep((useconds_t)together);
                for (long i = first; i < coroutines; i += threads)
                        event(i, tid, 0x100000 * (uint64_t)(i + 1) + (uint64_t)turn, 0);
        }
        return NULL;
}

static void *thread(void *userdata) {
        long first = (long)userdata;
        uint64_t tid = (uint64_t)syscall(SYS_gettid), begin = now_ns(), n = 0;

        if (together >= 0)
                return take_turns_together(first, tid);
        for (long turn = 0; has_turn(turn); turn++)
                for (long i = first; i < coroutines; i += threads) {
                        while (rate && now_ns() < begin + n * 1000000000 / (uint64_t)rate)
                                ;
                        n += 2 * (uint64_t)awaits;
                        for (long k = 0; k < awaits; k++) {
                                event(i, tid, 0x100000 * (uint64_t)(i + 1) + (uint64_t)turn, 0);
                                event(i, tid, 0, 1);
                        }
                        if (pause_us)
                                usleep((useconds_t)pause_us);
                        if (cut && turn == turns / 2) {
                                /*
                                 * from here on the stations behind are gone; touching them would end us, too
                                 */
                                if (truncate(getenv("CTP_SHM_PATH"), 1024))
                                        die("truncate");
                                puts("cut");
                                fflush(stdout);
                                return NULL;
                        }
                        if (garbage && turn == turns / 2 && i == first)
                                for (size_t at = 0; at < region_size; at++)
                                        ((uint8_t *)region)[at] = (uint8_t)random();
                }
        return NULL;
}

static void finish(void) {
        for (long i = 0; i < coroutines && !cut; i++) {
                if (i >= coroutines - hang)
                        event(i, (uint64_t)syscall(SYS_gettid), 0xDEAD000 + (uint64_t)i, 0);
                else if (writers[i].station)
                        writers[i].station->is_dead = 1;
        }
        for (long i = 0; i < coroutines; i++)
                if (writers[i].station)
                        printf("wrote %ld %lu 0x%lx\n",
                               (long)(writers[i].station - (struct spanprof_station *)region - 1),
                               (unsigned long)writers[i].n_written, (unsigned long)last[i]);
        printf("woke %lu %lu\n", n_woken, n_refused);
        puts("done");
        fflush(stdout);
}

static void leave(void) {
        char line[8];

        if (!strcmp(end, "torn"))
                station_writer_begin(&writers[0]);
        if (!strcmp(end, "torn") || !strcmp(end, "kill"))
                raise(SIGKILL);
        if (!strcmp(end, "hold"))
                (void)!fgets(line, sizeof(line), stdin);
        exit((int)status);
}

static void parse(int argc, char **argv) {
        const struct { const char *key; long *value;
        } numbers[] = {
                { "coroutines", &coroutines }, { "threads", &threads }, { "turns", &turns },
                { "awaits", &awaits },         { "pause", &pause_us },  { "rate", &rate },
                { "wait", &wait_us },          { "hang", &hang },       { "payload", &payload },
                { "status", &status },         { "truncate", &cut },    { "garbage", &garbage },
                { "plain", &plain },           { "takes", &takes },     { "together", &together },
        };

        for (int i = 1; i < argc; i++) {
                char *equals = strchr(argv[i], '=');

                if (!equals)
                        exit(2);
                *equals = 0;
                if (!strcmp(argv[i], "end"))
                        snprintf(end, sizeof(end), "%s", equals + 1);
                else if (!strcmp(argv[i], "dialect"))
                        document = !strcmp(equals + 1, "document");
                for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++)
                        if (!strcmp(argv[i], numbers[k].key))
                                *numbers[k].value = atol(equals + 1);
        }
}

int main(int argc, char **argv) {
        pthread_t ids[64];

        parse(argc, argv);
        engine = getppid();
        writers = calloc((size_t)coroutines, sizeof(*writers));
        last = calloc((size_t)coroutines, sizeof(*last));
        attach();
        for (long i = 0; i < coroutines; i++)
                born(i);
        puts("ready");
        fflush(stdout);
        if (wait_us)
                usleep((useconds_t)wait_us);
        for (long i = 0; i < threads && i < 64; i++)
                pthread_create(&ids[i], NULL, thread, (void *)i);
        for (long i = 0; i < threads && i < 64; i++)
                pthread_join(ids[i], NULL);
        finish();
        leave();
}
