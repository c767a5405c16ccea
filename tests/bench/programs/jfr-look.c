/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a look at a recording that grows costs the worker (--jfr): the first one at a chunk, one that finds
 * its last quarter new, and one that finds constants alone, which are at its end. Each of them goes through
 * all of it. Best of ROUNDS (5).
 *
 * usage: jfr-look CHUNK [ROUNDS]
 *
 *     make-jfr 200000 30 100 > chunk.jfr; jfr-look chunk.jfr
 */

#include <stdio.h>
#include <stdlib.h>

#include "core/base/file/file.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "host/jfr/jfr-tail.h"

static const struct {
        const char *name;
        uint64_t from;                  /* percent */
} looks[] = { { "the first look", 0 },
              { "a look at its last quarter", 75 },
              { "a look at its last tenth", 90 } };

static uint64_t look(const JfrMemory *memory, uint64_t from, JfrTailSaid *said) {
        const JfrInput input = jfr_memory_input(memory);
        const JfrTailRequest request = { .magic = JFR_TAIL_MAGIC, .from = from };
        uint64_t begin_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
        uint8_t *data;

        if (jfr_tail_read(&input, &request, said, &data))
                exit(1);
        free(data);
        return clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns;
}

int main(int argc, char **argv) {
        unsigned n_rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 5;
        char *data = NULL;
        JfrMemory memory;
        size_t size;

        if (argc < 2 || file_read(argv[1], JFR_TAIL_MAX_CHUNK, &data, &size)) {
                fprintf(stderr, "usage: jfr-look CHUNK [ROUNDS]\n");
                return 2;
        }
        memory = (JfrMemory){ (const uint8_t *)data, size };
        for (unsigned i = 0; i < ARRAY_SIZE(looks); i++) {
                uint64_t from = size / 100 * looks[i].from, best_ns = UINT64_MAX;
                JfrTailSaid said = { 0 };

                for (unsigned k = 0; k < n_rounds; k++) {
                        uint64_t ns = look(&memory, from, &said);

                        best_ns = ns < best_ns ? ns : best_ns;
                }
                printf("%s: %.2f ms of CPU for %.1f MB, %lu events in the answer\n",
                       looks[i].name, (double)best_ns / 1e6, (double)size / 1e6,
                       (unsigned long)said.n_events);
        }
        free(data);
        return 0;
}
