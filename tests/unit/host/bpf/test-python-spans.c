/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lines of bpf/runtimes/python_spans.bpf.h themselves, on objects of CPython made by hand in the layouts
 * of all releases.
 */

#include <criterion/criterion.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"

#include "core/base/util/macro.h"

#include "runtimes/python_spans.bpf.h"

int python_hamt_step(const struct python_spans *spans, struct python_span_walk *walk) {
        return python_hamt_do_step(spans, walk);
}

int python_keys_step(const struct python_spans *spans, struct python_span_walk *walk) {
        return python_keys_do_step(spans, walk);
}

enum {
        HEAP = 0x66000000,
        THREAD = HEAP, CONTEXT = HEAP + 0x400, HAMT = HEAP + 0x500, NODES = HEAP + 0x1000, NODE_SIZE = 0x400,
        MAPPING = HEAP + 0x600, KEYS = HEAP + 0x4000, SPAN = HEAP + 0x700, VALUES = HEAP + 0x800,
        DICT = HEAP + 0x900, SPAN_KEYS = HEAP + 0xa00, SPAN_CONTEXT = HEAP + 0xc00, TRACE_ID = HEAP + 0xd00,
        SPAN_ID = HEAP + 0xe00, TEXT = HEAP + 0x5000, PARENT = HEAP + 0x5200, PARENT_ID = HEAP + 0x5300,
        /* addresses that are compared, and never read */
        TYPES = 0x770000, OTHER = TYPES + 0xf00,
        VARIABLE = 0x780000, KEY = 0x780100, NAME = 0x780200, OTHER_KEY = 0x780300, LOCAL = 0x780400,
        REMOTE = 0x780500, NONE = 0x780600,
        CONTEXT_INDEX = 1, NAME_INDEX = 0, PARENT_INDEX = 2,
        HASH = 0x12345678,
};

#define TRACE_HIGH 0x8123456789abcdefULL
#define TRACE_LOW 0xf011223344556677ULL
#define SPAN_NUMBER 0xfedcba9876543210ULL

static uint64_t heap[0x8000 / 8];
static struct python_spans spans;
static struct python_span_walk walk;
static struct abi_span found;

static uint64_t *at(uint64_t address) {
        return &heap[(address - HEAP) / 8];
}

/* Field @i of an object. */
static uint64_t *field(uint64_t object, unsigned i) {
        return at(object + spans.head + 8 * i);
}

static void put_object(uint64_t object, uint64_t type) {
        *at(object + spans.head - 8) = type;
}

static void put_number(uint64_t object, unsigned __int128 value) {
        uint32_t *digits = (uint32_t *)field(object, 1);
        uint64_t n = 0;

        put_object(object, spans.number_type);
        for (; value; value /= 1 << 30)
                digits[n++] = (uint32_t)(value % (1 << 30));
        digits[n] = 0xffffffff;         /* bits behind them are no digit */
        *field(object, 0) = spans.old_numbers ? n : n << 3 | !n;
}

static uint64_t node(unsigned i) {
        return NODES + (uint64_t)i * NODE_SIZE;
}

/* A bitmap of @n pairs; the one of the variable's hash at @level is {@key, @value}. */
static void put_bitmap(unsigned i, unsigned level, unsigned n, uint64_t key, uint64_t value) {
        uint32_t own = HASH >> 5 * level & 31, bits = 1u << own;
        unsigned before = 0;

        for (unsigned bit = 0; bit < 32 && (unsigned)__builtin_popcount(bits) < n; bit++)
                bits |= 1u << bit;
        for (unsigned bit = 0; bit < own; bit++)
                before += bits >> bit & 1;
        put_object(node(i), spans.bitmap_type);
        *field(node(i), 0) = 2 * n;
        *field(node(i), 1) = bits;
        for (unsigned pair = 0; pair < n; pair++) {
                *field(node(i), 2 + 2 * pair) = pair == before ? key : OTHER_KEY;
                *field(node(i), 3 + 2 * pair) = pair == before ? value : OTHER;
        }
}

static uint64_t *entry_of(uint64_t keys, unsigned i) {
        if (spans.old_keys)
                return at(keys + 40 + 8 + 24 * i + 8);
        return at(keys + 32 + 8 + 16 * i);
}

