/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Methods by hand, whose byte code is that of the JVM specification. `each` calls `accept` at 3 in a loop that
 * its jump back at 9 closes, and `accept` calls `work`, `other` and `more`. The places around a loop of compiled
 * code are in accept and at that jump, so what accept calls behind 1 runs between them.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "host/runtime/hotspot/hotspot-loop.h"

enum {
        BASE = 0x7f0000000000,
        SIZE = 0x4000,
        POOL = BASE + 0x100,            /* of the one class */
        TAGS = BASE + 0x300,
        CACHE = BASE + 0x400,
        ENTRIES = BASE + 0x600,         /* an array of them, as in JDK 22 */
        KLASS = BASE + 0x700,
        SYMBOLS = BASE + 0x800,         /* 32 bytes each */
        METHODS = BASE + 0x1000,        /* 0x200 bytes each: Method, ConstMethod at 0x40 */
        N_SLOTS = 40,
        SIGNATURE = 30, CLASS_NAME = 31,        /* slots of the pool */
};

/* Methods, and at the same time their entries of the cache. */
enum { EACH, ACCEPT, WORK, OTHER, MORE, N_METHODS };

#define LOAD 0x1a                       /* iload_0 */
#define INC 0x84, 0, 1
#define BACK(_by) 0xa7, 0xff, (uint8_t)(-(_by))
#define CALL(_method) 0xb8, (_method), 0        /* invokestatic */
#define VIRTUAL(_method) 0xb9, (_method), 0, 1, 0
#define ARRAY 0xbc, 10
#define RETURN 0xb1

static const uint8_t looping[] = { LOAD, INC, BACK(3), RETURN }, straight[] = { LOAD, RETURN };
static const uint8_t each[] = { LOAD, LOAD, LOAD, VIRTUAL(ACCEPT), LOAD, BACK(9), RETURN };

static uint8_t memory[SIZE];

static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        (void)userdata;
        if (address < BASE || size > SIZE || address - BASE > SIZE - size)
                return false;
        memcpy(to, memory + (address - BASE), size);
        return true;
}

static const HotspotReader reader = { read_memory, NULL };
static HotspotLayout layout;

static void put(uint64_t address, const void *bytes, size_t size) {
        memcpy(memory + (address - BASE), bytes, size);
}

static void put_u64(uint64_t address, uint64_t value) {
        put(address, &value, sizeof(value));
}

static uint64_t method_at(unsigned i) {
        return METHODS + i * 0x200;
}

static void put_slot(unsigned slot, uint8_t tag, uint64_t value) {
        put(TAGS + 4 + slot, &tag, 1);
        put_u64(POOL + 40 + slot * 8, value);
}

/* A name in @slot of the pool. */
static void put_name(unsigned slot, const char *text) {
        uint64_t symbol = SYMBOLS + slot * 32;
        uint16_t length = (uint16_t)strlen(text);

        put(symbol, &length, sizeof(length));
        put(symbol + 2, text, length);
        put_slot(slot, 1, symbol);
}

static void put_code(unsigned i, const uint8_t *code, uint16_t size) {
        uint64_t const_method = method_at(i) + 0x40;

        put(const_method + 8, &size, sizeof(size));
        put(const_method + 16, code, size);
}

/* Slots: 1 + i the Methodref of method i, 10 + i its NameAndType, 20 + i its name. */
static void put_method(unsigned i, const char *name) {
        const uint16_t indexes[] = { (uint16_t)(20 + i), SIGNATURE };

        put_u64(method_at(i), method_at(i) + 0x40);
        put_u64(method_at(i) + 0x40, POOL);
        put(method_at(i) + 0x40 + 10, indexes, sizeof(indexes));
        put_name(20 + i, name);
        put_slot(10 + i, 12, SIGNATURE << 16 | (20 + i));
        put_slot(1 + i, 10, (10 + i) << 16);
        put_u64(CACHE + 16 + i * 24, 1 + i);
        put_u64(CACHE + 16 + i * 24 + 8, method_at(i));
        put_code(i, straight, sizeof(straight));
}

