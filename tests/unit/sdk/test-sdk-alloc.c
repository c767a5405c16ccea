/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libspanprof-alloc under names and with probes of the test: what is told, of allocations whose sizes and
 * number the test knows. Draws begin at a seed, so each run draws the same.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static void probe_alloc(const void *pointer, size_t size, uint64_t weight);
static void probe_free(const void *pointer);

#define ALLOC_NAME(name) told_##name
void *told_malloc(size_t size);
void told_free(void *pointer);
void *told_calloc(size_t n, size_t size);
void *told_realloc(void *pointer, size_t size);
void *told_reallocarray(void *pointer, size_t n, size_t size);
void *told_aligned_alloc(size_t alignment, size_t size);
void *told_memalign(size_t alignment, size_t size);
int told_posix_memalign(void **pointerp, size_t alignment, size_t size);
#include "alloc/alloc.c"

#include <criterion/criterion.h>
#include <math.h>
#include <sys/wait.h>

enum { MAX_TOLD = 1 << 17, N_CLASSES = 4 };

static const void *allocated[MAX_TOLD], *freed[MAX_TOLD];
static _Atomic size_t n_allocated, n_freed;
static double sum_bytes[N_CLASSES], sum_objects[N_CLASSES];
static size_t last_size;
static uint64_t last_weight;

static size_t class_of(size_t size) {
        return size < 64 ? 0 : size < 4096 ? 1 : size < 65536 ? 2 : 3;
}

static void probe_alloc(const void *pointer, size_t size, uint64_t weight) {
        size_t i = atomic_fetch_add(&n_allocated, 1);

        if (i < MAX_TOLD)
                allocated[i] = pointer;
        sum_bytes[class_of(size)] += (double)weight;
        sum_objects[class_of(size)] += (double)weight / (double)size;
        last_size = size;
        last_weight = weight;
}

static void probe_free(const void *pointer) {
        size_t i = atomic_fetch_add(&n_freed, 1);

        if (i < MAX_TOLD)
                freed[i] = pointer;
}

static void look(size_t mean_bytes, uint64_t seed) {
        spanprof_alloc_semaphore = spanprof_free_semaphore = 1;
        mean = (double)mean_bytes;
        mine.distance = 0;
        mine.random = seed;
}

/* Makes one byte in one drawn: each allocation of 50 bytes and more is told. */
static void look_at_all(void) {
        look(1, 7);
}

/* The table's entries, by counting all of them. */
static size_t n_in_table(void) {
        size_t n = 0, n_hashed = 0;

        for (size_t i = 0; i < N_BUCKETS; i++) {
                n_hashed += n_with_hash[i];
                for (size_t j = 0; j < N_WAYS; j++)
                        n += buckets[i][j] != 0;
        }
        cr_assert(n == n_hashed, "%zu in the table, %zu by their hashes", n, n_hashed);
        return n;
}

Test(alloc, arithmetic_is_that_of_the_c_library) {
        for (double x = 1e-9; x < 100; x *= 1.01) {
                cr_assert(fabs(probability(x) + expm1(-x)) <= 1e-13 * -expm1(-x), "1 - e^-%g", x);
                cr_assert(fabs(logarithm(x) - log(x)) <= 1e-12 * (1 + fabs(log(x))), "ln %g", x);
        }
}

/* 10⁶ allocations of mixed sizes: what is told weighs what was allocated, for each class of sizes. */
Test(alloc, weights_are_unbiased) {
        double bytes[N_CLASSES] = { 0 }, objects[N_CLASSES] = { 0 };
        double variance_bytes[N_CLASSES] = { 0 }, variance_objects[N_CLASSES] = { 0 };
        uint64_t state = 1;

        look(32768, 20);
        for (int i = 0; i < 1000000; i++) {
                size_t size;
                double p;

                state = state * 6364136223846793005 + 1442695040888963407;
                size = 1 + (size_t)(state >> 33) % (1u << (4 + (state >> 20) % 14));     /* 1 to 128 KiB */
                p = -expm1(-(double)size / 32768);
                bytes[class_of(size)] += (double)size;
                objects[class_of(size)]++;
                variance_bytes[class_of(size)] += (double)size * (double)size * (1 - p) / p;
                variance_objects[class_of(size)] += (1 - p) / p;
                told_free(told_malloc(size));
        }
        for (size_t i = 0; i < N_CLASSES; i++) {
                double sigma = sqrt(variance_bytes[i]), sigma_objects = sqrt(variance_objects[i]);

                cr_log_info("class %zu: %.0f bytes, told %.0f, sigma %.0f", i, bytes[i], sum_bytes[i], sigma);
                cr_assert(objects[i] > 10000);
                cr_assert(fabs(sum_bytes[i] - bytes[i]) <= 2 * sigma,
                          "class %zu: %.0f bytes, told %.0f ± %.0f", i, bytes[i], sum_bytes[i], sigma);
                cr_assert(fabs(sum_objects[i] - objects[i]) <= 2 * sigma_objects,
                          "class %zu: %.0f objects, told %.0f ± %.0f", i, objects[i], sum_objects[i],
                          sigma_objects);
        }
        cr_assert(n_allocated > 10000 && n_allocated == n_freed, "%zu told, %zu freed", n_allocated, n_freed);
        cr_assert(n_in_table() == 0);
}