static void put_keys(uint64_t keys, unsigned n) {
        if (spans.old_keys) {
                *at(keys + 8) = 8;
                *at(keys + 32) = n;
        } else {
                *at(keys + 8) = 3 << 8 | 1 << 16;
                *at(keys + 24) = n;
        }
        for (unsigned i = 0; i < n; i++) {
                entry_of(keys, i)[0] = OTHER_KEY;
                entry_of(keys, i)[1] = OTHER;
        }
}

/* The span's attributes are in a dict; it shares its keys if it has @values. */
static void put_dict(uint64_t values) {
        put_object(DICT, spans.dict_type);
        *field(DICT, 2) = SPAN_KEYS;
        *field(DICT, 3) = values;
        put_keys(SPAN_KEYS, 3);
        entry_of(SPAN_KEYS, CONTEXT_INDEX)[0] = NAME;
        entry_of(SPAN_KEYS, CONTEXT_INDEX)[1] = values ? 0 : SPAN_CONTEXT;
}

static void put_span(void) {
        uint64_t values = VALUES;

        put_object(SPAN, spans.types[0].type);
        switch ((enum python_values)spans.values) {
        case PYTHON_VALUES_DICT:
                put_dict(VALUES);
                *at(SPAN + spans.types[0].values) = DICT;
                break;
        case PYTHON_VALUES_POINTER:
                *at(SPAN - 32) = VALUES;
                break;
        case PYTHON_VALUES_TAGGED:
                *at(SPAN - 24) = VALUES - 1;
                break;
        case PYTHON_VALUES_INLINE:
                values = SPAN + spans.types[0].values;
                *at(values) = 0x01010b20;       /* capacity 32, 11 of them, embedded, valid */
                break;
        }
        *at(values + spans.values_head + 8 * CONTEXT_INDEX) = SPAN_CONTEXT;
        *at(values + spans.values_head + 8 * NAME_INDEX) = TEXT;
        *at(values + spans.values_head + 8 * PARENT_INDEX) = PARENT;
}

static void put_span_context(uint64_t object, uint64_t trace, uint64_t span, uint64_t is_remote) {
        put_object(object, spans.span_context_type);
        *field(object, 0) = 6;
        *at(object + spans.items) = trace;
        *at(object + spans.items + 8) = span;
        *at(object + spans.items + 16) = is_remote;
}

static void put_all(void) {
        memset(heap, 0, sizeof(heap));
        *at(THREAD + spans.thread_context) = CONTEXT;
        put_object(CONTEXT, spans.context_type);
        *field(CONTEXT, 1) = HAMT;
        put_object(HAMT, spans.hamt_type);
        *field(HAMT, 0) = node(0);
        *field(HAMT, 2) = 1;
        put_bitmap(0, 0, 1, VARIABLE, MAPPING);
        put_object(MAPPING, spans.mapping_type);
        *field(MAPPING, 0) = 1;
        *field(MAPPING, 2) = KEYS;
        put_keys(KEYS, 1);
        entry_of(KEYS, 0)[0] = KEY;
        entry_of(KEYS, 0)[1] = SPAN;
        put_span();
        put_span_context(SPAN_CONTEXT, TRACE_ID, SPAN_ID, LOCAL);
        put_span_context(PARENT, TRACE_ID, PARENT_ID, LOCAL);
        put_number(PARENT_ID, 99);
        for (unsigned i = 0; i < PYTHON_NAME_SIZE / 8; i++)
                *at(TEXT + 8 * i) = i + 1;
        put_number(TRACE_ID, (unsigned __int128)TRACE_HIGH << 64 | TRACE_LOW);
        put_number(SPAN_ID, SPAN_NUMBER);
}

