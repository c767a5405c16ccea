/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Code of Go's runtime, with the instructions of `go tool objdump` for Go 1.18.10, 1.19.13 and 1.26.8 between
 * which some others stand: where it has its variables.
 */

#include <criterion/criterion.h>
#include <string.h>

#include "host/runtime/go/go-heap-code.h"

enum {
        CODE = 0x401000,
        CYCLE = 0x510000,
        LOCK = 0x510040,
        FUTURES = 0x510080,
        BUCKETS = 0x510100,
        BLOCKS = 0x510108,
        RATE = 0x510200,
        OFF = 0x510208,
        ROOM = 512,
};

static uint8_t bytes[GO_HEAP_N_FUNCTIONS][ROOM];
static GoHeapCode code[GO_HEAP_N_FUNCTIONS];
static GoHeapFunction function;         /* that instructions are added to */
static GoHeapPlaces places;

static void add(const void *from, size_t n) {
        GoHeapCode *to = &code[function];

        cr_assert_leq(to->size + n, ROOM);
        memcpy(bytes[function] + to->size, from, n);
        to->size += n;
}

#define ADD(...) add((const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

/* The rest of an instruction: a place relative to its end, then @n_more bytes of 0. */
static void add_place(uint64_t address, size_t n_more) {
        static const uint8_t zeros[4];
        int32_t distance = (int32_t)(address - (code[function].address + code[function].size + 4 + n_more));

        add(&distance, sizeof(distance));
        add(zeros, n_more);
}

#define ADD_PLACE(_address, _n_more, ...) (ADD(__VA_ARGS__), add_place((_address), (_n_more)))

static void begin(GoHeapFunction which) {
        function = which;
        code[which] = (GoHeapCode){ .bytes = bytes[which], .address = CODE + 0x1000 * which };
        ADD(0x49, 0x3b, 0x66, 0x10, 0x55, 0x48, 0x89, 0xe5);    /* cmp 16(%r14),%rsp; push, mov %rbp */
}

static void add_flush(void) {
        begin(GO_HEAP_FLUSH);
        ADD_PLACE(CYCLE, 0, 0x8b, 0x05);                /* mov mProfCycle,%eax */
        ADD(0x83, 0xc9, 0x01);
        ADD_PLACE(CYCLE, 0, 0x48, 0x8d, 0x15);          /* lea mProfCycle,%rdx */
        ADD(0xf0, 0x0f, 0xb1, 0x0a);
        ADD_PLACE(FUTURES, 0, 0x48, 0x8d, 0x15);        /* lea profMemFutureLock,%rdx */
        ADD_PLACE(LOCK, 0, 0x48, 0x8d, 0x05);           /* lea profMemActiveLock,%rax */
        ADD(0xe8, 1, 2, 3, 4);
        ADD_PLACE(LOCK, 0, 0x48, 0x8d, 0x05);
        ADD(0xc3);
}

static void add_bucket(void) {
        begin(GO_HEAP_BUCKET);
        ADD(0x48, 0x83, 0xf9, 0x01, 0x75, 0x09);        /* cmp $1,%rcx; jne */
        ADD_PLACE(BUCKETS, 0, 0x48, 0x8d, 0x05);
        ADD(0xeb, 0x07);
        ADD_PLACE(BLOCKS, 0, 0x48, 0x8d, 0x05);
        ADD(0xc3);
}

static void add_init(void) {
        begin(GO_HEAP_INIT);
        ADD_PLACE(OFF, 1, 0x80, 0x3d);                  /* cmpb $0,disableMemoryProfiling */
        ADD(0x74, 0x0b);
        ADD_PLACE(RATE, 4, 0x48, 0xc7, 0x05);           /* movq $0,MemProfileRate */
        ADD(0xc3);
}

static void setup(void) {
        memset(code, 0, sizeof(code));
        add_flush();
        begin(GO_HEAP_FLUSH_LOCKED);
        ADD(0x89, 0xc1, 0x48, 0x83, 0xf9, 0x03);
        ADD_PLACE(BUCKETS, 0, 0x48, 0x8b, 0x15);        /* mov mbuckets,%rdx */
        ADD(0xc3);
        add_bucket();
        add_init();
}

