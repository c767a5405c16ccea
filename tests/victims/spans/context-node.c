/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library with the variable of Node, for victim-context: context_set() makes what dd-trace for Node and V8
 * have in memory, a map with the record as the third of three entries in one bucket. Threads with an even id
 * have it where V8 12 has it, others where V8 13 and newer have it; RECORD_AT in the environment says another
 * place, 0 as older releases of dd-trace do.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLASS 0x7001            /* any pointer to an object */
#define SMALL(x) ((uint64_t)(x) << 32)
#define POINTER(x) ((uint64_t)(uintptr_t)(x) | 1)

enum { HASH = 0x6b5, BUCKETS = 2, CAPACITY = 2 * BUCKETS, LENGTH = 3 + BUCKETS + 3 * CAPACITY };

struct variable {
        uint64_t *slot, *handle;
        int32_t hash;
        uint32_t record_at;
        uint64_t undefined;
};

__attribute__((visibility("default"))) __thread struct variable otel_thread_ctx_nodejs_v1;

struct heap {
        _Alignas(8) uint64_t undefined[2], slot, handle, key[4], other[4], map[4], value[6];
        uint64_t table[2 + LENGTH];
};

static __thread struct heap *heap;

static void make_table(void) {
        uint64_t *words = heap->table, *entry = words + 5 + BUCKETS;

        words[0] = CLASS;
        words[1] = SMALL(LENGTH);
        words[2] = SMALL(3);
        words[3] = SMALL(0);
        words[4] = SMALL(BUCKETS);
        words[5] = SMALL(UINT64_C(0xffffffff));
        words[6] = SMALL(2);            /* the bucket of HASH begins with the newest entry */
        for (int i = 0; i < 3; i++) {
                entry[3 * i] = POINTER(i ? heap->other : heap->key);
                entry[3 * i + 1] = POINTER(i ? (void *)heap->other : (void *)heap->value);
                entry[3 * i + 2] = SMALL(i ? (uint64_t)i - 1 : UINT64_C(0xffffffff));
        }
}

static void make_heap(void) {
        const char *said = getenv("RECORD_AT");
        uint32_t record_at = said ? (uint32_t)atoi(said) : syscall(SYS_gettid) % 2 ? 32 : 24;

        heap = calloc(1, sizeof(*heap));
        if (!heap)
                abort();
        heap->undefined[0] = heap->key[0] = heap->other[0] = heap->map[0] = heap->value[0] = CLASS;
        heap->slot = POINTER(heap->undefined);
        heap->handle = POINTER(heap->key);
        heap->map[3] = POINTER(heap->table);
        make_table();
        otel_thread_ctx_nodejs_v1 =
                (struct variable){ NULL, &heap->handle, HASH, record_at, POINTER(heap->undefined) };
        __asm__ volatile("" : : : "memory");
        otel_thread_ctx_nodejs_v1.slot = &heap->slot;
}

__attribute__((visibility("default"))) void context_set(void *record);

void context_set(void *record) {
        if (!heap)
                make_heap();
        heap->value[otel_thread_ctx_nodejs_v1.record_at / 8] = (uint64_t)(uintptr_t)record;
        __asm__ volatile("" : : : "memory");
        *(volatile uint64_t *)&heap->slot = record ? POINTER(heap->map) : POINTER(heap->undefined);
}