/* As CPython 3.@minor has it. */
static void begin(unsigned minor, bool is_free_threaded) {
        uint8_t head = is_free_threaded ? 32 : 16;

        spans = (struct python_spans){
                .context_type = TYPES, .variable = VARIABLE, .hamt_type = TYPES + 0x10,
                .bitmap_type = TYPES + 0x20, .array_type = TYPES + 0x30, .collision_type = TYPES + 0x40,
                .mapping_type = TYPES + 0x50, .dict_type = TYPES + 0x60, .key = KEY, .name_context = NAME,
                .span_context_type = TYPES + 0x70, .number_type = TYPES + 0x80, .local = LOCAL, .none = NONE,
                .hash = HASH,
                .thread_context = minor < 11 ? 240 : minor == 11 ? 224 : 208, .head = head,
                .items = (uint8_t)(head + (minor >= 14 ? 16 : 8)), .old_keys = minor < 11,
                .old_numbers = minor < 12,
                .types = { { .type = TYPES + 0x90, .keys = SPAN_KEYS, .values = head,
                             .context = CONTEXT_INDEX, .name = NAME_INDEX, .parent = PARENT_INDEX },
                           { .type = TYPES + 0xa0, .values = head, .name = PYTHON_NO_ATTRIBUTE,
                             .parent = PYTHON_NO_ATTRIBUTE } },
        };
        spans.values = minor < 11 ? PYTHON_VALUES_DICT
                : minor == 11     ? PYTHON_VALUES_POINTER
                : minor == 12     ? PYTHON_VALUES_TAGGED
                                  : PYTHON_VALUES_INLINE;
        spans.values_head = minor >= 13 ? 8 : 0;
        spans.before = minor < 11 ? 0 : minor == 11 ? 32 : is_free_threaded ? 8 : 24;
        shim_areas[0] = (ShimArea){ HEAP, sizeof(heap), heap };
        put_all();
}

static uint32_t read_span(void) {
        memset(&walk, 0xee, sizeof(walk));
        found = (struct abi_span){ 0 };
        return python_span_do_read(&spans, &walk, THREAD, &found);
}

static bool is_right(void) {
        return found.trace_high == TRACE_HIGH && found.trace_low == TRACE_LOW && found.span == SPAN_NUMBER;
}

/* All layouts that there are. */
static const struct {
        unsigned minor;
        bool is_free_threaded;
} releases[] = { { 9, false }, { 10, false }, { 11, false }, { 12, false }, { 13, false }, { 14, false },
                 { 13, true }, { 14, true } };

#define EACH_RELEASE(_i) for (size_t _i = 0; _i < ARRAY_SIZE(releases); _i++)

static void begin_release(size_t i) {
        begin(releases[i].minor, releases[i].is_free_threaded);
}

Test(python_spans, each_release_keeps_the_span_that_a_thread_works_for) {
        EACH_RELEASE(i) {
                begin_release(i);
                cr_assert_eq(read_span(), PYTHON_SPAN_READ, "3.%u", releases[i].minor);
                cr_assert(is_right(), "3.%u", releases[i].minor);
                cr_assert_leq(walk.n_reads, 12 + 4, "3.%u: %u", releases[i].minor, (unsigned)walk.n_reads);
        }
}

Test(python_spans, attributes_may_have_moved_into_a_dict) {
        static const uint64_t kinds[] = { 0, VALUES };

        EACH_RELEASE(i)
                for (size_t kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
                        begin_release(i);
                        if (spans.values == PYTHON_VALUES_POINTER)
                                *at(SPAN - 32) = 0;
                        put_dict(kinds[kind]);
                        if (spans.values == PYTHON_VALUES_POINTER)
                                *at(SPAN - 24) = DICT;
                        else if (spans.values != PYTHON_VALUES_DICT)
                                *at(SPAN - spans.before) = DICT;
                        *at(VALUES + spans.values_head + 8 * CONTEXT_INDEX) = SPAN_CONTEXT;
                        spans.types[0].keys = 0;        /* not the type's: the name decides */
                        cr_assert_eq(read_span(), PYTHON_SPAN_READ, "3.%u", releases[i].minor);
                        cr_assert(is_right());
                        entry_of(SPAN_KEYS, CONTEXT_INDEX)[0] = OTHER_KEY;
                        cr_assert_eq(read_span(), PYTHON_SPAN_UNREADABLE, "another attribute's place");
                }
}

/* Where the attributes of the span are. */
static uint64_t values_of(void) {
        uint64_t in_object = (uint64_t)SPAN + spans.types[0].values;

        return (spans.values == PYTHON_VALUES_INLINE ? in_object : (uint64_t)VALUES) + spans.values_head;
}

