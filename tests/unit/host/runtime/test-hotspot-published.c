/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "host/runtime/hotspot/hotspot-published.h"

enum { BIAS = 0x10000, N = 4 };

/* A JVMFlag, in an order of its own. */
typedef struct Flag {
        uint64_t other, value, name;
} Flag;

/* What a process has at BIAS. */
static struct Memory {
        uint64_t other, list, count;    /* nothing is described at 0 */
        Flag flags[N];
        char names[N][32];
        uint64_t values[N];
        uint64_t threads, list_of_threads[2], next_thread;
} memory;

#define ADDRESS(_member) (BIAS + offsetof(struct Memory, _member))

static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        (void)userdata;
        if (address < BIAS || address - BIAS > sizeof(memory) || size > sizeof(memory) - (address - BIAS))
                return false;
        memcpy(to, (const uint8_t *)&memory + (address - BIAS), size);
        return true;
}

static const HotspotReader reader = { read_memory, NULL };

static HotspotLayout layout;

static void set(unsigned i, const char *name, uint64_t value) {
        strcpy(memory.names[i], name);
        memory.values[i] = value;
        memory.flags[i] = (Flag){ .name = ADDRESS(names) + i * sizeof(memory.names[0]),
                                  .value = ADDRESS(values) + i * sizeof(memory.values[0]) };
}

static void setup(void) {
        memset(&memory, 0, sizeof(memory));
        memory.list = ADDRESS(flags);
        memory.count = N;
        layout = (HotspotLayout){ .flags = { .list = offsetof(struct Memory, list),
                                             .count = offsetof(struct Memory, count),
                                             .name = { offsetof(Flag, name), 8, false },
                                             .value = { offsetof(Flag, value), 8, false },
                                             .struct_size = sizeof(Flag) } };
        set(0, "UseCountedLoopSafepointsNot", 1);
        set(1, "TieredStopAtLevel", 4);
        set(2, "UseCompiler", 1);
        set(3, "UseCountedLoopSafepoints", 0);
}

TestSuite(hotspot_published, .init = setup);

static bool lacks(void) {
        return hotspot_published_no_loop_polls(&layout, &reader, BIAS);
}

Test(hotspot_published, code_of_c2_without_safepoints_in_loops_is_told) {
        cr_assert(lacks());
        set(3, "UseCountedLoopSafepoints", 1);
        cr_assert_not(lacks());
}

Test(hotspot_published, without_c2_there_is_no_such_code) {
        set(1, "TieredStopAtLevel", 1);
        cr_assert_not(lacks());
        setup();
        set(2, "UseCompiler", 0);
        cr_assert_not(lacks());
}

Test(hotspot_published, what_is_not_described_is_not_told) {
        memory.count = 3;
        cr_assert_not(lacks());
        setup();
        layout.flags.struct_size = 0;
        cr_assert_not(lacks());
        setup();
        layout.flags.value.size = 0;
        cr_assert_not(lacks());
}

Test(hotspot_published, memory_that_is_none_is_not_believed) {
        memory.count = UINT64_MAX;              /* more than there are: those that are there count */
        cr_assert(lacks());
        setup();
        memory.list = 8;
        cr_assert_not(lacks());
        setup();
        memory.flags[3].value = UINT64_MAX;
        cr_assert_not(lacks());
        setup();
        memory.flags[0].name = UINT64_MAX;      /* its name cannot be read: the others can */
        cr_assert(lacks());
}

static bool has_begun(void) {
        return hotspot_published_has_begun(&layout, &reader, BIAS);
}

Test(hotspot_published, a_jvm_starts_until_it_has_a_second_thread) {
        cr_assert(has_begun());                 /* no list is described */
        layout.locks.threads = offsetof(struct Memory, threads);
        layout.locks.n_threads = (HotspotField){ 8, 4, false };
        cr_assert_not(has_begun());
        memory.threads = ADDRESS(list_of_threads);
        cr_assert_not(has_begun());
        memory.list_of_threads[1] = 1;
        cr_assert_not(has_begun());
        memory.list_of_threads[1] = 2;
        cr_assert(has_begun());
}

Test(hotspot_published, threads_of_older_releases_are_a_chain) {
        layout.locks.first_thread = offsetof(struct Memory, threads);
        layout.locks.next_thread = (HotspotField){ 8, 8, false };
        cr_assert_not(has_begun());
        memory.threads = ADDRESS(list_of_threads);
        cr_assert_not(has_begun());
        memory.list_of_threads[1] = ADDRESS(next_thread);
        cr_assert(has_begun());
}
