/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libspanprof-alloc: Allocations, a Few of Them Told
 *
 * Stands before malloc() and free() of a program, preloaded or linked, and passes each call on. Of the bytes
 * that are allocated it draws one in 512 KiB, and tells the allocation that this byte lies in by a probe
 * (probe.h); and when that allocation goes, by another one. Who looks from outside has the stack then, and
 * which request it was for. Nothing of what malloc() returns is changed: no header, no alignment.
 *
 * Which are drawn: distances between two drawn bytes are exponential, as if each byte were drawn by itself. A
 * thread counts down to its next one:
 *
 *     size < distance   the usual case: distance -= size, and the call goes on
 *     else              the allocation has a drawn byte; the next distance is drawn behind its end
 *
 * So an allocation is drawn with p = 1 - e^(-size / mean) however it lies between others, and size / p is its
 * weight: the sum of weights is, in the mean, that of all sizes, and the sum of weight / size their number.
 * An allocation of no bytes counts as one byte.
 *
 * Which frees are told: those of pointers in a table of N_BUCKETS × N_WAYS, a line of the cache each bucket.
 * A byte for each bucket says how many pointers with this hash there are: 0, and a free goes on. So it reads
 * one byte of 8 KiB. A pointer is in the bucket of its first hash or of its second one. Where both are full
 * (about 60,000 of 65,536 are taken then, 30 GiB that live), the allocation is not told: it would seem to
 * live for good. spanprof_alloc_untold counts these.
 *
 * No lock: a way is taken and given back by one compare and swap. So fork() may happen at any time; the child
 * has the parent's pointers, and frees them by itself; and a signal handler finds everything usable, as far
 * as malloc() itself is.
 *
 * The order of events: a pointer is in the table, and told, before its caller has it; its free is told before
 * the allocator has it back. So two lives of one address never overlap. realloc() is told as a free and an
 * allocation of the whole new size; where it fails, the old one is forgotten.
 *
 * The begin: the first call of each function finds the next one with dlsym(), which may allocate. Such calls
 * get memory of a small arena, which is never given back: its pointers are in the table as well.
 *
 * Nobody looks (the semaphore is 0): nothing is told, and nothing goes into the table.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef ALLOC_NAME              /* unit tests have names and probes of their own */
#define ALLOC_NAME(name) name
#include <malloc.h>
#include "probe.h"
#endif

#define EXPORT __attribute__((visibility("default")))
#define COLD __attribute__((noinline, cold))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

#define MEAN_ENVIRONMENT "SPANPROF_ALLOC_BYTES"

enum {
        MEAN_BYTES = 512 * 1024,
        MAX_MEAN_BYTES = 1 << 30,
        BUCKET_BITS = 13,
        N_BUCKETS = 1 << BUCKET_BITS,
        N_WAYS = 8,             /* 64 bytes */
        ARENA_BYTES = 32 * 1024,
        ARENA_ALIGNMENT = 16,
};

/* calloc(), memalign() and posix_memalign() of musl call malloc() or aligned_alloc(), which tell then. */
#ifdef __GLIBC__
#define CALLS_OTHERS 0
#else
#define CALLS_OTHERS 1
#endif

typedef _Atomic(uintptr_t) Bucket[N_WAYS];

/* Where who looks from outside counts; probe.h has why. The section is the one of <sys/sdt.h>. */
__attribute__((section(".probes"), used)) volatile unsigned short spanprof_alloc_semaphore;
__attribute__((section(".probes"), used)) volatile unsigned short spanprof_free_semaphore;

/* Allocations that were drawn and not told, since the table was full. For debuggers. */
EXPORT _Atomic uint64_t spanprof_alloc_untold;

static _Alignas(64) Bucket buckets[N_BUCKETS];
static _Atomic uint8_t n_with_hash[N_BUCKETS];
static double mean = MEAN_BYTES;

static _Alignas(ARENA_ALIGNMENT) uint8_t arena[ARENA_BYTES];
static atomic_size_t arena_used;

/* Of a thread. Initial-exec: one instruction, and nothing that would allocate. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
        size_t distance;        /* bytes to the next drawn one; 0 = nothing was drawn yet */
        uint64_t random;        /* 0 = not seeded yet */
        bool is_resolving;
} mine;

/*
 * Arithmetic: without libm, which a target need not have
 */

