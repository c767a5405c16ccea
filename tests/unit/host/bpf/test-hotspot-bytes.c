/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lines of bpf/runtimes/hotspot_bytes.bpf.h themselves, on JavaThreads made by hand. Offsets are those of
 * OpenJDK 25.0.3 and 21.0.8.
 */

#include <criterion/criterion.h>

#include "shim/bpf-shim.h"

#include "runtimes/hotspot_bytes.bpf.h"

enum {
        THREAD = 0x7f100000,
        OBJECTS = 0x7f200000,           /* words of handles */
        STACK = 0x7f300000,             /* end of the stack */
        STACK_SIZE = 0x10000,
        SP = STACK - 0x100,
        WORDS = 256,
        BYTES_AT = 560,
        START_AT = 448,
        TOP_AT = 456,
        STACK_AT = 1000,
        ENTRY_AT = 1504,
        OBJECT_AT = 1200,
};

static uint64_t thread[WORDS], objects[4];
static struct hotspot_process process;

static uint64_t *at(unsigned offset) {
        return &thread[offset / 8];
}

static void set_up(void) {
        process = (struct hotspot_process){ .allocated = BYTES_AT, .tlab_start = START_AT, .tlab_top = TOP_AT,
                                            .stack_base = STACK_AT, .carried = ENTRY_AT };
        shim_areas[0] = (ShimArea){ THREAD, sizeof(thread), thread };
        shim_areas[1] = (ShimArea){ OBJECTS, sizeof(objects), objects };
        *at(BYTES_AT) = 1000000;
        *at(START_AT) = 0xf0000000;
        *at(TOP_AT) = 0xf0000000 + 4711;
        *at(STACK_AT) = STACK;
        *at(STACK_AT + 8) = STACK_SIZE;
}

static uint64_t read_bytes(void) {
        return hotspot_bytes(&process, THREAD, SP);
}

TestSuite(hotspot_bytes, .init = set_up);

Test(hotspot_bytes, are_those_of_the_count_and_of_the_buffer) {
        cr_assert_eq(read_bytes(), 1004711ull << ABI_VALUE_BYTES_SHIFT);
        *at(TOP_AT) = *at(START_AT) = 0;        /* it has no buffer */
        cr_assert_eq(read_bytes(), 1000000ull << ABI_VALUE_BYTES_SHIFT);
        *at(START_AT) = 0xf0000000;             /* between two writes of the JVM */
        cr_assert_eq(read_bytes(), 1000000ull << ABI_VALUE_BYTES_SHIFT);
}

Test(hotspot_bytes, of_a_carrier_say_so) {
        *at(ENTRY_AT) = SP + 16;
        cr_assert_eq(read_bytes(), 1004711ull << ABI_VALUE_BYTES_SHIFT | ABI_VALUE_IS_CARRIER);
}

/* JDK 21: handles of the thread that runs, and of the thread itself. */
Test(hotspot_bytes, of_a_carrier_are_known_by_two_handles) {
        process.own = OBJECT_AT;
        *at(ENTRY_AT) = OBJECTS;
        *at(OBJECT_AT) = OBJECTS + 8;
        objects[0] = objects[1] = 0xe0001000;
        cr_assert_eq(read_bytes(), 1004711ull << ABI_VALUE_BYTES_SHIFT);
        objects[0] = 0xe0002000;
        cr_assert_eq(read_bytes(), 1004711ull << ABI_VALUE_BYTES_SHIFT | ABI_VALUE_IS_CARRIER);
        *at(ENTRY_AT) = 0;
        cr_assert_eq(read_bytes(), ABI_VALUE_TICK);
}

Test(hotspot_bytes, of_what_is_no_thread_are_not_known) {
        cr_assert_eq(hotspot_bytes(&process, THREAD + 4, SP), ABI_VALUE_TICK);
        cr_assert_eq(hotspot_bytes(&process, 0, SP), ABI_VALUE_TICK);
        cr_assert_eq(hotspot_bytes(&process, UINT64_MAX - 7, SP), ABI_VALUE_TICK);
        cr_assert_eq(hotspot_bytes(&process, THREAD, STACK), ABI_VALUE_TICK, "another thread's stack");
        cr_assert_eq(hotspot_bytes(&process, THREAD, STACK - STACK_SIZE - 8), ABI_VALUE_TICK);
        *at(STACK_AT + 8) = UINT64_MAX;
        cr_assert_eq(read_bytes(), ABI_VALUE_TICK, "a stack that is larger than where it ends");
}

Test(hotspot_bytes, are_not_believed_beyond_all_measure) {
        *at(TOP_AT) = *at(START_AT) + (1ull << 40);
        cr_assert_eq(read_bytes(), ABI_VALUE_TICK);
        set_up();
        *at(BYTES_AT) = 1ull << 56;
        cr_assert_eq(read_bytes(), ABI_VALUE_TICK);
        *at(BYTES_AT) = UINT64_MAX;             /* with the buffer's it would begin again at 0 */
        *at(TOP_AT) = *at(START_AT) + 8;
        cr_assert_eq(read_bytes(), ABI_VALUE_TICK);
}

Test(hotspot_bytes, are_not_asked_for_where_offsets_are_not_known) {
        process.allocated = 0;
        shim_n_reads = 0;
        cr_assert_eq(read_bytes(), ABI_VALUE_TICK);
        cr_assert_eq(shim_n_reads, 0);
}

/* Any bytes: a few reads, and a value that the daemon takes. */
Test(hotspot_bytes, of_any_memory_are_sound) {
        uint64_t state = 88172645463325252ull;

        for (unsigned i = 0; i < 100000; i++) {
                uint64_t value;

                for (unsigned k = 0; k < 6; k++) {
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        *at((unsigned[]){ BYTES_AT, START_AT, TOP_AT, STACK_AT, STACK_AT + 8, ENTRY_AT }[k]) =
                                state >> (state & 63);
                }
                process.own = i % 2 ? OBJECT_AT : 0;
                shim_n_reads = 0;
                value = hotspot_bytes(&process, THREAD, *at(STACK_AT) - 8);
                cr_assert_leq(shim_n_reads, 8);
                cr_assert(value == ABI_VALUE_TICK || !(value & ABI_VALUE_TICK));
        }
}