Test(python_spans, name_and_parent_lie_beside_the_context) {
        EACH_RELEASE(i) {
                begin_release(i);
                cr_assert_eq(read_span(), PYTHON_SPAN_READ);
                cr_assert_eq(walk.facts.place, PYTHON_PLACE_CHILD);
                cr_assert_eq(walk.facts.parent, 99);
                cr_assert_eq(walk.facts.name_size, PYTHON_NAME_SIZE);
                cr_assert_eq(memcmp(walk.facts.name, at(TEXT), PYTHON_NAME_SIZE), 0);
                *at(PARENT + spans.items + 16) = REMOTE;
                cr_assert_eq(read_span(), PYTHON_SPAN_READ);
                cr_assert_eq(walk.facts.place, PYTHON_PLACE_ENTRY, "a request came with it");
                *at(values_of() + 8 * PARENT_INDEX) = NONE;
                cr_assert_eq(read_span(), PYTHON_SPAN_READ);
                cr_assert_eq(walk.facts.place, PYTHON_PLACE_ENTRY);
                put_object(PARENT, OTHER);
                *at(values_of() + 8 * PARENT_INDEX) = PARENT;
                cr_assert_eq(read_span(), PYTHON_SPAN_READ, "the span itself is known");
                cr_assert_eq(walk.facts.place, PYTHON_PLACE_UNKNOWN);
                *at(values_of() + 8 * NAME_INDEX) = HEAP + sizeof(heap) - PYTHON_NAME_FEW;
                cr_assert_eq(read_span(), PYTHON_SPAN_READ);
                cr_assert_eq(walk.facts.name_size, PYTHON_NAME_FEW);
                *at(values_of() + 8 * NAME_INDEX) = OTHER;
                cr_assert_eq(read_span(), PYTHON_SPAN_READ);
                cr_assert_eq(walk.facts.name_size, 0);
        }
}

Test(python_spans, a_thread_without_a_context_or_a_span_has_none) {
        begin(11, false);
        *at(THREAD + spans.thread_context) = 0;
        cr_assert_eq(read_span(), PYTHON_SPAN_NONE);
        put_all();
        *field(HAMT, 2) = 0;
        cr_assert_eq(read_span(), PYTHON_SPAN_NONE);
        put_all();
        put_bitmap(0, 0, 1, OTHER_KEY, MAPPING);
        cr_assert_eq(read_span(), PYTHON_SPAN_NONE, "the variable of another one");
        put_all();
        *field(node(0), 1) = 1u << ((HASH + 1) & 31);
        cr_assert_eq(read_span(), PYTHON_SPAN_NONE);
        put_all();
        entry_of(KEYS, 0)[0] = OTHER_KEY;
        cr_assert_eq(read_span(), PYTHON_SPAN_NONE);
        put_all();
        *field(MAPPING, 0) = 0;
        cr_assert_eq(read_span(), PYTHON_SPAN_NONE);
        put_all();
        put_number(SPAN_ID, 0);
        cr_assert_eq(read_span(), PYTHON_SPAN_NONE, "INVALID_SPAN");
}

Test(python_spans, a_span_of_another_process_is_none) {
        EACH_RELEASE(i) {
                begin_release(i);
                *at(SPAN_CONTEXT + spans.items + 16) = REMOTE;
                cr_assert_eq(read_span(), PYTHON_SPAN_NONE);
        }
}

Test(python_spans, a_place_that_was_not_learned_is_asked_for_once_there_are_variables) {
        begin(12, false);
        spans.variable = 0;
        cr_assert_eq(read_span(), PYTHON_SPAN_UNLEARNED);
        *field(HAMT, 2) = 0;
        cr_assert_eq(read_span(), PYTHON_SPAN_NONE);
}

Test(python_spans, no_object_of_another_type_is_followed) {
        static const uint64_t objects[] = { CONTEXT, HAMT, NODES, MAPPING, SPAN, SPAN_CONTEXT, TRACE_ID,
                                            SPAN_ID };

        EACH_RELEASE(i)
                for (size_t object = 0; object < ARRAY_SIZE(objects); object++) {
                        begin_release(i);
                        put_object(objects[object], OTHER);
                        cr_assert_eq(read_span(), PYTHON_SPAN_UNREADABLE, "3.%u, object %zu",
                                     releases[i].minor, object);
                        put_object(objects[object], 0);
                        cr_assert_eq(read_span(), PYTHON_SPAN_UNREADABLE);
                }
}

