/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lines of bpf/runtimes/go.bpf.h themselves, on goroutines and labels made by hand; then what the daemon
 * makes of the bytes.
 */

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "shim/bpf-shim.h"
#include "host/runtime/go/go-host.h"

#include "host/sampling/context/goroutine-labels.h"

enum {
        MEMORY = 0x40000000,
        /* places in it */
        THREAD = 0x100,                 /* thread pointer; g is 8 below */
        M = 0x200,
        G0 = 0x400,
        G = 0x600,                      /* the goroutine */
        SET = 0x800,
        TABLE = 0xa00,                  /* slice, or buckets */
        OLD = 0x3000,
        TEXTS = 0x5000,
        SIZE = 0xa000,
        GOID = 4711,
        /* offsets of fields */
        G_M = 48,
        G_GOID = 152,
        G_LABELS = 344,
        M_CURG = 192,
};

static _Alignas(8) uint8_t memory[SIZE];
static struct go_process process;
static struct go_state state;
static size_t text_end;

static void put(uint64_t at, uint64_t value) {
        memcpy(memory + at, &value, sizeof(value));
}

static void put_string(uint64_t at, const char *text) {
        size_t size = strlen(text);

        memcpy(memory + text_end, text, size);
        put(at, MEMORY + text_end);
        put(at + 8, size);
        text_end += size;
}

static void setup(void) {
        memset(memory, 0, sizeof(memory));
        memset(&state, 0xaa, sizeof(state));
        text_end = TEXTS;
        shim_areas[0] = (ShimArea){ .address = MEMORY, .size = sizeof(memory), .data = memory };
        process = (struct go_process){ .tls_offset = -8, .m = G_M, .goid = G_GOID, .labels = G_LABELS,
                                       .curg = M_CURG, .form = GO_LABELS_SLICE };
        put(THREAD - 8, MEMORY + G);
        put(G + G_M, MEMORY + M);
        put(G0 + G_M, MEMORY + M);
        put(M + M_CURG, MEMORY + G);
        put(G + G_GOID, GOID);
        put(G + G_LABELS, MEMORY + SET);
        put(SET, MEMORY + TABLE);
}

static uint32_t go(void) {
        return go_do_read(&process, &state, MEMORY + THREAD);
}

/* The labels in the state's bytes as `key=value ` each. */
static const char *told(void) {
        static char text[4096];
        size_t at = GO_HEADER_SIZE, n = 0;
        GoroutineLabel label;

        text[0] = 0;
        while (goroutine_labels_next(state.bytes, state.size, &at, &label))
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s=%.*s ", label.key_size,
                                      (const char *)label.key, label.value_size, (const char *)label.value);
        cr_assert_eq(at, state.size);
        return text;
}

static void put_slice(unsigned n, unsigned size) {
        put(SET + 8, n);
        put(SET + 16, size);
}

static void put_label(unsigned i, const char *key, const char *value) {
        put_string(TABLE + 32 * i, key);
        put_string(TABLE + 32 * i + 16, value);
}

TestSuite(go, .init = setup);

Test(go, in_a_register) {
        uint64_t goid;

        process.in_register = 1;
        for (unsigned i = 0; i < 2; i++) {
                cr_assert_eq(go_do_read(&process, &state, MEMORY + (i ? G0 : G)), GO_END_READ);
                memcpy(&goid, state.bytes, sizeof(goid));
                cr_assert_eq(goid, GOID);
        }
        cr_assert_eq(go_do_read(&process, &state, 0), GO_END_NONE);
        /* C has something else in it: readable memory that is no g, an address of nothing */
        cr_assert_eq(go_do_read(&process, &state, MEMORY + TABLE), GO_END_UNREADABLE);
        cr_assert_eq(go_do_read(&process, &state, 0xdead0000dead0000), GO_END_UNREADABLE);
        cr_assert_eq(state.size, 0);
}

Test(go, a_slice) {
        uint64_t goid;

        put_slice(2, 3);
        put_label(0, "a", "one");
        put_label(1, "span_id", "0011");
        cr_assert_eq(go(), GO_END_READ);
        cr_assert_str_eq(told(), "a=one span_id=0011 ");
        memcpy(&goid, state.bytes, sizeof(goid));
        cr_assert_eq(goid, GOID);
        cr_assert_eq(state.n_left_out, 0);
}

