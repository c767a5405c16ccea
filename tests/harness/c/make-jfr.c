/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes a recording of known contents to standard output:
 *
 *     make-jfr EVENTS DEPTH CONTEXTS [CHUNKS]
 *
 * EVENTS of the four types datadog.ExecutionSample, datadog.MethodSample, datadog.ObjectSample and
 * jdk.JavaMonitorEnter in turn, each with one of CONTEXTS spans and one of min(EVENTS, 5,000) stacks of DEPTH
 * frames out of 500 methods: what the benchmark of the Java converter makes. Spread over CHUNKS chunks.
 */

#include "jfr-maker.h"

static void add_event(JfrMaker *maker, uint64_t i, uint64_t contexts) {
        uint64_t ticks = maker->start_ticks + i * 1000, stack = 1 + i * 7 % maker->n_stacks,
                 thread = 1 + i % maker->n_threads;
        uint64_t span = 1 + i % contexts, root = 1 + span % 10;

        switch (i % 4) {
        case 0:
                MAKER_EVENT(maker, MAKER_DD_EXECUTION, { ticks }, { thread }, { stack }, { span }, { root },
                            { 1 }, { .text = i % 8 ? "/checkout" : "/search", .number = i % 8 ? 1 : 2 });
                break;
        case 1:
                MAKER_EVENT(maker, MAKER_DD_METHOD, { ticks }, { thread }, { stack }, { span }, { root },
                            { 1 });
                break;
        case 2:
                MAKER_EVENT(maker, MAKER_DD_OBJECT, { ticks }, { thread }, { stack }, { 1 + i % 3 }, { 1000 },
                            { .real = 1.5 }, { span }, { root });
                break;
        default:
                MAKER_EVENT(maker, MAKER_ENTER, { ticks }, { 2000 }, { thread }, { stack }, { 1 });
        }
}

int main(int argc, char **argv) {
        uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 5000,
                 contexts = argc > 3 ? strtoull(argv[3], NULL, 10) : 100;
        uint64_t n_chunks = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
        JfrMaker maker = { .encoding = 2,
                           .n_threads = 16,
                           .n_methods = 500,
                           .depth = argc > 2 ? (uint32_t)atoi(argv[2]) : 50,
                           .start_ns = UINT64_C(1700000000000000000),
                           .start_ticks = 1000000,
                           .ticks_per_second = 1000000000 };

        maker.n_stacks = n < 5000 ? (uint32_t)n : 5000;
        if (argc > 5 || !n || !contexts || !n_chunks) {
                fprintf(stderr, "usage: %s EVENTS DEPTH CONTEXTS [CHUNKS]\n", argv[0]);
                return 2;
        }
        for (uint64_t chunk = 0; chunk < n_chunks; chunk++) {
                maker_begin_chunk(&maker);
                for (uint64_t i = n * chunk / n_chunks; i < n * (chunk + 1) / n_chunks; i++)
                        add_event(&maker, i, contexts);
                maker_end_chunk(&maker);
                if (fwrite(maker.data, 1, maker.size, stdout) != maker.size)
                        return 1;
                maker.size = 0;
        }
        free(maker.data);
        return fflush(stdout) ? 1 : 0;
}
