/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has one function for each step of the three operations, kept apart by attributes of the compiler, and
 * measures at start how many turns of each give it its share of CPU time.
 */
#include <stdint.h>
#include <time.h>

#include "operations.h"

/* One function in the source is one function in the profile: no inlining, no clones with parts of it. */
#if defined(__clang__)
#define STEP static __attribute__((__noinline__))
#else
#define STEP static __attribute__((__noipa__))
#endif

/*
 * A step that calls nothing gets a frame only if it asks for one: gcc leaves it out whatever
 * -fno-omit-frame-pointer says, and a walk by frame pointers then loses the caller.
 */
#define KEEP_FRAME() __asm__ volatile("" : : "r"(__builtin_frame_address(0)))

#define ARRAY_SIZE(_a) (sizeof(_a) / sizeof((_a)[0]))

/* checkout: hash the receipt (most of it), price the cart */

STEP void checkout_hash_receipt(Workbench *bench) {
        uint64_t hash = bench->state | 1;

        KEEP_FRAME();
        for (unsigned int i = 0; i < sizeof(bench->receipt); i++) {
                hash = (hash ^ bench->receipt[i]) * UINT64_C(0x100000001b3);
                bench->receipt[i] = (uint8_t)(hash >> 29);
        }
        bench->state = hash;
}

STEP void checkout_price_cart(Workbench *bench) {
        uint64_t total = 0;

        KEEP_FRAME();
        for (unsigned int i = 0; i < ARRAY_SIZE(bench->prices); i++) {
                bench->prices[i] = (bench->prices[i] + bench->state) % 9973;
                total += bench->prices[i] * (100 + i % 25) / 100;
        }
        bench->state += total;
}

STEP void checkout_serve(Workbench *bench, unsigned int amount) {
        for (unsigned int i = 0; i < amount; i++) {
                checkout_price_cart(bench);
                checkout_hash_receipt(bench);
        }
}

/* search: collect hits, sort them (most of it) */

STEP void search_collect_hits(Workbench *bench) {
        KEEP_FRAME();
        for (unsigned int i = 0; i < ARRAY_SIZE(bench->hits); i++) {
                bench->state = bench->state * UINT64_C(6364136223846793005) + 1442695040888963407;
                bench->hits[i] = (uint32_t)(bench->state >> 33);
        }
}

STEP void search_sort_hits(Workbench *bench) {
        KEEP_FRAME();
        for (unsigned int gap = ARRAY_SIZE(bench->hits) / 2; gap > 0; gap /= 2)
                for (unsigned int i = gap; i < ARRAY_SIZE(bench->hits); i++) {
                        uint32_t hit = bench->hits[i];
                        unsigned int to = i;

                        for (; to >= gap && bench->hits[to - gap] > hit; to -= gap)
                                bench->hits[to] = bench->hits[to - gap];
                        bench->hits[to] = hit;
                }
        bench->state ^= bench->hits[0];
}

STEP void search_serve(Workbench *bench, unsigned int amount) {
        for (unsigned int i = 0; i < amount; i++) {
                search_collect_hits(bench);
                search_sort_hits(bench);
        }
}

/* health: render numbers as text, parse them back (most of it) */

STEP void health_render_report(Workbench *bench) {
        uint64_t value = bench->state;

        KEEP_FRAME();
        for (unsigned int i = 0; i < sizeof(bench->report) - 1; i++) {
                bench->report[i] = i % 16 == 15 ? ',' : (char)('0' + (value & 7));
                value = value >> 3 | value << 61;
        }
        bench->report[sizeof(bench->report) - 1] = '\0';
}

STEP void health_parse_report(Workbench *bench) {
        uint64_t number = 0, check = 0;

        KEEP_FRAME();
        for (const char *c = bench->report; *c; c++) {
                if (*c >= '0' && *c <= '9') {
                        number = number * 10 + (uint64_t)(*c - '0');
                        continue;
                }
                check = check * 31 + number % 1009;     /* a division a number */
                number = 0;
        }
        bench->state += check;
}

STEP void health_serve(Workbench *bench, unsigned int amount) {
        for (unsigned int i = 0; i < amount; i++) {
                health_render_report(bench);
                health_parse_report(bench);
        }
}

static struct {
        const char *name;
        void (*serve)(Workbench *bench, unsigned int amount);
        uint64_t nominal_ns;
        unsigned int amount;            /* of one request; set by the calibration */
} operations[N_OPERATIONS] = {
        [OPERATION_CHECKOUT] = { "checkout", checkout_serve, 1400000, 1 },
        [OPERATION_SEARCH] = { "search", search_serve, 400000, 1 },
        [OPERATION_HEALTH] = { "health", health_serve, 200000, 1 },
};

const char *operation_name(OperationKind kind) {
        return operations[kind].name;
}

uint64_t operation_nominal_ns(OperationKind kind) {
        return operations[kind].nominal_ns;
}

void operation_serve(OperationKind kind, Workbench *bench) {
        operations[kind].serve(bench, operations[kind].amount);
}

static uint64_t cpu_of(OperationKind kind, Workbench *bench, unsigned int amount) {
        struct timespec start, end;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
        operations[kind].serve(bench, amount);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        return (uint64_t)((end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec);
}

/* The least of several tries: interrupts and neighbours only ever make it slower. */
static uint64_t cost_of(OperationKind kind, Workbench *bench) {
        enum { AMOUNT = 1000, N_TRIES = 8 };
        uint64_t least = UINT64_MAX;

        for (int i = 0; i < N_TRIES; i++) {
                uint64_t cpu_ns = cpu_of(kind, bench, AMOUNT);

                least = cpu_ns < least ? cpu_ns : least;
        }
        return least / AMOUNT + 1;
}

void operations_calibrate(void) {
        static Workbench bench;

        for (int kind = 0; kind < N_OPERATIONS; kind++) {
                uint64_t amount = operations[kind].nominal_ns / cost_of(kind, &bench);

                operations[kind].amount = amount ? (unsigned int)amount : 1;
        }
}
