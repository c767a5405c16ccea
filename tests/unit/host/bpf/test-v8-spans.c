/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lines of bpf/runtimes/v8_spans.bpf.h themselves, on objects of V8 made by hand: an isolate, Maps,
 * hidden classes with names, a span.
 */

#include <criterion/criterion.h>
#include <string.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"
#include "shim/v8-spans-shim.h"

enum {
        HEAP = 0x66000000, SIZE = 0x10000, ISOLATE = HEAP,
        MAP = 2112, OBJECT = 1057, SYMBOL = 128, ODDBALL = 131, TEXT = 8, PART = 11, PAIR = 9, WIDE = 0,
        MAX_NAMES = 24,
};

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"

static uint64_t heap[SIZE / 8];
static uint64_t next, current, context, span, span_context, trace_id;
static struct v8_spans spans;
static struct v8_span_walk walk;
static struct abi_span found;

static uint64_t *at(uint64_t tagged) {
        return &heap[((tagged & ~3ull) - HEAP) / 8];
}

static uint64_t make(unsigned n_words) {
        uint64_t address = next;

        next += 8ull * n_words;
        cr_assert(next <= HEAP + SIZE);
        return address | 1;
}

/* A hidden class of objects with @n_names names in their places behind three words. */
static uint64_t make_map(uint16_t type, const uint64_t *names, unsigned n_names, unsigned n_inside) {
        uint64_t map = make(6), descriptors = make(3 + 3 * n_names);

        at(descriptors)[0] = map;
        for (unsigned i = 0; i < n_names; i++) {
                at(descriptors)[3 + 3 * i] = names[i];
                at(descriptors)[4 + 3 * i] = (uint64_t)(i << V8_PLACE_INDEX_SHIFT | 4 << V8_PLACE_FORM_SHIFT)
                        << 32;
        }
        at(map)[0] = map;
        at(map)[1] = (3 + n_inside) | 3 << 8 | (uint64_t)type << 32;
        at(map)[2] = n_names << V8_FLAGS_N_SHIFT;
        at(map)[5] = descriptors;
        return map;
}

static uint64_t make_text(const char *text) {
        size_t n = strlen(text);
        uint64_t object = make(2 + (unsigned)(n + 7) / 8);

        at(object)[0] = make_map(TEXT, NULL, 0, 0);
        at(object)[1] = (uint64_t)n << 32 | 0x1234;
        memcpy(at(object) + 2, text, n);
        return object;
}

static uint64_t make_symbol(const char *description) {
        uint64_t object = make(3);

        at(object)[0] = make_map(SYMBOL, NULL, 0, 0);
        at(object)[2] = make_text(description);
        return object;
}

static uint64_t make_oddball(uint64_t kind) {
        uint64_t object = make(6);

        at(object)[0] = make_map(ODDBALL, NULL, 0, 0);
        at(object)[5] = kind << 32;
        return object;
}

/* An object of which the first @n_inside properties are in it, the others in an array of theirs. */
static uint64_t make_object(unsigned n, unsigned n_inside, const char *const *texts, const uint64_t *values) {
        uint64_t names[MAX_NAMES] = { 0 }, object = make(3 + n_inside), others = make(2 + n);

        for (unsigned i = 0; i < n; i++)
                names[i] = make_text(texts[i]);
        at(object)[0] = make_map(OBJECT, names, n, n_inside);
        at(object)[1] = others;
        for (unsigned i = 0; i < n; i++)
                *(i < n_inside ? &at(object)[3 + i] : &at(others)[2 + i - n_inside]) = values[i];
        return object;
}

static uint64_t make_js_map(unsigned n, const uint64_t (*pairs)[2]) {
        const uint64_t n_buckets = 4;
        uint64_t object = make(4), table = make(5 + 7 * (unsigned)n_buckets);

        at(object)[0] = make_map(MAP, NULL, 0, 0);
        at(object)[3] = table;
        at(table)[0] = at(object)[0];
        at(table)[1] = (3 + 7 * n_buckets) << 32;
        at(table)[2] = (uint64_t)n << 32;
        at(table)[4] = n_buckets << 32;
        for (unsigned i = 0; i < n; i++)
                memcpy(&at(table)[5 + n_buckets + 3 * i], pairs[i], 16);
        return object;
}