Test(python_spans, types_that_were_not_learned_are_nobodys) {
        begin(13, false);
        spans.types[0] = (struct python_span_type){ 0 };
        cr_assert_eq(read_span(), PYTHON_SPAN_UNREADABLE);
        put_object(SPAN, 0);
        cr_assert_eq(read_span(), PYTHON_SPAN_UNREADABLE);
}

Test(python_spans, values_in_the_object_are_left_alone_when_they_are_not_of_use) {
        static const uint64_t heads[] = { 0x01010b00 | CONTEXT_INDEX, 0x00010b20, 0x01000b20, 0 };

        begin(13, false);
        for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
                *at(SPAN + spans.types[0].values) = heads[i];
                cr_assert_eq(read_span(), PYTHON_SPAN_UNREADABLE, "%zu", i);
        }
        *at(SPAN + spans.types[0].values) = 0x01010b00 | PARENT_INDEX;
        cr_assert_eq(read_span(), PYTHON_SPAN_READ);
        cr_assert_eq(walk.facts.place, PYTHON_PLACE_UNKNOWN, "the parent lies behind them");
}

Test(python_spans, other_variables_make_the_tree_deeper) {
        begin(12, false);
        put_bitmap(0, 0, 16, 0, node(1));
        put_bitmap(1, 1, 2, VARIABLE, MAPPING);
        cr_assert_eq(read_span(), PYTHON_SPAN_READ);
        cr_assert(is_right());
        /* an array of 32 children */
        memset(at(node(0)), 0, NODE_SIZE);
        put_object(node(0), spans.array_type);
        *field(node(0), HASH & 31) = node(1);
        cr_assert_eq(read_span(), PYTHON_SPAN_READ);
        cr_assert(is_right());
        *field(node(0), HASH & 31) = 0;
        cr_assert_eq(read_span(), PYTHON_SPAN_NONE);
        /* two variables with one hash */
        *field(node(0), HASH & 31) = node(1);
        memset(at(node(1)), 0, NODE_SIZE);
        put_object(node(1), spans.collision_type);
        *field(node(1), 0) = 4;
        *field(node(1), 2) = OTHER_KEY;
        *field(node(1), 4) = VARIABLE;
        *field(node(1), 5) = MAPPING;
        cr_assert_eq(read_span(), PYTHON_SPAN_READ);
        cr_assert(is_right());
        *field(node(1), 4) = OTHER_KEY;
        cr_assert_eq(read_span(), PYTHON_SPAN_NONE);
}

Test(python_spans, a_bitmap_that_does_not_agree_with_its_pairs_is_none) {
        begin(12, false);
        *field(node(0), 0) = 4;
        cr_assert_eq(read_span(), PYTHON_SPAN_UNREADABLE);
}

Test(python_spans, no_way_is_longer_than_twenty_reads) {
        begin(12, false);
        for (unsigned i = 0; i < 7; i++)
                put_bitmap(i, i, 16, 0, node(i + 1));
        put_object(node(7), spans.collision_type);
        *field(node(7), 0) = 2;
        *field(node(7), 2) = VARIABLE;
        *field(node(7), 3) = MAPPING;
        cr_assert_eq(read_span(), PYTHON_SPAN_UNREADABLE);
        cr_assert_leq(walk.n_reads, 20);
        put_object(node(0), spans.array_type);
        for (unsigned i = 0; i < 32; i++)
                *field(node(0), i) = node(0);
        cr_assert_eq(read_span(), PYTHON_SPAN_UNREADABLE, "a node that leads to itself");
        cr_assert_leq(walk.n_reads, 20);
}

Test(python_spans, a_context_may_have_many_other_keys) {
        EACH_RELEASE(i) {
                begin_release(i);
                for (unsigned n = 2; n <= 40; n++) {
                        put_keys(KEYS, n);
                        entry_of(KEYS, n - 1)[0] = KEY;
                        entry_of(KEYS, n - 1)[1] = SPAN;
                        cr_assert_eq(read_span(), PYTHON_SPAN_READ, "%u keys", n);
                        cr_assert(is_right());
                }
                put_keys(KEYS, 65);
                cr_assert_eq(read_span(), PYTHON_SPAN_UNREADABLE);
        }
}

