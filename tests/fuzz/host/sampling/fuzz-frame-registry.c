/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: frames that nobody has registered. The input is memory with the mutex and both lists at its begin,
 * after a `t` memory with a mutex and a tree, after an `l` with a lock and LLVM's array, or after an `a` what
 * a worker has made of some. Whatever it says, and whatever code is named in it, reads come to an end, and
 * what is made of it passes the daemon's check. Recipe of the corpus: make-frame-registry-corpus.py.
 */
#include <stdlib.h>
#include <string.h>

#include "host/sampling/unwind/made/frame-registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        BASE = 0x20000000,
        /* twice: mutex, heads, nodes, objects, arrays, and pages of sections */
        N_NAMED = 3,
        MAX_READS = N_NAMED + 2 * (4 + 5 * FRAME_REGISTRY_MAX_OBJECTS + (FRAME_REGISTRY_MAX_BYTES >> 12) +
                         3 * FRAME_REGISTRY_MAX_OBJECTS),
};

typedef struct Memory {
        const uint8_t *data;
        size_t size;
        unsigned n_reads;
} Memory;

/* Behind the input there are zeros to the end of its last page: sections are read by pages. */
static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        Memory *memory = userdata;
        size_t at = address - BASE, end = (memory->size + 4095) & ~(size_t)4095, n;

        if (++memory->n_reads > MAX_READS || !size || size > 64 << 10)
                abort();
        if (address < BASE || size > end || at > end - size)
                return false;
        memset(to, 0, size);
        n = at < memory->size ? memory->size - at : 0;
        memcpy(to, memory->data + (n ? at : 0), n < size ? n : size);
        return true;
}

/* A section lies in its set, and so do the runs. */
static void visit(const uint8_t *data, uint32_t size, uint32_t n) {
        const uint8_t *end = data + size;

        for (uint32_t i = 0; i < n; i++) {
                FrameView view = frame_view(data);

                if (view.size > (size_t)(end - data) || view.section < data ||
                    view.cluster.size > (size_t)(end - view.section) || !view.cluster.n_runs)
                        abort();
                data += view.size;
        }
        if (data != end)
                abort();
}

static void hear(const uint8_t *data, size_t size) {
        uint64_t *copy;
        uint32_t n;

        if (size < sizeof(n))
                return;
        memcpy(&n, data, sizeof(n));
        data += sizeof(n);
        size -= sizeof(n);
        copy = malloc(size + sizeof(*copy));
        if (!copy)
                return;
        memcpy(copy, data, size);
        if (frame_set_check((const uint8_t *)copy, (uint32_t)size, n))
                visit((const uint8_t *)copy, (uint32_t)size, n);
        free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const bool is_tree = size && data[0] == 't', is_array = size && data[0] == 'l';
        const FrameVariables variables = { .lock = BASE,
                                           .seen = is_tree || is_array ? 0 : BASE + 8,
                                           .unseen = is_array ? 0 : is_tree ? BASE + 8 : BASE + 16,
                                           .begin = is_array ? BASE + 8 : 0,
                                           .used = is_array ? BASE + 16 : 0 };
        Memory memory = { .data = data + (is_tree || is_array), .size = size - (is_tree || is_array) };
        const FrameMemory reader = { .read = read_memory, .userdata = &memory };
        const MadeRun named[N_NAMED] = { { BASE, BASE + 64 }, { BASE + 64, BASE + 4096 },
                                         { BASE + 512, BASE + 65536 } };
        FrameSet set = { 0 };

        if (size && data[0] == 'a') {
                hear(data + 1, size - 1);
                return 0;
        }
        if (frame_registry_read(&reader, &variables, named, N_NAMED, &set))
                return 0;
        if (!frame_set_check(set.data, set.size, set.n_clusters))
                abort();
        visit(set.data, set.size, set.n_clusters);
        frame_set_deinit(&set);
        return 0;
}
