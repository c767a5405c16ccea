/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Coroutines that use the CPU, and a log of which ran when: truth for samples that name them.
 *
 *      victim-coroutines THREADS COROUTINES LOG [dialect]
 *
 * Each thread gives its coroutines turns, of 2, 3, 4 … ms; the last of each thread resumes the first of it in
 * the middle of its own turn (which stays resumed meanwhile). Coroutine 1 of each thread ends after 50 turns.
 * Makes its own region, deleted right after it was mapped. Prints `pid N` and, at SIGTERM, writes LOG:
 * station,tid,begin_ns,end_ns of each stretch in which that station was the innermost.
 */

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>

#include "station-region.h"
#include "station-writer.h"
#include "victim.h"

enum { MAX_STRETCHES = 1 << 16 };

typedef struct Stretch {
        uint32_t station, tid;
        uint64_t begin_ns, end_ns;
} Stretch;

typedef struct Thread {
        pthread_t id;
        unsigned first, n;              /* stations */
        uint32_t tid;
        Stretch *stretches;
        size_t n_stretches;
} Thread;

static struct spanprof_station_region *region;
static StationWriter *writers;
static int document;

STEP static void burn(uint64_t ns) {
        uint64_t end = victim_cpu_ns() + ns;

        KEEP_FRAME();
        while (victim_cpu_ns() < end)
                ;
}

static void born(unsigned index) {
        struct spanprof_station *station = (struct spanprof_station *)region + 1 + index;

        writers[index] = (StationWriter){ .station = station, .document = document };
        station->probe_id = 0x5000 + index;
        station->birth_ns = victim_clock_ns(CLOCK_MONOTONIC);
}

/* Return: the time in the event. */
static uint64_t event(Thread *thread, unsigned station, int active) {
        uint64_t now = victim_clock_ns(CLOCK_MONOTONIC);

        station_writer_write(&writers[station], now, thread->tid, active ? 0 : 0x100000 + station, active);
        return now;
}

static void stretch(Thread *thread, unsigned station, uint64_t begin_ns, uint64_t end_ns) {
        if (thread->n_stretches < MAX_STRETCHES)
                thread->stretches[thread->n_stretches++] = (Stretch){ station, thread->tid, begin_ns,
                                                                      end_ns };
}

static void turn(Thread *thread, unsigned k, int nested) {
        unsigned station = thread->first + k;
        uint64_t begin = event(thread, station, 1), inner_begin, inner_end;

        burn((2 + k) * 500000);
        if (nested) {
                inner_begin = event(thread, thread->first, 1);
                stretch(thread, station, begin, inner_begin);
                burn(1000000);
                inner_end = event(thread, thread->first, 0);
                stretch(thread, thread->first, inner_begin, inner_end);
                begin = inner_end;
        }
        burn((2 + k) * 500000);
        stretch(thread, station, begin, event(thread, station, 0));
}

static void *run(void *userdata) {
        Thread *thread = userdata;

        thread->tid = (uint32_t)syscall(SYS_gettid);
        for (unsigned n = 0; !victim_stopped; n++) {
                for (unsigned k = 0; k < thread->n && !victim_stopped; k++)
                        if (k != 1 || n < 50)
                                turn(thread, k, k && k == thread->n - 1);
                if (n == 50)
                        writers[thread->first + 1].station->is_dead = 1;
                burn(1000000);          /* between coroutines */
        }
        return NULL;
}

int main(int argc, char **argv) {
        unsigned n_threads = argc > 3 ? (unsigned)atoi(argv[1]) : 0,
                 n = argc > 3 ? (unsigned)atoi(argv[2]) : 0;
        Thread *threads = calloc(n_threads, sizeof(*threads));
        FILE *log;

        if (!n_threads || !n || !threads)
                return 2;
        document = argc > 4 && !strcmp(argv[4], "document");
        victim_stop_after(0);
        region = station_region_map(n_threads * n);
        station_region_publish(region, n_threads * n);
        writers = calloc(n_threads * n, sizeof(*writers));
        for (unsigned i = 0; i < n_threads * n; i++)
                born(i);
        printf("pid %d\n", (int)getpid());
        fflush(stdout);
        for (unsigned i = 0; i < n_threads; i++) {
                threads[i].first = i * n;
                threads[i].n = n;
                threads[i].stretches = calloc(MAX_STRETCHES, sizeof(Stretch));
                pthread_create(&threads[i].id, NULL, run, &threads[i]);
        }
        log = fopen(argv[3], "w");
        for (unsigned i = 0; i < n_threads; i++) {
                pthread_join(threads[i].id, NULL);
                for (size_t k = 0; k < threads[i].n_stretches; k++)
                        fprintf(log, "%u,%u,%lu,%lu\n", threads[i].stretches[k].station,
                                threads[i].stretches[k].tid, (unsigned long)threads[i].stretches[k].begin_ns,
                                (unsigned long)threads[i].stretches[k].end_ns);
        }
        return fclose(log) != 0;
}