Test(go, no_labels_at_all) {
        put(G + G_LABELS, 0);
        cr_assert_eq(go(), GO_END_READ);
        cr_assert_eq(state.size, GO_HEADER_SIZE);
}

Test(go, the_scheduler_works_for_its_goroutine) {
        put(THREAD - 8, MEMORY + G0);
        put_slice(1, 1);
        put_label(0, "k", "v");
        cr_assert_eq(go(), GO_END_READ);
        cr_assert_str_eq(told(), "k=v ");
}

Test(go, the_scheduler_has_none) {
        put(THREAD - 8, MEMORY + G0);
        put(M + M_CURG, 0);
        cr_assert_eq(go(), GO_END_NONE);
        cr_assert_eq(state.size, 0);
        put(THREAD - 8, 0);
        cr_assert_eq(go(), GO_END_NONE);
}

Test(go, a_goroutine_of_another_thread_is_refused) {
        put(G + G_M, MEMORY + M + 8);
        put(THREAD - 8, MEMORY + G0);
        cr_assert_eq(go(), GO_END_UNREADABLE);
        cr_assert_eq(state.size, 0);
}

Test(go, pointers_to_nowhere) {
        const uint64_t places[] = { THREAD - 8, G + G_M, M + M_CURG };

        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
                setup();
                put(places[i], 0xdead0000dead0000);
                cr_assert_eq(go(), GO_END_UNREADABLE);
                cr_assert_eq(state.size, 0);
        }
        setup();
        put(G + G_LABELS, 0xdead0000dead0000);
        cr_assert_eq(go(), GO_END_UNREADABLE);
        setup();
        put(G + G_GOID, 0);
        cr_assert_eq(go(), GO_END_UNREADABLE);
}

Test(go, a_slice_that_is_none) {
        put_slice(3, 2);
        cr_assert_eq(go(), GO_END_UNREADABLE);
        put_slice(1 << 20, 1 << 20);
        cr_assert_eq(go(), GO_END_UNREADABLE);
}

Test(go, long_and_unreadable_labels_are_left_out) {
        char text[300];

        memset(text, 'x', sizeof(text));
        text[299] = 0;
        put_slice(5, 5);
        put_label(0, "long", text);
        put_label(1, text, "long");
        put_label(2, "", "no key");
        put_label(3, "gone", "v");
        put(TABLE + 32 * 3 + 16, 0xdead0000dead0000);
        put_label(4, "k", "");
        cr_assert_eq(go(), GO_END_READ);
        cr_assert_str_eq(told(), "k= ");
        cr_assert_eq(state.n_left_out, 4);
}

Test(go, ids_come_before_what_does_not_fit) {
        char key[32];

        put_slice(101, 101);
        for (unsigned i = 0; i < 100; i++) {
                snprintf(key, sizeof(key), "another-label-%u", i);
                put_label(i, key, "v");
        }
        put_label(100, "span_id", "0011223344556677");
        cr_assert_eq(go(), GO_END_READ);
        cr_assert_eq(strncmp(told(), "span_id=0011223344556677 another-label-0=v ", 43), 0);
        cr_assert_eq(state.n_left_out, 101 - state.n_put);
        cr_assert_leq(state.size, ABI_MAX_ATTRIBUTES_SIZE);
        cr_assert_gt(state.size, ABI_MAX_ATTRIBUTES_SIZE - 32);
}

/* ---- custom_labels_current_set ---- */

static void put_custom(unsigned i, const char *key, const char *value) {
        uint64_t words[4];

        put_label(i, key, value);
        memcpy(words, memory + TABLE + 32 * i, sizeof(words));
        for (unsigned j = 0; j < 4; j++)
                put(TABLE + 32 * i + 8 * (j ^ 1), words[j]);
}