/* Moves @n_words of an object, and leaves its new address behind. */
static uint64_t move(uint64_t object, unsigned n_words) {
        uint64_t to = make(n_words);

        memcpy(at(to), at(object), 8ull * n_words);
        memset(at(object), 0xee, 8ull * n_words);
        at(object)[0] = to & ~1ull;
        return to;
}

static void use_context(uint64_t of_span) {
        const uint64_t pairs[][2] = { { make_symbol("OpenTelemetry Context Key BAGG"), 3 },
                                      { make_symbol("OpenTelemetry Context Key SPAN"), of_span } };
        const char *const names[] = { "_currentContext", "getValue" };
        const uint64_t values[] = { make_js_map(2, pairs), 5 };
        const char *const foreign[] = { "url", "_currentContexT" };

        context = make_object(2, 2, names, values);
        const uint64_t stores[][2] = { { make_object(0, 0, NULL, NULL), make_oddball(4) },
                                       { make_object(0, 0, NULL, NULL), make_object(2, 2, foreign, values) },
                                       { make_object(0, 0, NULL, NULL), context } };

        current = make_js_map(3, stores);
        at(ISOLATE)[spans.current / 8] = current;
}

/* @remote: value of isRemote; 0 = the property is not there. */
static void use_span(uint64_t remote) {
        const char *const names[] = { "traceId", "spanId", "traceFlags", "isRemote" };
        const char *const of_span[] = { "kind", "_spanContext", "name" };
        const uint64_t ids[] = { trace_id, make_text(SPAN), 1ull << 32, remote };

        span_context = make_object(remote ? 4 : 3, 3, names, ids);
        const uint64_t values[] = { 7, span_context, 9 };

        span = make_object(3, 1, of_span, values);
        use_context(span);
}

static void setup(void) {
        memset(heap, 0, sizeof(heap));
        memset(&walk, 0, sizeof(walk));
        next = HEAP + 0x1000;
        spans = (struct v8_spans){ .isolate = -8, .current = 632, .map_type = MAP, .object_type = OBJECT,
                                   .symbol_type = SYMBOL, .descriptors = 24 };
        shim_areas[0] = (ShimArea){ HEAP, sizeof(heap), heap };
        trace_id = make_text(TRACE);
        use_span(0);
}

TestSuite(v8_spans, .init = setup);

static uint32_t look(void) {
        memset(&found, 0, sizeof(found));
        return v8_span_read(&spans, &walk, ISOLATE, &found);
}

static void is_read(void) {
        cr_assert_eq(look(), SDK_RESULT_READ);
        cr_assert_eq(found.trace_high, 0x4bf92f3577b34da6ull);
        cr_assert_eq(found.trace_low, 0xa3ce929d0e0e4736ull);
        cr_assert_eq(found.span, 0x00f067aa0ba902b7ull);
        cr_assert(walk.n_reads <= V8_MAX_SPAN_READS);
}

Test(v8_spans, a_span_is_found_by_names_beside_others) {
        is_read();
        is_read();                      /* now by where names were */
}

Test(v8_spans, nothing_current_is_no_span) {
        at(ISOLATE)[spans.current / 8] = make_oddball(4);
        cr_assert_eq(look(), SDK_RESULT_NONE);
        cr_assert_eq(walk.context, 0, "no context of an SDK");
        at(ISOLATE)[spans.current / 8] = make_js_map(0, NULL);
        cr_assert_eq(look(), SDK_RESULT_NONE);
}

Test(v8_spans, a_context_without_the_key_has_no_span) {
        const uint64_t pairs[][2] = { { make_symbol("OpenTelemetry Context Key SPAM"), span } };

        at(context)[3] = make_js_map(1, pairs);
        cr_assert_eq(look(), SDK_RESULT_NONE);
        cr_assert_neq(walk.context, 0);
}