static void check(bool is_split) {
        cr_assert_eq(places.cycle, CYCLE);
        cr_assert_eq(places.lock, LOCK);
        cr_assert_eq(places.buckets, BUCKETS);
        cr_assert_eq(places.rate, RATE);
        cr_assert_eq(places.is_split, is_split);
}

TestSuite(go_heap_code, .init = setup);

Test(go_heap_code, places_of_126) {
        cr_assert(go_heap_decode(code, 26, &places));
        check(false);
}

Test(go_heap_code, a_function_that_is_a_part_of_another) {
        code[GO_HEAP_FLUSH_LOCKED] = (GoHeapCode){ 0 };
        cr_assert_not(go_heap_decode(code, 26, &places));
        function = GO_HEAP_FLUSH;
        ADD_PLACE(BUCKETS, 0, 0x48, 0x8b, 0x15);
        cr_assert(go_heap_decode(code, 26, &places));
        check(false);
}

static void add_init_119(void) {
        begin(GO_HEAP_INIT);
        ADD_PLACE(OFF, 0, 0x0f, 0xb6, 0x05);            /* movzbl disableMemoryProfiling,%eax */
        ADD(0x48, 0x85, 0xc0);
        ADD(0xb8, 0x00, 0x00, 0x08, 0x00);              /* mov $0x80000,%eax */
        ADD(0xb9, 0, 0, 0, 0, 0x48, 0x0f, 0x45, 0xc1);
        ADD_PLACE(RATE, 0, 0x48, 0x89, 0x05);           /* mov %rax,MemProfileRate */
}

Test(go_heap_code, places_of_119) {
        cr_assert_not(go_heap_decode(code, 19, &places));
        add_init_119();
        cr_assert(go_heap_decode(code, 19, &places));
        check(false);
        cr_assert_not(go_heap_decode(code, 20, &places));
}

Test(go_heap_code, places_of_118) {
        begin(GO_HEAP_FLUSH);
        ADD_PLACE(LOCK, 0, 0x48, 0x8d, 0x05);           /* lea proflock,%rax */
        ADD(0xe8, 1, 2, 3, 4);
        ADD_PLACE(CYCLE + 4, 1, 0x80, 0x3d);            /* cmpb $0,mProf+4 */
        ADD_PLACE(LOCK, 0, 0x48, 0x8d, 0x05);
        begin(GO_HEAP_FLUSH_LOCKED);
        ADD_PLACE(CYCLE, 0, 0x8b, 0x0d);                /* mov mProf,%ecx */
        ADD_PLACE(BUCKETS, 0, 0x48, 0x8b, 0x15);
        begin(GO_HEAP_BUCKET);
        ADD_PLACE(BUCKETS, 0, 0x48, 0x8b, 0x0d);        /* mov mbuckets,%rcx */
        ADD_PLACE(BUCKETS, 0, 0x48, 0x89, 0x05);
        add_init_119();
        cr_assert(go_heap_decode(code, 18, &places));
        check(true);
}

/* Each function is needed, and one that was cut says nothing wrong. */
Test(go_heap_code, cut_functions) {
        for (GoHeapFunction i = 0; i < GO_HEAP_N_FUNCTIONS; i++) {
                size_t size = code[i].size;

                for (code[i].size = 0; code[i].size < size; code[i].size++)
                        if (go_heap_decode(code, 26, &places))
                                check(false);
                code[i].size = 0;
                cr_assert_not(go_heap_decode(code, 26, &places), "without function %d", (int)i);
                code[i].size = size;
        }
}

Test(go_heap_code, lists_that_do_not_agree) {
        begin(GO_HEAP_FLUSH_LOCKED);
        ADD_PLACE(BUCKETS + 64, 0, 0x48, 0x8b, 0x15);
        cr_assert_not(go_heap_decode(code, 26, &places));
}

Test(go_heap_code, two_locks_or_two_rates) {
        function = GO_HEAP_FLUSH;
        ADD_PLACE(FUTURES, 0, 0x48, 0x8d, 0x05);
        cr_assert_not(go_heap_decode(code, 26, &places));
        add_flush();
        cr_assert(go_heap_decode(code, 26, &places));
        function = GO_HEAP_INIT;
        ADD_PLACE(OFF, 1, 0x80, 0x3d);
        ADD(0x74, 0x0b);
        ADD_PLACE(RATE + 8, 4, 0x48, 0xc7, 0x05);
        cr_assert_not(go_heap_decode(code, 26, &places));
}
