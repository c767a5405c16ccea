/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: goroutines of a program that is none. The first byte chooses the release, the second one how many
 * reads there are between two changes of memory, as when the program goes on. The rest is memory, in which a
 * word whose upper half is 1 stands for an address in it, or behind it. Whatever it holds: sizes keep their
 * bounds, reads are bounded, and labels are sound. Recipe of the corpus: make-goroutines-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/runtime/go/goroutine.h"
#include "host/sampling/context/goroutine-labels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        MEMORY = 0x20000000,
        SIZE = 16384,
        LIST = 0,                       /* allgptr, then allglen */
        MAX_LOOKS = 24,
        ROOM = 8192,
        /* of one try: g twice, the stack and its second copy, labels (fuzz-go-labels.c) */
        MAX_READS = GOROUTINE_MAX_TRIES * (3 + 1 + GOROUTINE_MAX_STACK / 4096 + 700) + 2,
};

static _Alignas(8) uint8_t memory[SIZE];
static unsigned n_reads, changes_every;

static int read_memory(void *userdata, uint64_t address, void *to, uint32_t size) {
        uint64_t at = address - MEMORY;

        n_reads++;
        if (at >= SIZE || size > SIZE - at || !size)
                return 1;
        if (changes_every && n_reads % changes_every == 0)
                memory[at] ^= 1;
        memcpy(to, memory + at, size);
        return 0;
}

static void relocate(void) {
        for (size_t i = 0; i < SIZE; i += 8) {
                uint64_t word;

                memcpy(&word, memory + i, sizeof(word));
                if (word >> 32 == 1)
                        word = MEMORY + (word & (2 * SIZE - 1));        /* some of them are behind it */
                memcpy(memory + i, &word, sizeof(word));
        }
}

static void check(const GoGoroutines *where, const Goroutine *found) {
        static GoroutineContext context;

        if (!found->id || found->stack_size > ROOM || found->stack_size % 8 || !found->stack_size ||
            found->state > GOROUTINE_SYSCALL || found->labels_size < GO_HEADER_SIZE ||
            found->labels_size > ABI_MAX_ATTRIBUTES_SIZE || !go_wait_reason(where->minor, found->reason))
                abort();
        if (!goroutine_context_read(found->labels, found->labels_size, true, &context) ||
            context.goid != found->id)
                abort();
}

static void look(const GoGoroutines *where, uint64_t list, uint64_t index) {
        const GoMemory reader = { .read = read_memory };
        static _Alignas(8) uint8_t stack[ROOM];
        Goroutine found;
        int r;

        n_reads = 0;
        r = goroutine_read(where, &reader, list, index, stack, ROOM, &found);
        if (r < 0 || r > GOROUTINE_E_ROOM || n_reads > MAX_READS)
                abort();
        if (!r)
                check(where, &found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        GoGoroutines where = { .list = MEMORY + LIST, .length = MEMORY + LIST + 8 };
        const GoMemory reader = { .read = read_memory };
        uint64_t list, n;

        if (size < 2)
                return 0;
        where.minor = GO_FIRST_MINOR + data[0] % (GO_LAST_MINOR - GO_FIRST_MINOR + 1);
        if (!go_layout(where.minor, &where.process) || !go_goroutine_layout(where.minor, &where.layout))
                abort();
        changes_every = data[1];
        memset(memory, 0, sizeof(memory));
        memcpy(memory, data + 2, size - 2 < SIZE ? size - 2 : SIZE);
        relocate();
        if (goroutines_list(&where, &reader, &list, &n))
                return 0;
        if (n > GOROUTINES_MAX)
                abort();
        for (uint64_t i = 0; i < n && i < MAX_LOOKS; i++)
                look(&where, list, i);
        return 0;
}