static void setup(void) {
        static const char *const names[] = { "each", "accept", "work", "other", "more" };
        const uint32_t length = N_SLOTS;

        memset(memory, 0, sizeof(memory));
        layout = (HotspotLayout){
                .method = { .const_method = { 0, 8, false }, .constants = { 0, 8, false },
                            .code_size = { 8, 2, false }, .name = { 10, 2, false },
                            .signature = { 12, 2, false }, .tags = { 0, 8, false }, .holder = { 8, 8, false },
                            .pool_length = { 24, 4, false }, .klass_name = { 0, 8, false },
                            .klass_constants = { 8, 8, false }, .symbol_length = { 0, 2, false },
                            .symbol_body = { 2, 1, false }, .array_length = { 0, 4, false },
                            .array_u1 = { 4, 1, false }, .method_size = 24, .const_method_size = 16,
                            .pool_size = 40 },
                .calls = { .cache = { 16, 8, false }, .index = { 0, 8, false }, .first = { 8, 8, false },
                           .second = { 16, 8, false }, .intrinsic = { 16, 2, false }, .cache_size = 16,
                           .entry_size = 24 },
        };
        put_u64(POOL, TAGS);
        put_u64(POOL + 8, KLASS);
        put_u64(POOL + 16, CACHE);
        put(POOL + 24, &length, sizeof(length));
        put(TAGS, &length, sizeof(length));
        put_name(CLASS_NAME, "Main");
        put_name(SIGNATURE, "()V");
        put_u64(KLASS, SYMBOLS + CLASS_NAME * 32);
        put_u64(KLASS + 8, POOL);
        for (unsigned i = 0; i < N_METHODS; i++)
                put_method(i, names[i]);
        put_code(EACH, each, sizeof(each));
}

static HotspotChain found;

/* Whether a loop is found between accept at 1 and each at 9. */
static bool find(void) {
        const HotspotBlob blob = { .method = method_at(EACH) };
        const HotspotCompiled in = { NULL, &layout, &reader, &blob };
        const HotspotChain before = { { { method_at(ACCEPT), 1 }, { method_at(EACH), 3 } }, 2 };
        const HotspotChain after = { { { method_at(EACH), 9 } }, 1 };

        return hotspot_loop_find(&found, &in, &before, &after, 1, false);
}

#define ACCEPT_CALLS(...) \
        put_code(ACCEPT, (const uint8_t[]){ LOAD, LOAD, __VA_ARGS__, RETURN }, \
                 sizeof((const uint8_t[]){ LOAD, LOAD, __VA_ARGS__, RETURN }))

/* @leaf: whose loop it is; @caller calls it at @bci. */
static void check_found(unsigned leaf, int32_t leaf_bci, unsigned caller, int32_t bci) {
        cr_assert(find());
        cr_assert_eq(found.scopes[0].method, method_at(leaf));
        cr_assert_eq(found.scopes[0].bci, leaf_bci);
        cr_assert_eq(found.scopes[1].method, method_at(caller));
        cr_assert_eq(found.scopes[1].bci, bci);
        cr_assert_eq(found.scopes[found.n - 1].method, method_at(EACH));
}

TestSuite(hotspot_loop, .init = setup);

Test(hotspot_loop, the_only_loop_between_two_places_is_found) {
        ACCEPT_CALLS(CALL(OTHER), CALL(WORK));
        put_code(WORK, looping, sizeof(looping));
        check_found(WORK, 1, ACCEPT, 5);
        cr_assert_eq(found.n, 3);
        cr_assert_eq(found.scopes[2].bci, 3);
}

Test(hotspot_loop, a_loop_that_is_called_deeper_is_found) {
        ACCEPT_CALLS(CALL(OTHER));
        put_code(OTHER, (const uint8_t[]){ LOAD, CALL(WORK), RETURN }, 5);
        put_code(WORK, looping, sizeof(looping));
        check_found(WORK, 1, OTHER, 1);
        cr_assert_eq(found.n, 4);
}

Test(hotspot_loop, of_two_loops_none_is_taken) {
        ACCEPT_CALLS(CALL(OTHER), CALL(WORK));
        put_code(WORK, looping, sizeof(looping));
        put_code(OTHER, looping, sizeof(looping));
        cr_assert_not(find());
}

Test(hotspot_loop, no_loop_is_found_where_there_is_none) {
        ACCEPT_CALLS(CALL(OTHER), CALL(WORK));
        cr_assert_not(find());
}

Test(hotspot_loop, what_has_run_before_does_not_count) {
        put_code(ACCEPT, (const uint8_t[]){ CALL(OTHER), LOAD, CALL(WORK), RETURN }, 8);
        put_code(WORK, looping, sizeof(looping));
        put_code(OTHER, looping, sizeof(looping));
        const HotspotBlob blob = { .method = method_at(EACH) };
        const HotspotCompiled in = { NULL, &layout, &reader, &blob };
        const HotspotChain before = { { { method_at(ACCEPT), 3 }, { method_at(EACH), 3 } }, 2 };
        const HotspotChain after = { { { method_at(EACH), 9 } }, 1 };

        cr_assert(hotspot_loop_find(&found, &in, &before, &after, 1, false));
        cr_assert_eq(found.scopes[0].method, method_at(WORK));
        /* Where the loop of each begins anew, all of accept may have run. */
        cr_assert_not(hotspot_loop_find(&found, &in, &before, &after, 1, true));
}