Test(v8_spans, of_another_process_is_no_span_of_this_one) {
        use_span(make_oddball(1));      /* true */
        cr_assert_eq(look(), SDK_RESULT_REMOTE);
        use_span(make_oddball(0));      /* false */
        is_read();
}

Test(v8_spans, a_part_of_a_header_is_an_id) {
        uint64_t part = make(4);

        at(part)[0] = make_map(PART, NULL, 0, 0);
        at(part)[1] = 32ull << 32;
        at(part)[2] = make_text("00-" TRACE "-" SPAN "-01");
        at(part)[3] = 3ull << 32;
        trace_id = part;
        use_span(0);
        is_read();
        at(part)[3] = 40ull << 32;      /* beyond its end */
        cr_assert_eq(look(), SDK_RESULT_TYPE);
}

Test(v8_spans, what_was_moved_is_followed) {
        move(current, 4);
        move(span, 4);
        move(span_context, 6);
        move(trace_id, 6);
        move(context, 5);
        is_read();
}

Test(v8_spans, ids_are_hexadecimal_digits_in_a_row) {
        static const char *const bad[] = { "4BF92F3577B34DA6A3CE929D0E0E4736", "4bf92f3577b34da6a3ce929d0e0e473",
                                           "4bf92f3577b34da6a3ce929d0e0e47361", "4bf92f3577b34da6a3ce929d0e0e473g" };

        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
                trace_id = make_text(bad[i]);
                use_span(0);
                cr_assert_eq(look(), SDK_RESULT_TYPE, "%s", bad[i]);
        }
        trace_id = make_text("00000000000000000000000000000000");
        use_span(0);
        cr_assert_eq(look(), SDK_RESULT_NONE);
}

Test(v8_spans, other_forms_of_objects_are_no_span) {
        uint64_t map = at(span)[0];

        at(map)[2] |= V8_FLAGS_DICTIONARY;
        cr_assert_eq(look(), SDK_RESULT_TYPE);
        setup();
        map = at(span_context)[0];
        at(map)[1] = (at(map)[1] & 0xffff) | (uint64_t)MAP << 32;
        cr_assert_eq(look(), SDK_RESULT_TYPE);
        setup();
        map = at(trace_id)[0];
        at(map)[1] = (uint64_t)PAIR << 32;
        cr_assert_eq(look(), SDK_RESULT_TYPE, "two parts that were not joined");
        at(map)[1] = (uint64_t)WIDE << 32;
        cr_assert_eq(look(), SDK_RESULT_TYPE, "characters of two bytes");
}

Test(v8_spans, a_table_that_does_not_agree_with_itself_is_none) {
        uint64_t table = at(current)[3];
        const uint64_t bad[][2] = { { 1, 30ull << 32 }, { 2, 9ull << 32 }, { 4, 3ull << 32 }, { 4, 0 },
                                    { 4, 4 }, { 2, UINT64_MAX } };

        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
                uint64_t good = at(table)[bad[i][0]];

                at(table)[bad[i][0]] = bad[i][1];
                cr_assert_eq(look(), SDK_RESULT_TYPE, "%zu", i);
                at(table)[bad[i][0]] = good;
        }
        is_read();
}

Test(v8_spans, memory_that_is_not_there_is_a_fault) {
        at(ISOLATE)[spans.current / 8] = 0x770001;
        cr_assert_eq(look(), SDK_RESULT_FAULT);
        setup();
        at(context)[3] = 0x770001;
        cr_assert_eq(look(), SDK_RESULT_FAULT);
}

Test(v8_spans, a_way_that_is_too_long_is_given_up) {
        const char *names[MAX_NAMES];
        uint64_t values[MAX_NAMES] = { 0 };

        for (unsigned i = 0; i < MAX_NAMES; i++)
                names[i] = "other";
        names[MAX_NAMES - 1] = "_spanContext";
        values[MAX_NAMES - 1] = span_context;
        use_context(make_object(MAX_NAMES, MAX_NAMES, names, values));
        cr_assert_eq(look(), SDK_RESULT_FAR);
        cr_assert(walk.n_reads <= V8_MAX_SPAN_READS);
}