/* Return: ln(value). @value: above 0. */
static double logarithm(double value) {
        double square, sum = 0, z;
        uint64_t bits;
        int exponent;

        memcpy(&bits, &value, sizeof(bits));
        exponent = (int)(bits >> 52) - 1023;
        bits = (bits & ((1ull << 52) - 1)) | 1023ull << 52;
        memcpy(&value, &bits, sizeof(value));
        if (value > 1.4142135623730951) {
                value /= 2;
                exponent++;
        }
        z = (value - 1) / (value + 1);          /* ln(value) = 2 (z + z³ / 3 + z⁵ / 5 + …), |z| < 0.172 */
        square = z * z;
        for (int i = 21; i >= 1; i -= 2)
                sum = sum * square + 1.0 / i;
        return 2 * z * sum + exponent * 0.6931471805599453;
}

/* Return: 1 - e^-x. @x: above 0. */
static double probability(double x) {
        double sum = 0, rest;

        if (x > 40)
                return 1;
        if (x > 1) {                            /* of the half 1 - r, so of the whole 1 - r² */
                rest = 1 - probability(x / 2);
                return 1 - rest * rest;
        }
        for (int i = 18; i >= 1; i--)           /* x (1 - x / 2 (1 - x / 3 (1 - …))) */
                sum = 1 - sum * x / (i + 1);
        return x * sum;
}

/*
 * Drawing
 */

