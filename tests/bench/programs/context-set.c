/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What publishing a span, and reading it back, costs
 *
 * ns per call, in one process and one run, interleaved: an empty call, the SDK in each of its storages, and
 * its rivals, which are the protocols written down straight: the ring, once with a system call for the thread
 * id at each call and once with the id remembered; the record of profiler mode with its checksum.
 *
 * usage: context-set [ROUNDS]      (default 21)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "spanprof/context-api.h"
#include "spanprof/context.h"
#include "spanprof/otel.h"
#include "spanprof/ring.h"

enum {
        CAPACITY = 65536,
        N_SETS = 1000000,       /* in one round */
        MAX_ROUNDS = 1001,
};

static struct spanprof_ring_slot *plain_slots;
static _Thread_local uint32_t cached_tid;

static inline void plain_write(uint32_t tid, uint64_t high, uint64_t low, uint64_t span) {
        struct spanprof_ring_slot *slot = &plain_slots[tid % CAPACITY];

        __atomic_store_n(&slot->in_use, 1, __ATOMIC_RELEASE);
        __atomic_store_n(&slot->trace_id_high, high, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->trace_id_low, low, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->span_id, span, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->in_use, 0, __ATOMIC_RELEASE);
}

static __attribute__((__noinline__)) void set_empty(uint64_t high, uint64_t low, uint64_t span) {
        __asm__ volatile("" : : "r"(high), "r"(low), "r"(span));
}

static __attribute__((__noinline__)) void set_plain_gettid(uint64_t high, uint64_t low, uint64_t span) {
        plain_write((uint32_t)syscall(SYS_gettid), high, low, span);
}

static __attribute__((__noinline__)) void set_plain_cached(uint64_t high, uint64_t low, uint64_t span) {
        if (cached_tid == 0)
                cached_tid = (uint32_t)syscall(SYS_gettid);
        plain_write(cached_tid, high, low, span);
}

static _Thread_local struct {
        uint64_t span, root, checksum;
} plain_local;

static __attribute__((__noinline__)) void set_plain_local(uint64_t high, uint64_t low, uint64_t span) {
        uint64_t swapped = low << 32 | low >> 32,
                 checksum = (span * 0x9E3779B97F4A7C15) ^ (swapped * 0x9E3779B97F4A7C15);

        (void)high;
        __atomic_store_n(&plain_local.checksum, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&plain_local.span, span, __ATOMIC_RELAXED);
        __atomic_store_n(&plain_local.root, low, __ATOMIC_RELAXED);
        __atomic_store_n(&plain_local.checksum, checksum ? checksum : 1, __ATOMIC_RELEASE);
}

static __attribute__((__noinline__)) void get_sdk(uint64_t high, uint64_t low, uint64_t span) {
        uint64_t root;

        if (!spanprof_api_get(&span, &root))
                abort();
        __asm__ volatile("" : : "r"(span), "r"(root));
}

static __attribute__((__noinline__)) void get_plain_gettid(uint64_t high, uint64_t low, uint64_t span) {
        const struct spanprof_ring_slot *slot = &plain_slots[(uint32_t)syscall(SYS_gettid) % CAPACITY];

        if (__atomic_load_n(&slot->in_use, __ATOMIC_ACQUIRE))
                abort();
        low = __atomic_load_n(&slot->trace_id_low, __ATOMIC_RELAXED);
        span = __atomic_load_n(&slot->span_id, __ATOMIC_RELAXED);
        __asm__ volatile("" : : "r"(low), "r"(span));
}

static const struct variant {
        const char *name;
        void (*set)(uint64_t high, uint64_t low, uint64_t span);
        uint32_t storage;               /* that the SDK is started with */
} variants[] = {
        { "empty call", set_empty, SPANPROF_CONTEXT_RING },
        { "SDK, ring", spanprof_context_set, SPANPROF_CONTEXT_RING },
        { "straight ring, id remembered", set_plain_cached, SPANPROF_CONTEXT_RING },
        { "straight ring, gettid each", set_plain_gettid, SPANPROF_CONTEXT_RING },
        { "SDK, thread context", spanprof_otel_set, SPANPROF_CONTEXT_RING },
        { "SDK, thread, by context_set", spanprof_context_set, SPANPROF_CONTEXT_THREAD },
        { "SDK, profiler mode", spanprof_context_set, SPANPROF_CONTEXT_PROFILER },
        { "straight profiler mode", set_plain_local, SPANPROF_CONTEXT_RING },
        { "get: SDK, ring", get_sdk, SPANPROF_CONTEXT_RING },
        { "get: straight, gettid each", get_plain_gettid, SPANPROF_CONTEXT_RING },
        { "get: SDK, profiler mode", get_sdk, SPANPROF_CONTEXT_PROFILER },
};

enum { N_VARIANTS = sizeof(variants) / sizeof(variants[0]) };

static double results[N_VARIANTS][MAX_ROUNDS];

static double time_round(const struct variant *variant) {
        struct spanprof_context_options options = { .size = sizeof(options), .storage = variant->storage };
        struct timespec start, end;

        spanprof_context_stop();
        if (spanprof_context_start(&options))
                abort();
        spanprof_context_set(1, 2, 3);  /* what the first set of a thread costs is another question */
        variant->set(1, 2, 3);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
        for (uint64_t i = 0; i < N_SETS; i++)
                variant->set(i, i + 1, i + 2);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        return ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / N_SETS;
}

static int compare(const void *a, const void *b) {
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

int main(int argc, char **argv) {
        int n_rounds = argc > 1 ? atoi(argv[1]) : 21;

        if (n_rounds < 1 || n_rounds > MAX_ROUNDS) {
                fprintf(stderr, "usage: context-set [ROUNDS]   (1 … %d)\n", MAX_ROUNDS);
                return 2;
        }
        plain_slots = mmap(NULL, (size_t)CAPACITY * sizeof(*plain_slots), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (plain_slots == MAP_FAILED)
                return 1;
        for (int round = 0; round < n_rounds; round++)
                for (int v = 0; v < N_VARIANTS; v++) {
                        /* there and back: drift hits all alike */
                        int nth = round % 2 ? N_VARIANTS - 1 - v : v;

                        results[nth][round] = time_round(&variants[nth]);
                }
        printf("%-28s %8s %8s %8s   ns per call, %d rounds of %d\n", "", "min", "median", "max", n_rounds,
               N_SETS);
        for (int v = 0; v < N_VARIANTS; v++) {
                qsort(results[v], (size_t)n_rounds, sizeof(double), compare);
                printf("%-28s %8.2f %8.2f %8.2f\n", variants[v].name, results[v][0], results[v][n_rounds / 2],
                       results[v][n_rounds - 1]);
        }
        return 0;
}