/* The same with each of 100 seeds: a bias of a tenth of σ would show in the mean, and σ itself is right. */
Test(alloc, errors_spread_as_they_must) {
        double sum = 0, squares = 0, z, p = -expm1(-0.25);

        for (uint64_t seed = 1; seed <= 400; seed++) {
                look(4096, seed << 32);
                sum_bytes[1] = 0;
                for (int i = 0; i < 4000; i++)
                        told_free(told_malloc(1024));
                z = (sum_bytes[1] - 4000 * 1024.0) / sqrt(4000 * 1024.0 * 1024.0 * (1 - p) / p);
                sum += z;
                squares += z * z;
        }
        cr_assert(fabs(sum / 400) < 0.1, "mean error %.3f sigma", sum / 400);
        cr_assert(fabs(squares / 400 - 1) < 0.15, "variance is %.3f of what it must be", squares / 400);
}

Test(alloc, frees_are_told_of_told_ones_alone) {
        static void *live[100000];
        size_t n_matched = 0;

        look(4096, 3);
        for (size_t i = 0; i < 100000; i++)
                live[i] = told_malloc(100);
        cr_assert(n_allocated > 1000 && n_allocated < 5000);
        cr_assert(n_in_table() == n_allocated && n_freed == 0);
        for (size_t i = 0; i < 100000; i++) {
                size_t before = n_freed;

                told_free(live[i]);
                cr_assert(n_freed <= before + 1);
                if (n_freed == before)
                        continue;
                cr_assert(freed[before] == live[i]);
                cr_assert(n_matched < n_allocated && allocated[n_matched] == live[i], "not told, or twice");
                n_matched++;
        }
        cr_assert(n_matched == n_allocated && n_in_table() == 0);
}

Test(alloc, nobody_looks_nothing_is_told) {
        void *pointer;

        look_at_all();
        spanprof_alloc_semaphore = 0;
        pointer = told_malloc(100);
        cr_assert(pointer && n_allocated == 0 && n_in_table() == 0);
        told_free(pointer);
        cr_assert(n_freed == 0);
}

/* One that looks begins between an allocation and its free, and another one ends so. */
Test(alloc, frees_are_told_while_it_was_looked) {
        void *before, *during;

        look_at_all();
        spanprof_alloc_semaphore = 0;
        before = told_malloc(100);
        spanprof_alloc_semaphore = 1;
        during = told_malloc(100);
        told_free(before);
        cr_assert(n_allocated == 1 && n_freed == 0);
        spanprof_alloc_semaphore = spanprof_free_semaphore = 0;
        told_free(during);
        cr_assert(n_in_table() == 0);
}

Test(alloc, each_function_is_told_with_its_size) {
        void *pointer, *moved;

        look_at_all();
        pointer = told_calloc(10, 50);
        cr_assert(pointer && n_allocated == 1 && last_size == 500 && last_weight == 500);
        for (size_t i = 0; i < 500; i++)
                cr_assert(((uint8_t *)pointer)[i] == 0);
        moved = told_realloc(pointer, 4000);
        cr_assert(moved && n_freed == 1 && freed[0] == pointer && n_allocated == 2 && last_size == 4000);
        pointer = told_reallocarray(moved, 1000, 100);
        cr_assert(pointer && n_freed == 2 && freed[1] == moved && n_allocated == 3 && last_size == 100000);
        told_free(pointer);
        pointer = told_aligned_alloc(64, 640);
        cr_assert(pointer && (uintptr_t)pointer % 64 == 0 && n_allocated == 4 && last_size == 640);
        told_free(pointer);
        pointer = told_memalign(4096, 500);
        cr_assert(pointer && (uintptr_t)pointer % 4096 == 0 && n_allocated == 5 && last_size == 500);
        told_free(pointer);
        cr_assert(told_posix_memalign(&pointer, 256, 700) == 0);
        cr_assert((uintptr_t)pointer % 256 == 0 && n_allocated == 6 && last_size == 700);
        told_free(pointer);
        cr_assert(n_freed == 6 && n_in_table() == 0);
        told_free(NULL);
        cr_assert(n_freed == 6);
}

/* NULL's bucket is the first: a told pointer of that bucket stays in the table. */
Test(alloc, nothing_is_freed_beside_a_told_pointer) {
        uintptr_t address = 16;

        look_at_all();
        while (first_bucket(hash_of((void *)address)))
                address += 16;
        cr_assert(table_add((void *)address) && may_be_told(NULL));
        told_free(NULL);
        told_free(told_realloc(NULL, 0));
        cr_assert(n_allocated == n_freed && n_in_table() == 1);
        cr_assert(table_remove((void *)address) && n_in_table() == 0);
}