Test(go, a_set_of_custom_labels) {
        put_slice(3, 4);
        put_custom(0, "a", "one");
        put_custom(1, "gone", "two");
        put(TABLE + 32 + 8, 0);         /* its key has no address: it is none */
        put_custom(2, "span_id", "0011");
        cr_assert_eq(go_do_read_custom(&state, MEMORY + SET), GO_END_READ);
        cr_assert_str_eq(told(), "a=one span_id=0011 ");
        cr_assert_eq(state.n_left_out, 0);
        /* the same memory is no slice of Go, whose strings are the other way round */
        cr_assert_eq(go(), GO_END_READ);
        cr_assert_str_eq(told(), "");
}

Test(go, custom_labels_that_are_none) {
        put_slice(3, 2);
        cr_assert_eq(go_do_read_custom(&state, MEMORY + SET), GO_END_UNREADABLE);
        put_slice(1 << 20, 1 << 20);
        cr_assert_eq(go_do_read_custom(&state, MEMORY + SET), GO_END_UNREADABLE);
        cr_assert_eq(go_do_read_custom(&state, 0xdead0000dead0000), GO_END_UNREADABLE);
        put_slice(2, 2);
        put(SET, 0xdead0000dead0000);
        cr_assert_eq(go_do_read_custom(&state, MEMORY + SET), GO_END_READ);
        cr_assert_eq(state.n_left_out, 2);
        cr_assert_eq(state.size, GO_HEADER_SIZE);
}

/* ---- maps ---- */

static void put_map(uint64_t count, unsigned shift, uint64_t old) {
        process.form = GO_LABELS_MAP;
        put(SET, MEMORY + SET + 64);
        put(SET + 64, count);
        put(SET + 72, (uint64_t)shift << 8);
        put(SET + 80, MEMORY + TABLE);
        put(SET + 88, old);
}

static void put_entry(uint64_t bucket, unsigned i, uint8_t hash, const char *key, const char *value) {
        memory[bucket + i] = hash;
        put_string(bucket + 8 + 16 * i, key);
        put_string(bucket + 136 + 16 * i, value);
}

Test(go, a_map) {
        put_map(2, 0, 0);
        put_entry(TABLE, 0, 200, "a", "one");
        put_entry(TABLE, 3, 5, "b", "two");
        put_entry(TABLE, 4, 4, "moved", "away");
        cr_assert_eq(go(), GO_END_READ);
        cr_assert_str_eq(told(), "a=one b=two ");
        cr_assert_eq(state.n_left_out, 0);
}

Test(go, a_map_with_overflow_that_grows) {
        put_map(4, 1, MEMORY + OLD);
        put_entry(TABLE, 0, 200, "a", "1");
        put(TABLE + 264, MEMORY + OLD + 272);
        put_entry(OLD + 272, 7, 200, "b", "2");
        put_entry(TABLE + 272, 1, 200, "c", "3");
        put_entry(OLD, 2, 2, "a", "1");
        put_entry(OLD, 3, 77, "d", "4");
        cr_assert_eq(go(), GO_END_READ);
        cr_assert_str_eq(told(), "a=1 b=2 c=3 d=4 ");
}

Test(go, a_map_without_end) {
        put_map(1000, 0, 0);
        put(TABLE + 264, MEMORY + TABLE);
        put_entry(TABLE, 0, 200, "a", "1");
        cr_assert_eq(go(), GO_END_READ);
        cr_assert_eq(state.n_put, GO_MAX_BUCKETS);
        cr_assert_eq(state.n_left_out, 1000 - GO_MAX_BUCKETS);
}

Test(go, a_map_that_is_none) {
        put_map(1, 60, 0);
        cr_assert_eq(go(), GO_END_UNREADABLE);
        put_map(1 << 30, 0, 0);
        cr_assert_eq(go(), GO_END_UNREADABLE);
        put(SET, 0);
        cr_assert_eq(go(), GO_END_READ);
}

/* ---- the daemon's part ---- */

static GoroutineContext context;

