/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: heap profiles of a program that is none of Go's. The first byte chooses what the rest is:
 *
 *     0 … 9     memory, for the look at a list; the release is 18 + that. The second byte says how many reads
 *               there are between two changes of memory, as when the program goes on. A word whose upper half
 *               is 1 stands for an address in it, or behind it. Variables are first: cycle, lock, head, rate.
 *     10, 11    code of the functions that say where the variables are, a quarter each, for 1.18 and 1.26
 *     12 …      what a worker says: numbers of rows, then the rows
 *
 * Whatever it holds: reads are bounded, and what is taken for a profile has sound numbers. Recipe of the
 * corpus: make-goroutines-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/runtime/go/go-heap-profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        MEMORY = 0x20000000,
        SIZE = 0x30000,
        N_LOOKS = 3,
        N_RELEASES = 10,
        MAX_ROWS = 256,
        /* of a look: blocks and their pages, for the list, both passes, and the sum, if all buckets jump */
        MAX_READS = 17 * 4 * 2 * (SIZE / 48) + 16,
};

static _Alignas(8) uint8_t memory[SIZE];
static unsigned n_reads, changes_every;

static int read_memory(void *userdata, uint64_t address, void *to, uint32_t size) {
        uint64_t at = address - MEMORY;

        n_reads++;
        if (at >= SIZE || size > SIZE - at || !size)
                return 1;
        if (changes_every && n_reads % changes_every == 0)
                memory[at % 64] ^= 1;
        memcpy(to, memory + at, size);
        return 0;
}

static void relocate(void) {
        for (size_t i = 0; i < SIZE; i += 8) {
                uint64_t word;

                memcpy(&word, memory + i, sizeof(word));
                if (word >> 32 == 1)
                        word = MEMORY + (word & (2 * 0x20000 - 1));     /* some of them are behind it */
                memcpy(memory + i, &word, sizeof(word));
        }
}

static void check_buckets(const GoHeap *heap, const GoHeapLook *look) {
        if (look->rate <= 0 || heap->n_buckets > GO_HEAP_MAX_BUCKETS || heap->n_words > GO_HEAP_MAX_WORDS)
                abort();
        for (uint32_t i = 0; i < heap->n_buckets; i++) {
                const GoHeapBucket *bucket = &heap->buckets[i];
                uint64_t bytes;

                if (bucket->frees > bucket->allocs || !bucket->size ||
                    __builtin_mul_overflow(bucket->allocs, bucket->size, &bytes) ||
                    bytes > GO_HEAP_MAX_BYTES ||
                    bucket->n_stack > GO_HEAP_MAX_DEPTH || bucket->stack > heap->n_words ||
                    bucket->n_stack > heap->n_words - bucket->stack)
                        abort();
        }
}

static void look(uint32_t minor, const uint8_t *data, size_t size) {
        const GoMemory reader = { .read = read_memory };
        const GoHeapPlaces places = { .cycle = MEMORY, .lock = MEMORY + 8, .buckets = MEMORY + 16,
                                      .rate = MEMORY + 24, .is_split = minor == 18 };
        GoHeapLook seen;
        GoHeap heap;

        memset(memory, 0, sizeof(memory));
        memcpy(memory, data, size < SIZE ? size : SIZE);
        relocate();
        if (go_heap_init(&heap, &places, minor, &reader))
                abort();
        for (unsigned i = 0; i < N_LOOKS; i++) {
                uint32_t n_before = heap.n_buckets;
                int r;

                n_reads = 0;
                r = go_heap_look(&heap, &seen);
                if (r < 0 || r > GO_HEAP_E_OFF || n_reads > MAX_READS || heap.n_buckets < n_before)
                        abort();
                if (!r)
                        check_buckets(&heap, &seen);
        }
        go_heap_deinit(&heap);
}

static void decode(uint32_t minor, const uint8_t *data, size_t size) {
        GoHeapCode code[GO_HEAP_N_FUNCTIONS];
        GoHeapPlaces places;
        size_t part = size / GO_HEAP_N_FUNCTIONS;

        for (size_t i = 0; i < GO_HEAP_N_FUNCTIONS; i++)
                code[i] = (GoHeapCode){ data + i * part, part, 0x401000 + 0x1000 * i };
        go_heap_decode(code, minor, &places);
}

static void fill(const uint8_t **datap, size_t *leftp, void *to, size_t size) {
        size_t n = size < *leftp ? size : *leftp;

        memcpy(to, *datap, n);
        *datap += n;
        *leftp -= n;
}

static void walk(const GoHeapProfile *profile) {
        static GoHeapLine lines[GO_HEAP_MAX_LINES];

        for (uint32_t i = 0; i < profile->n.n_samples; i++) {
                GoHeapValues values = go_heap_values(&profile->samples[i], 512 << 10);
                size_t n = go_heap_profile_stack(profile, &profile->samples[i], lines);

                if (n > GO_HEAP_MAX_LINES || values.inuse_bytes < 0 || values.alloc_objects < 0)
                        abort();
                for (size_t k = 0; k < n; k++)
                        if (lines[k].name && (strlen(lines[k].name) >= profile->n.n_text ||
                                              strlen(lines[k].file) >= profile->n.n_text))
                                abort();
        }
}

static void check(const uint8_t *data, size_t size) {
        static GoHeapSample samples[MAX_ROWS];
        static uint32_t stacks[MAX_ROWS];
        static GoHeapPlace places[MAX_ROWS];
        static GoHeapFrame frames[MAX_ROWS];
        static char text[MAX_ROWS];
        GoHeapProfile profile = { .samples = samples, .stacks = stacks, .places = places, .frames = frames,
                                  .text = text };
        uint8_t n[5] = { 0 };

        memset(samples, 0, sizeof(samples));
        memset(stacks, 0, sizeof(stacks));
        memset(places, 0, sizeof(places));
        memset(frames, 0, sizeof(frames));
        memset(text, 0, sizeof(text));
        fill(&data, &size, n, sizeof(n));
        profile.n = (GoHeapSizes){ n[0], n[1], n[2], n[3], n[4] };
        fill(&data, &size, samples, n[0] * sizeof(*samples));
        fill(&data, &size, stacks, n[1] * sizeof(*stacks));
        fill(&data, &size, places, n[2] * sizeof(*places));
        fill(&data, &size, frames, n[3] * sizeof(*frames));
        fill(&data, &size, text, n[4]);
        if (go_heap_profile_check(&profile))
                walk(&profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (size < 2)
                return 0;
        changes_every = data[1];
        if (data[0] < N_RELEASES)
                look(18 + data[0], data + 2, size - 2);
        else if (data[0] < N_RELEASES + 2)
                decode(data[0] == N_RELEASES ? 18 : 26, data + 2, size - 2);
        else
                check(data + 2, size - 2);
        return 0;
}