Test(hotspot_loop, a_loop_around_a_call_of_a_loop_is_not_the_inner_one) {
        ACCEPT_CALLS(LOAD, CALL(WORK), BACK(4));
        put_code(WORK, looping, sizeof(looping));
        check_found(WORK, 1, ACCEPT, 3);
}

Test(hotspot_loop, a_call_that_depends_on_an_object_may_have_a_loop) {
        ACCEPT_CALLS(VIRTUAL(OTHER), CALL(WORK));
        put_code(WORK, looping, sizeof(looping));
        cr_assert_not(find());
}

Test(hotspot_loop, a_call_that_never_ran_has_none) {
        ACCEPT_CALLS(CALL(OTHER), CALL(WORK));
        put_code(WORK, looping, sizeof(looping));
        put_code(OTHER, looping, sizeof(looping));
        put_u64(CACHE + 16 + OTHER * 24 + 8, 0);
        check_found(WORK, 1, ACCEPT, 5);
}

/* The entry was another's meanwhile. */
Test(hotspot_loop, a_target_of_another_name_is_not_believed) {
        ACCEPT_CALLS(CALL(WORK));
        put_code(OTHER, looping, sizeof(looping));
        put_u64(CACHE + 16 + WORK * 24 + 8, method_at(OTHER));
        cr_assert_not(find());
}

Test(hotspot_loop, the_loop_of_an_intrinsic_is_its_caller_s) {
        const uint16_t id = 7;

        ACCEPT_CALLS(CALL(WORK));
        put_code(WORK, looping, sizeof(looping));
        put(method_at(WORK) + 16, &id, sizeof(id));
        check_found(ACCEPT, 2, EACH, 3);
}

Test(hotspot_loop, a_new_array_is_cleared_by_a_loop_too) {
        ACCEPT_CALLS(LOAD, ARRAY, CALL(WORK));
        put_code(WORK, looping, sizeof(looping));
        cr_assert_not(find());
        put_code(WORK, straight, sizeof(straight));
        check_found(ACCEPT, 3, EACH, 3);
}

Test(hotspot_loop, a_recursion_ends) {
        ACCEPT_CALLS(CALL(WORK));
        put_code(WORK, (const uint8_t[]){ CALL(WORK), RETURN }, 4);
        cr_assert_not(find());
}

Test(hotspot_loop, byte_code_that_is_none_is_not_read) {
        ACCEPT_CALLS(CALL(WORK), 0xff);
        put_code(WORK, looping, sizeof(looping));
        cr_assert_not(find());
}

Test(hotspot_loop, without_the_mark_of_intrinsics_nothing_is_said) {
        ACCEPT_CALLS(CALL(WORK));
        put_code(WORK, looping, sizeof(looping));
        layout.calls.intrinsic.size = 0;
        cr_assert_not(find());
}

/* JDK 22 and later: { Method *, …, _cpool_index } in an array. */
Test(hotspot_loop, entries_of_newer_releases_are_read) {
        layout.calls = (HotspotCallLayout){ .cache = { 16, 8, false }, .entries = { 8, 8, false },
                                            .index = { 16, 2, false }, .intrinsic = { 16, 2, false },
                                            .cache_size = 16, .entry_size = 24 };
        memset(memory + (CACHE - BASE), 0, 0x100);
        put_u64(CACHE + 8, ENTRIES);
        for (unsigned i = 0; i < N_METHODS; i++) {
                put_u64(ENTRIES + 8 + i * 24, method_at(i));
                put_u64(ENTRIES + 8 + i * 24 + 16, 1 + i);
        }
        ACCEPT_CALLS(CALL(WORK));
        put_code(WORK, looping, sizeof(looping));
        check_found(WORK, 1, ACCEPT, 2);
        put_u64(ENTRIES + 8 + WORK * 24, 0);
        cr_assert_not(find(), "nothing says that it never ran");
}

/* One call that two methods were inlined for, by the class of an object. */
Test(hotspot_loop, a_call_with_two_targets_contradicts) {
        const HotspotChain one = { { { 0x30, 4 }, { 0x20, 1 }, { 0x10, 9 } }, 3 };
        const HotspotChain two = { { { 0x40, 2 }, { 0x10, 9 } }, 2 };
        const HotspotChain elsewhere = { { { 0x40, 2 }, { 0x10, 5 } }, 2 };
        const HotspotChain deeper = { { { 0x50, 0 }, { 0x20, 7 }, { 0x10, 9 } }, 3 };
        const HotspotChain root = { { { 0x10, 9 } }, 1 };

        cr_assert(hotspot_loop_contradicts(&one, &two));
        cr_assert_not(hotspot_loop_contradicts(&one, &elsewhere));
        cr_assert_not(hotspot_loop_contradicts(&one, &deeper));
        cr_assert_not(hotspot_loop_contradicts(&one, &root));
        cr_assert_not(hotspot_loop_contradicts(&one, &one));
}