Test(python_spans, ids_have_as_many_digits_as_ids_have) {
        EACH_RELEASE(i) {
                begin_release(i);
                put_number(TRACE_ID, 7);
                put_number(SPAN_ID, 1ull << 60);
                cr_assert_eq(read_span(), PYTHON_SPAN_READ);
                cr_assert_eq(found.trace_high | (found.trace_low ^ 7), 0);
                cr_assert_eq(found.span, 1ull << 60);
                put_number(SPAN_ID, (unsigned __int128)1 << 64);
                cr_assert_eq(read_span(), PYTHON_SPAN_UNREADABLE, "more than 64 bits");
                put_number(SPAN_ID, 1);
                *field(SPAN_ID, 0) = spans.old_numbers ? UINT64_MAX : 1 << 3 | 2;
                cr_assert_eq(read_span(), PYTHON_SPAN_UNREADABLE, "negative");
                put_number(SPAN_ID, 1);
                *(uint32_t *)field(SPAN_ID, 1) = 1u << 30;
                cr_assert_eq(read_span(), PYTHON_SPAN_UNREADABLE, "no digit");
                put_number(SPAN_ID, 1);
                put_number(TRACE_ID, (unsigned __int128)1 << 127);
                ((uint32_t *)field(TRACE_ID, 1))[4] = 1 << 8;
                cr_assert_eq(read_span(), PYTHON_SPAN_UNREADABLE, "more than 128 bits");
        }
}

static uint32_t result(void) {
        return python_span_result(&walk, read_span());
}

Test(python_spans, each_end_has_its_reason) {
        EACH_RELEASE(i) {
                begin_release(i);
                cr_assert_eq(result(), SDK_RESULT_READ);
                *at(SPAN_CONTEXT + spans.items + 16) = REMOTE;
                cr_assert_eq(result(), SDK_RESULT_REMOTE);
                put_all();
                entry_of(KEYS, 0)[0] = OTHER_KEY;
                cr_assert_eq(result(), SDK_RESULT_NONE);
                *at(THREAD + spans.thread_context) = 0;
                cr_assert_eq(result(), SDK_RESULT_NONE);
                put_all();
                put_object(SPAN_CONTEXT, OTHER);
                cr_assert_eq(result(), SDK_RESULT_TYPE);
                put_all();
                *at(THREAD + spans.thread_context) = OTHER;
                cr_assert_eq(result(), SDK_RESULT_FAULT);
                put_all();
                put_keys(KEYS, 65);
                cr_assert_eq(result(), SDK_RESULT_FAR);
                put_all();
                spans.variable = 0;
                cr_assert_eq(result(), SDK_RESULT_UNLEARNED);
        }
}

Test(python_spans, a_tree_that_leads_nowhere_is_too_far) {
        begin(12, false);
        for (unsigned i = 0; i < 7; i++)
                put_bitmap(i, i, 16, 0, node(i + 1));
        put_object(node(7), spans.collision_type);
        *field(node(7), 0) = 64;
        for (unsigned i = 0; i < 32; i++)
                *field(node(7), 2 + 2 * i) = OTHER_KEY;
        cr_assert_eq(result(), SDK_RESULT_FAR);
        put_all();
        put_object(node(0), spans.array_type);
        for (unsigned i = 0; i < 32; i++)
                *field(node(0), i) = node(0);
        cr_assert_eq(result(), SDK_RESULT_TYPE, "a node that leads to itself is deeper than a hash is long");
}

Test(python_spans, memory_that_ends_anywhere_gives_no_other_span) {
        EACH_RELEASE(i) {
                size_t n_right = 0;

                begin_release(i);
                for (size_t size = 0; size <= sizeof(heap); size += 8) {
                        shim_areas[0].size = size;
                        if (read_span() != PYTHON_SPAN_READ)
                                continue;
                        cr_assert(is_right(), "3.%u, %zu bytes", releases[i].minor, size);
                        n_right++;
                }
                cr_assert_gt(n_right, 0);
        }
}