/* Labels as `key=value`, NULL at the end. Return: whether they are sound. */
static bool resolve(bool with_id, const char *const *labels) {
        uint8_t bytes[ABI_MAX_ATTRIBUTES_SIZE] = { 77 };
        size_t size = GO_HEADER_SIZE;

        for (; *labels; labels++) {
                const char *value = strchr(*labels, '=') + 1;
                size_t key_size = (size_t)(value - *labels) - 1;

                bytes[size] = (uint8_t)key_size;
                bytes[size + 1] = (uint8_t)strlen(value);
                memcpy(bytes + size + 2, *labels, key_size);
                memcpy(bytes + size + 2 + key_size, value, strlen(value));
                size += 2 + key_size + strlen(value);
        }
        return goroutine_context_read(bytes, size, with_id, &context);
}

static const char *rest(void) {
        memcpy(state.bytes, context.attributes, context.attributes_size);
        state.size = context.attributes_size ? context.attributes_size : GO_HEADER_SIZE;
        return told();
}

#define RESOLVE(with_id, ...) resolve(with_id, (const char *const[]){ __VA_ARGS__, NULL })

Test(go, ids_of_opentelemetry) {
        cr_assert(RESOLVE(false, "span_id=0011223344556677", "tenant=t", "trace_id=00000000000000010000000000000abC"));
        cr_assert_eq(context.span.trace_high, 1);
        cr_assert_eq(context.span.trace_low, 0xabc);
        cr_assert_eq(context.span.span, 0x11223344556677);
        cr_assert_eq(context.local_root, 0);
        cr_assert_eq(context.goid, 77);
        cr_assert_str_eq(rest(), "tenant=t ");
        cr_assert_eq(context.attributes[0], 0);
}

Test(go, ids_of_datadog) {
        cr_assert(RESOLVE(true, "local root span id=18446744073709551615", "span id=12", "trace endpoint=/x"));
        cr_assert_eq(context.span.trace_high, 0);
        cr_assert_eq(context.span.trace_low, UINT64_MAX);
        cr_assert_eq(context.span.span, 12);
        cr_assert_eq(context.local_root, UINT64_MAX);
        cr_assert_str_eq(rest(), "trace endpoint=/x ");
        cr_assert_eq(context.attributes[0], 77);
}

Test(go, of_two_labels_with_one_key_the_first_counts) {
        cr_assert(RESOLVE(false, "span_id=0000000000000001", "trace_id=00000000000000000000000000000002", "a=1",
                          "span_id=0000000000000003", "trace_id=00000000000000000000000000000004", "a=2"));
        cr_assert_eq(context.span.span, 1);
        cr_assert_eq(context.span.trace_low, 2);
        cr_assert_str_eq(rest(), "a=1 ");
}

Test(go, ids_that_are_none) {
        static const char *const sets[][3] = {
                { "span_id=0011223344556677" },
                { "span_id=0011223344556677", "trace_id=00000000000000000000000000000000" },
                { "span_id=0000000000000000", "trace_id=00000000000000000000000000000001" },
                { "span_id=001122334455667", "trace_id=00000000000000000000000000000001" },
                { "span_id=001122334455667g", "trace_id=00000000000000000000000000000001" },
                { "span id=18446744073709551616", "local root span id=1" },
                { "span id=-1", "local root span id=1" },
                { "span id=", "local root span id=1" },
                { "span id=0", "local root span id=1" },
                { "span id=1", "span_id=0011223344556677" },
        };

        for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
                cr_assert(resolve(false, sets[i]));
                cr_assert_eq(context.span.span | context.span.trace_high | context.span.trace_low, 0, "%zu", i);
                cr_assert_gt(strlen(rest()), strlen(sets[i][0]));
        }
}

Test(go, a_key_comes_once) {
        cr_assert(RESOLVE(false, "a=1", "b=2", "a=3"));
        cr_assert_str_eq(rest(), "a=1 b=2 ");
}

Test(go, bytes_that_are_cut) {
        uint8_t bytes[16] = { 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 'a', 'b', 2, 200, 'x' };

        cr_assert(goroutine_context_read(bytes, 0, false, &context));
        cr_assert_eq(context.attributes_size, 0);
        cr_assert_not(goroutine_context_read(bytes, 7, false, &context));
        cr_assert(goroutine_context_read(bytes, 12, false, &context));
        cr_assert_str_eq(rest(), "a=b ");
        cr_assert_not(goroutine_context_read(bytes, 15, false, &context));
        cr_assert_str_eq(rest(), "a=b ");
}
