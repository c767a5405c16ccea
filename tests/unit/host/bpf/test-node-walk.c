/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The way of both halves to the record of Node, in objects made by hand as V8 has them (24 and 32: where an
 * object has its first internal field). Each check that a wrong layout must not pass is spoiled alone.
 */

#include <criterion/criterion.h>
#include <string.h>

#include "shim/bpf-shim.h"
#include "shim/node-shim.h"

enum {
        MEMORY = 0x40000000,
        VARIABLE = 0x000,
        SLOT = 0x040,
        HANDLE = 0x048,
        UNDEFINED = 0x080,
        KEY = 0x0a0,
        MAP = 0x100,
        VALUE = 0x140,
        TABLE = 0x200,
        RECORD = 0x800,
        WRAPPER = 0x840,
        SIZE = 0x1000,
        BUCKETS = 4,
        HASH = 0x12345a,                /* bucket 2 */
        BUCKET = TABLE + 40 + 8 * (HASH & (BUCKETS - 1)),
        ENTRIES = TABLE + 40 + 8 * BUCKETS,
        LAST = -1,
};

#define CLASS 0x7001

static _Alignas(8) uint8_t memory[SIZE];

static void put(uint64_t at, uint64_t value) {
        memcpy(memory + at, &value, sizeof(value));
}

static void put_small(uint64_t at, int value) {
        put(at, (uint64_t)(uint32_t)value << 32);
}

static void put_object(uint64_t at, uint64_t to) {
        put(at, MEMORY + to + 1);
}

/* Entries 0 to @n - 1 of the bucket, the newest first; the key is the oldest. */
static void put_chain(int n) {
        put_small(BUCKET, n - 1);
        for (int i = 0; i < n; i++) {
                put_object(ENTRIES + 24 * (uint64_t)i, i ? UNDEFINED : KEY);
                put_object(ENTRIES + 24 * (uint64_t)i + 8, i ? UNDEFINED : VALUE);
                put_small(ENTRIES + 24 * (uint64_t)i + 16, i - 1);
        }
}

static void put_counts(int present, int gone, int buckets) {
        put_small(TABLE + 8, 3 + 7 * buckets);
        put_small(TABLE + 16, present);
        put_small(TABLE + 24, gone);
        put_small(TABLE + 32, buckets);
}

static struct node_layout told;

static void set_up(uint32_t record_at) {
        told = (struct node_layout){ 0 };
        memset(memory, 0, sizeof(memory));
        shim_areas[0] = (ShimArea){ .address = MEMORY, .size = sizeof(memory), .data = memory };
        put(VARIABLE, MEMORY + SLOT);
        put(VARIABLE + 8, MEMORY + HANDLE);
        put(VARIABLE + 16, (uint64_t)record_at << 32 | HASH);
        put_object(VARIABLE + 24, UNDEFINED);
        put_object(SLOT, MAP);
        put_object(HANDLE, KEY);
        put(UNDEFINED, CLASS);
        put(MAP, CLASS);
        put_object(MAP + 24, TABLE);
        put(TABLE, CLASS);
        put_counts(3, 0, BUCKETS);
        put_chain(3);
        put(VALUE, CLASS);
        put(VALUE + record_at, MEMORY + RECORD);
}

static enum node_end walk(void) {
        uint64_t record = 0;
        enum node_end end = node_find_record(NULL, &told, MEMORY + VARIABLE, &record);

        cr_assert(end != NODE_FOUND || record == MEMORY + RECORD, "0x%lx", record);
        return end;
}

TestSuite(node_walk);

Test(node_walk, finds_the_record_in_both_layouts) {
        set_up(24);
        cr_expect_eq(walk(), NODE_FOUND);
        set_up(32);
        cr_expect_eq(walk(), NODE_FOUND);
        put_chain(1);
        cr_expect_eq(walk(), NODE_FOUND);
        put_counts(3, 5, BUCKETS);      /* full of entries that are gone */
        put_chain(8);
        cr_expect_eq(walk(), NODE_FOUND);
}

/* Keys of @datadog/pprof 5.19, and of 5.17 and 5.18, which have a wrapper; all numbers are those of V8 12. */
static const struct node_layout direct = { .table_at = 24, .header_size = 16, .object_at = 24, .is_told = 1 };
static const struct node_layout wrapped = {
        .table_at = 24, .header_size = 16, .object_at = 24, .wrap_at = 8, .is_told = 1, .is_wrapped = 1
};

static void set_up_told(const struct node_layout *layout, uint32_t object_at) {
        set_up(24);
        told = *layout;
        put(VARIABLE + 16, HASH);
        put(VALUE + 24, 0);
        put(VALUE + object_at, MEMORY + (layout->is_wrapped ? WRAPPER : RECORD));
        put(WRAPPER + layout->wrap_at, MEMORY + RECORD);
}

Test(node_walk, finds_the_record_where_the_process_context_tells_it) {
        set_up_told(&direct, 24);
        cr_expect_eq(walk(), NODE_FOUND);
        set_up_told(&wrapped, 24);
        cr_expect_eq(walk(), NODE_FOUND);
        put(WRAPPER + 8, 0);
        cr_expect_eq(walk(), NODE_NO_SPAN);
        set_up_told(&wrapped, 24);
        put(VALUE + 24, MEMORY + WRAPPER + 1);
        cr_expect_eq(walk(), NODE_UNREADABLE);
        set_up_told(&wrapped, 24);
        put(VALUE + 24, 0x1000);        /* no memory of the process */
        cr_expect_eq(walk(), NODE_UNREADABLE);
}

