/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Baseline code is made bytecode by bytecode, behind a prologue. Its table has the bytes of code of each,
 * seven bits a byte:
 *
 *     table       1c 08 84 01 …        prologue 28 bytes, the first bytecode 8, the second 132
 *     bytecode    0b 04 | 00 13 …      the first has 2 bytes, as V8's table of sizes says; 00 is a prefix
 *
 * No constant leads to the table of sizes. It is found by its content: three arrays of one length, whose
 * first bytecodes are the same in all releases (prefixes, breakpoints, loads of constants).
 */
#include "host/runtime/v8/v8-baseline.h"

#include <string.h>

#include "core/base/file/file.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"

#define SEARCH_NS (250 * NS_PER_MS)     /* of the 400 ms of a question */

enum {
        N_KNOWN = 14,                   /* bytecodes that are the same in all releases */
        LEAST = 150,                    /* bytecodes that a release has at least */
        CHUNK = 1 << 20,
        MAX_FILE = 512 << 20,
        N_PREFIXES = 4,                 /* wide, extra wide, and the same with a breakpoint */
        MAX_SHIFT = 28,
};

static const uint8_t known[V8_N_SCALES][N_KNOWN] = {
        { 1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 6, 2, 1, 2 },
        { 1, 1, 1, 1, 1, 3, 5, 7, 9, 7, 9, 3, 1, 3 },
        { 1, 1, 1, 1, 1, 5, 9, 13, 17, 11, 15, 5, 1, 5 },
};

/* Whether the table begins at @at, with @n bytecodes. */
static bool is_table(const uint8_t *at, size_t room, uint32_t n) {
        return room >= (size_t)V8_N_SCALES * n && !memcmp(at + n, known[1], N_KNOWN) &&
                !memcmp(at + 2 * (size_t)n, known[2], N_KNOWN);
}

/* A size of 0 would let the iteration stand still. */
static bool take_table(const uint8_t *at, uint32_t n, V8Sizes *sizes) {
        memset(sizes, 0, sizeof(*sizes));
        for (unsigned scale = 0; scale < V8_N_SCALES; scale++) {
                memcpy(sizes->bytes[scale], at + (size_t)scale * n, n);
                if (memchr(sizes->bytes[scale], 0, n))
                        return false;
        }
        sizes->n = n;
        return true;
}

bool v8_sizes_find_in(const uint8_t *data, size_t n, V8Sizes *sizes) {
        const uint8_t *at = data, *end = data + n;

        while ((at = memmem(at, (size_t)(end - at), known[0], N_KNOWN))) {
                for (uint32_t count = LEAST; count <= V8_MAX_BYTECODES; count++)
                        if (is_table(at, (size_t)(end - at), count))
                                return take_table(at, count, sizes);
                at++;
        }
        return false;
}

/* Takes what a chunk has. Return: whether it is no other table than that of an earlier chunk. */
static bool take_found(const uint8_t *chunk, size_t n, V8Sizes *sizes) {
        V8Sizes found;

        if (!v8_sizes_find_in(chunk, n, &found))
                return true;
        if (sizes->n && memcmp(&found, sizes, sizeof(found)))
                return false;
        *sizes = found;
        return true;
}

bool v8_sizes_search(int fd, uint64_t file_size, uint64_t *atp, V8Sizes *sizes) {
        /* a table that lies across the end of a chunk is whole in the next one */
        static uint8_t chunk[CHUNK + V8_N_SCALES * V8_MAX_BYTECODES];
        ssize_t n;

        if (file_size > MAX_FILE)
                *atp = file_size;       /* it is too large, and no name has to wait for it */
        if (fd < 0 || *atp >= file_size)
                return false;
        n = file_pread(fd, chunk, (size_t)MIN((uint64_t)sizeof(chunk), file_size - *atp), *atp);
        if (n > 0 && take_found(chunk, (size_t)n, sizes)) {
                *atp += CHUNK;
                return *atp < file_size;
        }
        sizes->n = 0;
        *atp = file_size;
        return false;
}

bool v8_sizes_find(int fd, uint64_t file_size, uint64_t *atp, V8Sizes *sizes) {
        uint64_t end_ns = clock_monotonic_ns() + SEARCH_NS;

        while (clock_monotonic_ns() < end_ns && v8_sizes_search(fd, file_size, atp, sizes))
                ;
        return fd >= 0 && *atp >= file_size && sizes->n;
}

static bool read_number(const uint8_t *table, size_t n, size_t *at, uint64_t *numberp) {
        uint64_t number = 0;

        for (unsigned shift = 0; *at < n && shift <= MAX_SHIFT; shift += 7) {
                uint8_t byte = table[(*at)++];

                number |= (uint64_t)(byte & 0x7f) << shift;
                if (!(byte & 0x80)) {
                        *numberp = number;
                        return true;
                }
        }
        return false;
}

/* Bytes of the bytecode at @at with its prefix; 0 = it is not known, or cut. */
static size_t size_at(const uint8_t *bytecodes, size_t n, size_t at, const V8Sizes *sizes) {
        unsigned scale = 0, prefix = 0;
        size_t size;

        if (at < n && bytecodes[at] < N_PREFIXES) {
                scale = bytecodes[at] & 1 ? 2 : 1;
                prefix = 1;
                at++;
        }
        if (at >= n || bytecodes[at] >= sizes->n)
                return 0;
        size = sizes->bytes[scale][bytecodes[at]];
        return size <= n - at ? size + prefix : 0;
}

int32_t v8_baseline_index(const uint8_t *table, size_t n_table, const uint8_t *bytecodes, size_t n_bytecodes,
                          const V8Sizes *sizes, uint32_t pc, bool is_exact) {
        uint64_t end, step, place = (uint64_t)pc + is_exact;
        size_t at = 0, index = 0, size = 0;

        if (!read_number(table, n_table, &at, &end) || end >= place)
                return -1;              /* the prologue is of no bytecode */
        do {
                index += size;
                size = size_at(bytecodes, n_bytecodes, index, sizes);
                if (!size || !read_number(table, n_table, &at, &step))
                        return -1;
                end += step;
        } while (end < place);
        return (int32_t)index;
}