static uint64_t random_next(void) {
        uint64_t state = mine.random;
        struct timespec now;

        if (!state) {
                clock_gettime(CLOCK_MONOTONIC, &now);
                state = (uint64_t)(uintptr_t)&mine ^ (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^
                        (uint64_t)getpid() << 40;
        }
        mine.random = state += 0x9e3779b97f4a7c15;      /* splitmix64: any seed will do, the next ones too */
        state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9;
        state = (state ^ state >> 27) * 0x94d049bb133111eb;
        return state ^ state >> 31;
}

/* Return: bytes to the next drawn one, at least 1: P(distance ≤ n) = 1 - e^(-n / mean). */
static size_t distance_draw(void) {
        double u = (double)((random_next() >> 11) + 1) / 9007199254740993.0;    /* above 0, below 1 */

        return (size_t)(-logarithm(u) * mean) + 1;
}

static uint64_t weight_of(size_t size) {
        return (uint64_t)((double)size / probability((double)size / mean) + 0.5);
}

/* Counts @size bytes that the usual case does not take. Return: a drawn one is among them. */
static COLD bool draw(size_t size) {
        bool is_drawn;

        if (size > PTRDIFF_MAX)                 /* no allocator has them */
                return false;
        if (!mine.distance)
                mine.distance = distance_draw();
        is_drawn = size >= mine.distance;
        if (is_drawn)
                mine.distance = distance_draw();
        else
                mine.distance -= size;
        return is_drawn && spanprof_alloc_semaphore;
}

/*
 * The table of pointers that were told
 */

static inline uint64_t hash_of(const void *pointer) {
        return ((uintptr_t)pointer >> 4) * 0x9e3779b97f4a7c15;
}

static inline size_t first_bucket(uint64_t hash) {
        return hash >> (64 - BUCKET_BITS);
}

static size_t second_bucket(uint64_t hash) {
        return (hash >> (64 - 2 * BUCKET_BITS)) & (N_BUCKETS - 1);
}

static bool bucket_swap(size_t index, uintptr_t from, uintptr_t to) {
        _Atomic(uintptr_t) *ways = buckets[index];

        for (size_t i = 0; i < N_WAYS; i++) {
                uintptr_t expected = from;

                if (atomic_load_explicit(&ways[i], memory_order_relaxed) == from &&
                    atomic_compare_exchange_strong(&ways[i], &expected, to))
                        return true;
        }
        return false;
}

/* Return: false = there is no room. */
static bool table_add(const void *pointer) {
        uint64_t hash = hash_of(pointer);
        size_t first = first_bucket(hash);
        uint8_t n = atomic_load_explicit(&n_with_hash[first], memory_order_relaxed);

        do {
                if (n == UINT8_MAX)
                        return false;
        } while (!atomic_compare_exchange_weak(&n_with_hash[first], &n, n + 1));
        if (bucket_swap(first, 0, (uintptr_t)pointer) ||
            bucket_swap(second_bucket(hash), 0, (uintptr_t)pointer))
                return true;
        atomic_fetch_sub(&n_with_hash[first], 1);
        return false;
}

/* Return: false = @pointer was not in it. */
static bool table_remove(const void *pointer) {
        uint64_t hash = hash_of(pointer);
        size_t first = first_bucket(hash);

        if (!bucket_swap(first, (uintptr_t)pointer, 0) &&
            !bucket_swap(second_bucket(hash), (uintptr_t)pointer, 0))
                return false;
        atomic_fetch_sub(&n_with_hash[first], 1);
        return true;
}

static inline bool may_be_told(const void *pointer) {
        return atomic_load_explicit(&n_with_hash[first_bucket(hash_of(pointer))], memory_order_relaxed);
}

/*
 * The begin
 */

static bool in_arena(const void *pointer) {
        return (const uint8_t *)pointer >= arena && (const uint8_t *)pointer < arena + ARENA_BYTES;
}

/* Memory for dlsym(), filled with zeros: its size lies before it. */
static COLD void *arena_take(size_t size) {
        size_t whole = 2 * ARENA_ALIGNMENT + (size & ~(size_t)(ARENA_ALIGNMENT - 1)), begin;
        uint8_t *pointer;

        if (size > ARENA_BYTES - 2 * ARENA_ALIGNMENT)
                return NULL;
        begin = atomic_fetch_add(&arena_used, whole);
        if (begin > ARENA_BYTES - whole)
                return NULL;
        pointer = arena + begin + ARENA_ALIGNMENT;
        memcpy(pointer - sizeof(size), &size, sizeof(size));
        return table_add(pointer) ? pointer : NULL;
}

static COLD void *first_malloc(size_t size);
static COLD void first_free(void *pointer);
static COLD void *first_calloc(size_t n, size_t size);
static COLD void *first_realloc(void *pointer, size_t size);
static COLD void *first_aligned_alloc(size_t alignment, size_t size);
static COLD void *first_memalign(size_t alignment, size_t size);
static COLD int first_posix_memalign(void **pointerp, size_t alignment, size_t size);

static void *(*next_malloc)(size_t) = first_malloc;
static void (*next_free)(void *) = first_free;
static void *(*next_calloc)(size_t, size_t) = first_calloc;
static void *(*next_realloc)(void *, size_t) = first_realloc;
static void *(*next_aligned_alloc)(size_t, size_t) = first_aligned_alloc;
static void *(*next_memalign)(size_t, size_t) = first_memalign;
static int (*next_posix_memalign)(void **, size_t, size_t) = first_posix_memalign;

static void find(void *nextp, const char *name) {
        void *found = dlsym(RTLD_NEXT, name);

        if (found)
                memcpy(nextp, &found, sizeof(found));
}

/* Return: false = this thread is about it already, or there is no such function: the caller helps itself. */
static COLD bool resolve(void) {
        if (mine.is_resolving)
                return false;
        mine.is_resolving = true;
        find(&next_free, "free");               /* first: what comes from the others goes there */
        find(&next_malloc, "malloc");
        find(&next_calloc, "calloc");
        find(&next_realloc, "realloc");
        find(&next_aligned_alloc, "aligned_alloc");
        find(&next_memalign, "memalign");
        find(&next_posix_memalign, "posix_memalign");
        mine.is_resolving = false;
        return next_malloc != first_malloc && next_free != first_free && next_calloc != first_calloc &&
                next_realloc != first_realloc;
}

static void *refused(void) {
        errno = ENOMEM;
        return NULL;
}

static void *first_malloc(size_t size) {
        return resolve() ? next_malloc(size) : arena_take(size);
}

static void first_free(void *pointer) {
        if (resolve())
                next_free(pointer);
}

static void *first_calloc(size_t n, size_t size) {
        return resolve() ? next_calloc(n, size) : size && n > SIZE_MAX / size ? NULL : arena_take(n * size);
}

static void *first_realloc(void *pointer, size_t size) {
        return resolve() ? next_realloc(pointer, size) : pointer ? refused() : arena_take(size);
}

static void *first_aligned_alloc(size_t alignment, size_t size) {
        return resolve() && next_aligned_alloc != first_aligned_alloc ? next_aligned_alloc(alignment, size)
                                                                      : refused();
}

static void *first_memalign(size_t alignment, size_t size) {
        return resolve() && next_memalign != first_memalign ? next_memalign(alignment, size) : refused();
}

static int first_posix_memalign(void **pointerp, size_t alignment, size_t size) {
        return resolve() && next_posix_memalign != first_posix_memalign
                ? next_posix_memalign(pointerp, alignment, size) : ENOMEM;
}

/* A child of fork() draws by itself: or all children of a server would draw the same bytes. */
static void begin_anew(void) {
        mine.distance = 0;
        mine.random = 0;
}

__attribute__((constructor)) static void begin(void) {
        const char *text = secure_getenv(MEAN_ENVIRONMENT);
        char *end = NULL;
        unsigned long long bytes = text ? strtoull(text, &end, 10) : 0;

        if (bytes && bytes <= MAX_MEAN_BYTES && *end == '\0')
                mean = (double)bytes;
        begin_anew();
        pthread_atfork(NULL, NULL, begin_anew);
}

/*
 * The functions
 */

/* Counts @size bytes. Return: false = the caller draws. */
static inline bool passes(size_t size) {
        size_t bytes = size + !size;

        if (!LIKELY(bytes < mine.distance))
                return false;
        mine.distance -= bytes;
        return true;
}

static inline bool is_drawn(size_t size) {
        return draw(size + !size);
}

/* Tells @pointer, unless it could not be had. Return: @pointer. */
static COLD void *sampled_alloc(void *pointer, size_t size) {
        if (!pointer)
                return NULL;
        if (table_add(pointer))
                probe_alloc(pointer, size, weight_of(size + !size));
        else
                atomic_fetch_add_explicit(&spanprof_alloc_untold, 1, memory_order_relaxed);
        return pointer;
}

/* Takes @pointer out, if it was told. Return: it may be given back. */
static COLD bool untell(void *pointer) {
        if (!pointer || !table_remove(pointer))         /* NULL is what an empty way has */
                return true;
        if (in_arena(pointer))
                return false;
        probe_free(pointer);
        return true;
}

/* The rare case of each, apart: so that the usual one saves no register. */
static COLD void *draw_malloc(size_t size) {
        return is_drawn(size) ? sampled_alloc(next_malloc(size), size) : next_malloc(size);
}

static COLD void *draw_calloc(size_t n, size_t size) {
        return is_drawn(n * size) ? sampled_alloc(next_calloc(n, size), n * size) : next_calloc(n, size);
}

static COLD void *draw_realloc(void *pointer, size_t size) {
        return is_drawn(size) ? sampled_alloc(next_realloc(pointer, size), size)
                              : next_realloc(pointer, size);
}

static COLD void *draw_aligned_alloc(size_t alignment, size_t size) {
        return is_drawn(size) ? sampled_alloc(next_aligned_alloc(alignment, size), size)
                              : next_aligned_alloc(alignment, size);
}

static COLD void *draw_memalign(size_t alignment, size_t size) {
        return is_drawn(size) ? sampled_alloc(next_memalign(alignment, size), size)
                              : next_memalign(alignment, size);
}

static COLD int draw_posix_memalign(void **pointerp, size_t alignment, size_t size) {
        bool tell = is_drawn(size);
        int r = next_posix_memalign(pointerp, alignment, size);

        if (tell && !r)
                sampled_alloc(*pointerp, size);
        return r;
}

EXPORT void *ALLOC_NAME(malloc)(size_t size) {
        return passes(size) ? next_malloc(size) : draw_malloc(size);
}

static COLD void free_told(void *pointer) {
        if (untell(pointer))
                next_free(pointer);
}

EXPORT void ALLOC_NAME(free)(void *pointer) {
        if (LIKELY(!may_be_told(pointer)))
                next_free(pointer);
        else
                free_told(pointer);
}

EXPORT void *ALLOC_NAME(calloc)(size_t n, size_t size) {
        size_t bytes;

        return CALLS_OTHERS || __builtin_mul_overflow(n, size, &bytes) || passes(bytes)
                ? next_calloc(n, size) : draw_calloc(n, size);
}

/* The old memory is of the arena: the new one is of the allocator. */
static COLD void *move_from_arena(const void *pointer, size_t size) {
        size_t old_size;
        void *moved;

        memcpy(&old_size, (const uint8_t *)pointer - sizeof(old_size), sizeof(old_size));
        moved = next_malloc(size);
        return moved ? memcpy(moved, pointer, old_size < size ? old_size : size) : NULL;
}

EXPORT void *ALLOC_NAME(realloc)(void *pointer, size_t size) {
        if (pointer && may_be_told(pointer) && !untell(pointer))
                return move_from_arena(pointer, size);
        if (pointer && !size)           /* a free, and perhaps an allocation of no bytes */
                return next_realloc(pointer, size);
        return passes(size) ? next_realloc(pointer, size) : draw_realloc(pointer, size);
}

EXPORT void *ALLOC_NAME(reallocarray)(void *pointer, size_t n, size_t size) {
        size_t bytes;

        return __builtin_mul_overflow(n, size, &bytes) ? refused() : ALLOC_NAME(realloc)(pointer, bytes);
}

EXPORT void *ALLOC_NAME(aligned_alloc)(size_t alignment, size_t size) {
        return passes(size) ? next_aligned_alloc(alignment, size) : draw_aligned_alloc(alignment, size);
}

EXPORT void *ALLOC_NAME(memalign)(size_t alignment, size_t size) {
        return CALLS_OTHERS || passes(size) ? next_memalign(alignment, size) : draw_memalign(alignment, size);
}

EXPORT int ALLOC_NAME(posix_memalign)(void **pointerp, size_t alignment, size_t size) {
        return CALLS_OTHERS || passes(size) ? next_posix_memalign(pointerp, alignment, size)
                                            : draw_posix_memalign(pointerp, alignment, size);
}