Test(node_walk, the_embedders_word_of_newer_v8_is_passed_over) {
        set_up_told(&direct, 32);
        cr_expect_eq(walk(), NODE_FOUND);
        set_up_told(&wrapped, 32);
        cr_expect_eq(walk(), NODE_FOUND);
        put(VALUE + 32, 0);
        cr_expect_eq(walk(), NODE_NO_SPAN);
}

Test(node_walk, a_layout_that_is_told_moves_the_table) {
        set_up_told(&direct, 24);
        told.table_at = 32;
        put(MAP + 24, 0);
        put_object(MAP + 32, TABLE);
        cr_expect_eq(walk(), NODE_FOUND);
        told.header_size = 24;
        memmove(memory + TABLE + 24, memory + TABLE + 16, 0x200);
        cr_expect_eq(walk(), NODE_FOUND);
}

Test(node_walk, what_the_variable_says_comes_before_what_the_process_context_tells) {
        set_up(32);
        told = wrapped;
        cr_expect_eq(walk(), NODE_FOUND);
        put(VARIABLE + 16, 40ULL << 32 | HASH);
        cr_expect_eq(walk(), NODE_UNREADABLE);
}

Test(node_walk, nothing_current_is_no_span) {
        set_up(32);
        put(VARIABLE, 0);               /* the writer is not at work in this thread */
        put(VARIABLE + 16, 0);
        cr_expect_eq(walk(), NODE_NO_SPAN);
        set_up(32);
        put_object(SLOT, UNDEFINED);
        cr_expect_eq(walk(), NODE_NO_SPAN);
        set_up(32);
        put_small(BUCKET, LAST);
        cr_expect_eq(walk(), NODE_NO_SPAN);
        set_up(32);
        put_object(ENTRIES, MAP);       /* a map without the key */
        cr_expect_eq(walk(), NODE_NO_SPAN);
        set_up(32);
        put_object(ENTRIES + 8, UNDEFINED);
        cr_expect_eq(walk(), NODE_NO_SPAN);
        set_up(32);
        put(VALUE + 32, 0);             /* the writer ends */
        cr_expect_eq(walk(), NODE_NO_SPAN);
}

/* A collector writes the new address over the first word of what it moves, without the tag. */
Test(node_walk, objects_that_are_being_moved_give_no_record) {
        static const uint64_t objects[] = { MAP, TABLE, VALUE };

        for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
                set_up(24);
                put(objects[i], MEMORY + 0x900);
                cr_expect_eq(walk(), NODE_MOVING, "%zu", i);
        }
}

Test(node_walk, writers_that_do_not_say_where_the_record_is_are_not_read) {
        static const uint32_t offsets[] = { 0, 8, 16, 25, 40, 1 << 30 };

        for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
                set_up(24);
                put(VARIABLE + 16, (uint64_t)offsets[i] << 32 | HASH);
                cr_expect_eq(walk(), NODE_UNREADABLE, "%u", offsets[i]);
        }
}

static const struct {
        const char *name;
        uint64_t at, value;
} spoiled[] = {
        { "slot elsewhere", VARIABLE, 0x1000 },
        { "handle elsewhere", VARIABLE + 8, 0x1000 },
        { "a number is current", SLOT, 5ULL << 32 },
        { "a weak pointer is current", SLOT, MEMORY + MAP + 3 },
        { "a map elsewhere", SLOT, 0x1001 },
        { "no table", MAP + 24, 0 },
        { "a table elsewhere", MAP + 24, 0x1001 },
        { "compressed numbers", TABLE + 8, 31 * 2 },
        { "a table too short", TABLE + 8, 30ULL << 32 },
        { "a table too long", TABLE + 8, 32ULL << 32 },
        { "more entries than room", TABLE + 16, 9ULL << 32 },
        { "less than none", TABLE + 24, 0xffffffff00000000 },
        { "a table that is not in force any more", TABLE + 16, MEMORY + 0x901 },
        { "no buckets", TABLE + 32, 0 },
        { "three buckets", TABLE + 32, 3ULL << 32 },
        { "millions of buckets", TABLE + 32, 1ULL << 56 },
        { "a bucket's entry past the last", BUCKET, 3ULL << 32 },
        { "a bucket's entry below none", BUCKET, 0xfffffffe00000000 },
        { "a bucket that is no number", BUCKET, MEMORY + 1 },
        { "a circle of others", ENTRIES, MEMORY + UNDEFINED + 1 },
        { "a value that is a number", ENTRIES + 8, 7ULL << 32 },
        { "a value elsewhere", ENTRIES + 8, 0x1001 },
        { "an object where the address should be", VALUE + 24, MEMORY + UNDEFINED + 1 },
};

Test(node_walk, what_does_not_fit_is_unreadable) {
        for (size_t i = 0; i < sizeof(spoiled) / sizeof(spoiled[0]); i++) {
                set_up(24);
                put_small(ENTRIES + 16, 0);             /* should the key be missed, the chain has no end */
                put(spoiled[i].at, spoiled[i].value);
                cr_expect_eq(walk(), NODE_UNREADABLE, "%s", spoiled[i].name);
        }
}
