/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a sample costs between the ring buffer and the window: decode, frames, aggregate, in ns of this
 * thread's CPU. The stacks lie in the mapped files of this process.
 *
 *     known    stacks that the window has seen: one hash and one compare
 *     new      each stack is another one: all its frames are resolved
 *     past     new stacks from before the last change of mappings, which no cache may hold
 *
 * usage: sample-cost [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util/clock.h"
#include "base/util/macro.h"
#include "base/util/stat.h"
#include "sampling/aggregate/aggregate.h"

enum {
        N_FRAMES = 32,
        N_STACKS = 20000,
        N_KNOWN = 200,
        N_SAMPLES = 20000,              /* of one measurement, all in one window */
        MAX_ROUNDS = 1001,
        SAMPLE_NS = 1000,               /* between two samples */
};

/* One of the ring buffer: a struct abi_sample and its frames. */
typedef struct Record {
        uint64_t words[sizeof(struct abi_sample) / sizeof(uint64_t) + N_FRAMES];
} Record;

typedef struct Bench {
        ObjectCache *objects;
        Process *process;
        Publication publication;
        Frames *frames;
        Aggregator *aggregator;
        Record *records;
        uint64_t end_ns;                /* of the last window */
} Bench;

static uint64_t random_below(uint64_t limit) {
        static uint64_t state = 88172645463325252u;

        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state % limit;
}

/* As stacks are: several frames in a row in one file. */
static void make_record(const Process *process, Record *record) {
        struct abi_sample *header = (struct abi_sample *)record->words;
        const Mapping *mapping = NULL;

        *header = (struct abi_sample){ .value = 1, .generation = 1, .tgid = process->pid,
                                       .tid = process->pid, .n_user = N_FRAMES, .kind = ABI_KIND_CPU,
                                       .stack_end = ABI_STACK_FP_END, .context = ABI_CONTEXT_UNPUBLISHED,
                                       .comm = "bench" };
        for (unsigned i = 0; i < N_FRAMES; i++) {
                while (!mapping || !mapping->object || !random_below(4))
                        mapping = &process->mappings[random_below(process->n_mappings)];
                header->frames[i] = mapping->start + 64 + random_below(mapping->end - mapping->start - 64);
        }
}

/* As in the daemon, where frames ask for it when one is outside of all mappings. */
static int refresh(void *userdata, Process *process) {
        return 1;
}

static int make(Bench *bench) {
        int r = object_cache_new(&bench->objects, 64);

        if (!r)
                r = process_new(&bench->process, getpid());
        if (!r)
                r = process_read_mappings(bench->process, bench->objects);
        if (!r)
                r = frames_new(&bench->frames);
        if (!r)
                r = aggregator_new(&bench->aggregator, bench->frames, 1);
        bench->records = calloc(N_STACKS, sizeof(*bench->records));
        if (r || !bench->records)
                return 1;
        frames_set_refresh(bench->frames, refresh, NULL);
        bench->end_ns = clock_monotonic_ns();
        mapping_history_publish(&bench->process->history, bench->end_ns);
        for (unsigned i = 0; i < N_STACKS; i++)
                make_record(bench->process, &bench->records[i]);
        return 0;
}

static int add(Bench *bench, const Record *record) {
        Sample sample;

        if (decode_sample(record, sizeof(*record), &sample))
                return 1;
        return aggregator_add(bench->aggregator, &(Program){ bench->process, &bench->publication }, &sample);
}

/* Return: ns of CPU a sample; below 0 = it failed. */
static double measure(Bench *bench, unsigned n_stacks) {
        uint64_t begin_ns, time_ns = bench->end_ns, cpu_ns;
        Window *window;
        int r = 0;

        for (unsigned i = 0; i < n_stacks; i++)         /* stacks and clock are not what is measured */
                ((struct abi_sample *)bench->records[i].words)->time_ns = time_ns += SAMPLE_NS;
        begin_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
        for (unsigned i = 0; i < N_SAMPLES && !r; i++)
                r = add(bench, &bench->records[i % n_stacks]);
        cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
        bench->end_ns = time_ns + SAMPLE_NS;
        if (!r)
                r = aggregator_rotate(bench->aggregator, bench->end_ns, 1, &window);
        if (r)
                return -1;
        window_free(window);
        return (double)cpu_ns / N_SAMPLES;
}

/* Something was mapped a moment ago, and the kernel half has not been told. */
static int change_mappings(Bench *bench) {
        Mapping mapping = { .start = 4096, .end = 8192, .kind = MAPPING_ANONYMOUS, .path = strdup("") };
        int r = process_change(bench->process, &mapping, clock_monotonic_ns() + NS_PER_SEC);

        if (r)
                return r;
        mapping = (Mapping){ .start = 4096, .end = 8192, .kind = MAPPING_UNREADABLE, .path = strdup("a") };
        return process_change(bench->process, &mapping, clock_monotonic_ns() + 2 * NS_PER_SEC);
}

static int compare(const void *a, const void *b) {
        return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

static void print(const char *what, double *values, unsigned n) {
        qsort(values, n, sizeof(*values), compare);
        printf("%-6s %5.0f ns/sample [%.0f … %.0f]\n", what, values[n / 2], values[0], values[n - 1]);
}

int main(int argc, char **argv) {
        unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 51;
        static double known[MAX_ROUNDS], fresh[MAX_ROUNDS], past[MAX_ROUNDS];
        Bench bench = { 0 };

        if (!rounds || rounds > MAX_ROUNDS || make(&bench))
                return 1;
        for (unsigned i = 0; i < rounds; i++) {
                known[i] = measure(&bench, N_KNOWN);
                fresh[i] = measure(&bench, N_STACKS);
        }
        if (change_mappings(&bench))
                return 1;
        for (unsigned i = 0; i < rounds; i++)
                past[i] = measure(&bench, N_STACKS);
        print("known", known, rounds);
        print("new", fresh, rounds);
        print("past", past, rounds);
        aggregator_free(bench.aggregator);
        frames_free(bench.frames);
        process_free(bench.process);
        object_cache_free(bench.objects);
        free(bench.records);
        return known[0] < 0 || fresh[0] < 0 || past[0] < 0 || stat_get(COUNTER_LOST_WINDOW_FULL);
}