Test(alloc, impossible_sizes_are_passed_on) {
        size_t distance;

        look(4096, 5);
        told_free(told_malloc(1));
        distance = mine.distance;
        cr_assert(told_reallocarray(NULL, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
#if !defined(__SANITIZE_ADDRESS__)      /* which ends the program there */
        volatile size_t most = SIZE_MAX;
        void *pointer = NULL;

        cr_assert(told_posix_memalign(&pointer, 3, 64) == EINVAL && n_in_table() == 0);

        cr_assert(told_malloc(most) == NULL);
        cr_assert(told_malloc(most / 2) == NULL);
        cr_assert(told_calloc(most / 2, 3) == NULL);
#endif
        cr_assert(mine.distance <= 1 << 20, "the thread would draw no more: %zu after %zu", mine.distance,
                  distance);
        cr_assert(n_in_table() == 0);
}

/* More live allocations than the table takes: what has no room is counted and not told, the rest is freed. */
Test(alloc, a_full_table_is_counted) {
        enum { N = 80000 };
        static void *live[N];

        look_at_all();
        for (size_t i = 0; i < N; i++)
                live[i] = told_malloc(64);
        cr_assert(n_allocated + spanprof_alloc_untold == N);
        cr_assert(n_allocated > 55000 && n_allocated <= N_BUCKETS * N_WAYS, "%zu", n_allocated);
        cr_assert(n_in_table() == n_allocated);
        for (size_t i = 0; i < N; i++)
                told_free(live[i]);
        cr_assert(n_freed == n_allocated && n_in_table() == 0);
}

/* What dlsym() allocates while it is asked for malloc() itself. */
Test(alloc, the_begin_allocates_from_an_arena) {
        uint8_t *pointer, *moved;

        look_at_all();
        next_malloc = first_malloc;
        next_calloc = first_calloc;
        next_realloc = first_realloc;
        next_free = first_free;
        mine.is_resolving = true;
        pointer = told_calloc(4, 25);
        cr_assert(pointer && in_arena(pointer) && (uintptr_t)pointer % 16 == 0);
        for (size_t i = 0; i < 100; i++) {
                cr_assert(pointer[i] == 0);
                pointer[i] = (uint8_t)i;
        }
        cr_assert(told_malloc(ARENA_BYTES) == NULL);
        mine.is_resolving = false;
        moved = told_realloc(pointer, 50);
        cr_assert(moved && !in_arena(moved));
        for (size_t i = 0; i < 50; i++)
                cr_assert(moved[i] == i);
        told_free(moved);
        cr_assert(next_malloc != first_malloc && next_free != first_free);
}

Test(alloc, freed_arena_memory_is_left_where_it_is) {
        void *pointer;

        look_at_all();
        next_malloc = first_malloc;
        mine.is_resolving = true;
        pointer = told_malloc(64);
        mine.is_resolving = false;
        cr_assert(in_arena(pointer));
        n_freed = 0;
        told_free(pointer);
        cr_assert(n_freed == 0);
}

enum { N_THREADS = 4, N_TURNS = 20000, N_SLOTS = 512 };

static _Atomic(void *) shared[N_SLOTS];

/* Frees what other threads have allocated. */
static void *exchange(void *argument) {
        uint64_t state = (uintptr_t)argument + 1;

        mine.random = state << 40;
        for (int i = 0; i < N_TURNS; i++) {
                state = state * 6364136223846793005 + 1442695040888963407;
                told_free(atomic_exchange(&shared[(state >> 33) % N_SLOTS], told_malloc(16 + (state >> 50))));
        }
        return NULL;
}

Test(alloc, threads_free_for_each_other) {
        pthread_t threads[N_THREADS];

        look(4096, 1);
        for (uintptr_t i = 0; i < N_THREADS; i++)
                cr_assert(!pthread_create(&threads[i], NULL, exchange, (void *)i));
        for (size_t i = 0; i < N_THREADS; i++)
                pthread_join(threads[i], NULL);
        cr_assert(n_allocated > 1000 && n_in_table() == n_allocated - n_freed);
        for (size_t i = 0; i < N_SLOTS; i++)
                told_free(shared[i]);
        cr_assert(n_allocated == n_freed && n_in_table() == 0);
}

/* A child frees what it has of its parent by itself, and draws other bytes than its siblings. */
Test(alloc, children_draw_by_themselves) {
        size_t distances[2];
        void *pointer;
        int fds[2];

        look_at_all();
        pointer = told_malloc(100);
        mean = 1 << 20;
        cr_assert(n_allocated == 1 && !pipe(fds));
        for (int i = 0; i < 2; i++) {
                pid_t child = fork();
                int status;

                if (!child) {
                        told_free(pointer);
                        told_free(told_malloc(1));
                        _exit(n_freed != 1 ||
                              write(fds[1], &mine.distance, sizeof(size_t)) != sizeof(size_t));
                }
                cr_assert(waitpid(child, &status, 0) == child && status == 0);
                cr_assert(read(fds[0], &distances[i], sizeof(size_t)) == sizeof(size_t));
        }
        cr_assert(distances[0] != distances[1]);
        told_free(pointer);
        cr_assert(n_freed == 1);
}
