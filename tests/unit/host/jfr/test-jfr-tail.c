/* SPDX-License-Identifier: Apache-2.0 */

/* What a worker reads of a chunk that grows, and what it may say. */

#include "host/jfr/jfr-tail.h"

#include "core/otlp/decode.h"
#include "core/otlp/import.h"
#include "host/jfr/jfr-find.h"
#include "jfr-read.h"

TestSuite(jfr_tail);

enum { GENERATION = 64 };               /* byte of the header */

enum { MAX_EVENTS = 8 };

static uint64_t places[MAX_EVENTS];     /* of the allocations in the chunk that was made last */

/* A chunk with @n allocations, a second apart, and a sample of the CPU behind each. */
static JfrMaker make_chunk(uint64_t n) {
        JfrMaker maker = make();

        maker_begin_chunk(&maker);
        for (uint64_t i = 0; i < n; i++) {
                places[i] = maker.size;
                MAKER_EVENT(&maker, MAKER_ALLOC_SAMPLE, { maker.start_ticks + i * 1000000000 }, { 1 }, { 3 },
                            { 1 }, { 300 });
                MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { maker.start_ticks + i * 1000000000 }, { 1 }, { 1 },
                            { 1 });
        }
        maker_end_chunk(&maker);
        return maker;
}

typedef struct Tail {
        JfrTailSaid said;
        uint8_t *data;
} Tail;

static Tail read_tail(const JfrMaker *maker, uint64_t from, uint64_t start_ns) {
        const JfrMemory memory = { maker->data, maker->size };
        const JfrInput input = jfr_memory_input(&memory);
        const JfrTailRequest request = { .magic = JFR_TAIL_MAGIC, .from = from, .start_ns = start_ns };
        Tail tail;

        cr_assert_eq(jfr_tail_read(&input, &request, &tail.said, &tail.data), 0);
        cr_assert(jfr_tail_check(&tail.said, &request));
        cr_assert_eq(tail.data != NULL, tail.said.n_bytes > 0);
        return tail;
}

/* Sum of the only profile in an answer, which is of allocations. */
static int64_t bytes_of(const Tail *tail) {
        _cleanup_(otlp_request_freep) OtlpRequest *request = NULL;
        _cleanup_(window_freep) Window *window = NULL;
        uint64_t start_ns, end_ns;
        char where[160];
        WindowSample sample;

        cr_assert_eq(otlp_decode_request(tail->data, tail->said.n_bytes, &request, where, sizeof(where)), 0);
        cr_assert_eq(window_new(&window, 0, 0, NULL), 0);
        cr_assert_eq(otlp_import_add(window, request, &start_ns, &end_ns, where, sizeof(where)), 0);
        cr_assert_eq(window_close(window, end_ns), 0);
        cr_assert_eq(window_n_profiles(window), 1);
        cr_assert_str_eq(window_get_string(window, window_get_profile(window, 0)->names.type, NULL), "alloc_space");
        cr_assert_eq(window_get_profile(window, 0)->n_samples, 1);
        window_get_sample(window, 0, 0, &sample);
        return sample.value;
}

static void end_tail(Tail *tail) {
        free(tail->data);
}

Test(jfr_tail, has_all_but_samples_of_time) {
        JfrMaker maker = make_chunk(3);
        Tail tail = read_tail(&maker, 0, 0);

        cr_assert_eq(tail.said.result, 0);
        cr_assert_eq(tail.said.from, maker.size);
        cr_assert_eq(tail.said.n_lost, 0);
        cr_assert_eq(tail.said.start_ns, START_NS);
        cr_assert_eq(bytes_of(&tail), 900);
        end_tail(&tail);
        free(maker.data);
}

Test(jfr_tail, has_only_what_is_new) {
        JfrMaker maker = make_chunk(5);
        Tail all = read_tail(&maker, maker.size, 0);

        cr_assert_eq(all.said.n_bytes, 0);
        cr_assert_eq(all.said.from, maker.size);
        for (uint64_t n = 0; n < 5; n++) {
                Tail tail = read_tail(&maker, places[n], 0);

                cr_assert_eq(bytes_of(&tail), (int64_t)(300 * (5 - n)), "from the event %d on", (int)n);
                end_tail(&tail);
        }
        free(maker.data);
}

Test(jfr_tail, leaves_out_what_was_before) {
        JfrMaker maker = make_chunk(5);
        Tail tail = read_tail(&maker, 0, START_NS + UINT64_C(2000000000));

        cr_assert_eq(bytes_of(&tail), 900);
        end_tail(&tail);
        tail = read_tail(&maker, 0, START_NS + UINT64_C(9000000000));
        cr_assert_eq(tail.said.n_bytes, 0);
        cr_assert_eq(tail.said.from, maker.size);
        free(maker.data);
}

Test(jfr_tail, says_whether_more_will_come) {
        JfrMaker maker = make_chunk(1);
        Tail tail;

        maker.data[GENERATION] = 7;
        tail = read_tail(&maker, 0, 0);
        cr_assert_not(tail.said.is_complete);
        cr_assert_eq(bytes_of(&tail), 300);
        end_tail(&tail);
        maker.data[GENERATION] = JFR_GENERATION_COMPLETE;
        tail = read_tail(&maker, 0, 0);
        cr_assert(tail.said.is_complete);
        end_tail(&tail);
        maker.data[GENERATION] = JFR_GENERATION_MOVING;
        tail = read_tail(&maker, 0, 0);
        cr_assert_eq(tail.said.result, JFR_TAIL_E_MOVING);
        free(maker.data);
}

Test(jfr_tail, waits_for_the_first_flush) {
        JfrMaker maker = make_chunk(1);
        Tail tail;

        memset(maker.data + 16, 0, 16);
        tail = read_tail(&maker, 0, 0);
        cr_assert_eq(tail.said.result, JFR_TAIL_E_EARLY);
        cr_assert_eq(tail.said.from, 0);
        free(maker.data);
}

Test(jfr_tail, refuses_what_is_no_chunk) {
        JfrMaker maker = make_chunk(1);
        Tail tail;

        maker.data[8] = 1;
        tail = read_tail(&maker, 0, 0);
        cr_assert_eq(tail.said.result, JFR_TAIL_E_LARGE);
        maker.data[0] = 'X';
        tail = read_tail(&maker, 0, 0);
        cr_assert_eq(tail.said.result, JFR_TAIL_E_NOT);
        free(maker.data);
}

Test(jfr_tail, says_that_a_chunk_is_damaged) {
        JfrMaker maker = make_chunk(2);
        Tail tail;

        /* no event is so long */
        memset(maker.data + JFR_HEADER_SIZE, 0xff, 4);
        tail = read_tail(&maker, 0, 0);
        cr_assert_eq(tail.said.result, JFR_TAIL_E_DAMAGED);
        end_tail(&tail);
        free(maker.data);
}

Test(jfr_tail, believes_no_answer_that_cannot_be) {
        const JfrTailRequest request = { .magic = JFR_TAIL_MAGIC, .from = 1000 };
        const JfrTailSaid good = { .magic = JFR_TAIL_MAGIC, .n_bytes = 10, .from = 2000, .n_events = 1,
                                   .start_ns = 5, .end_ns = 6 };
        JfrTailSaid said = good;

        cr_assert(jfr_tail_check(&said, &request));
#define BAD(_field, _value) \
        ({ \
                said = good; \
                said._field = (_value); \
                cr_assert_not(jfr_tail_check(&said, &request), #_field); \
        })
        BAD(magic, 1);
        BAD(result, -1);
        BAD(result, JFR_TAIL_N);
        BAD(result, JFR_TAIL_E_EARLY);
        BAD(is_complete, 2);
        BAD(n_bytes, JFR_TAIL_MAX_BYTES + 1);
        BAD(n_bytes, 0);
        BAD(n_events, 0);
        BAD(from, 999);
        BAD(from, (uint64_t)JFR_TAIL_MAX_CHUNK + 1);
        BAD(end_ns, 4);
#undef BAD
}

Test(jfr_find, knows_chunks_by_their_place) {
        static const char *const good[] = {
                "/tmp/2026_11_30_14_33_33_22943/2026_11_30_14_33_33.jfr",
                "/tmp/2026_11_30_14_33_33_22943/2026_11_30_14_33_33.jfr (deleted)",
                "/a b/2026_11_30_14_33_33_7/2026_12_01_00_00_00_1.jfr",
                "/2026_11_30_14_33_33_7_1/2026_12_01_00_00_00.jfr",
        };
        static const char *const bad[] = {
                "", "/", "x", "/tmp/dump.jfr", "2026_11_30_14_33_33.jfr", "/2026_11_30_14_33_33.jfr",
                "/tmp/2026_11_30_14_33_33.jfr", "/tmp/2026_11_30_14_33_33/2026_11_30_14_33_33.jfr",
                "/tmp/2026_11_30_14_33_33_22943/2026_11_30_14_33.jfr",
                "/tmp/2026_11_30_14_33_33_22943/2026_11_30_14_33_33.jfr.part",
                "/tmp/2026_11_30_14_33_33_22943/2026_11_30_14_33_33_.jfr",
                "/tmp/2026_11_30_14_33_33_22943_/2026_11_30_14_33_33.jfr",
                "/tmp/x2026_11_30_14_33_33_22943/2026_11_30_14_33_33.jfr",
                "/tmp/2026_11_30_14_33_33_22943/a/2026_11_30_14_33_33.jfr",
        };

        for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
                cr_assert(jfr_find_is_chunk(good[i]), "%s", good[i]);
        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
                cr_assert_not(jfr_find_is_chunk(bad[i]), "%s", bad[i]);
}

Test(jfr_find, remembers_chunks_that_were_left) {
        JfrLefts lefts = { 0 };
        JfrLeft left = { 0 };

        for (unsigned i = 0; i <= JFR_FIND_MAX_LEFT; i++)
                jfr_lefts_add(&lefts, &(JfrLeft){ 1, 100 + i, 1000 + i, 5 });
        cr_assert_eq(lefts.n, JFR_FIND_MAX_LEFT);
        cr_assert_not(jfr_lefts_take(&lefts, &(JfrFile){ -1, 1, 100 }, &left), "the oldest one has gone");
        cr_assert_not(jfr_lefts_take(&lefts, &(JfrFile){ -1, 2, 101 }, &left), "on another device");
        cr_assert(jfr_lefts_take(&lefts, &(JfrFile){ -1, 1, 103 }, &left));
        cr_assert_eq(left.from, 1003);
        cr_assert_not(jfr_lefts_take(&lefts, &(JfrFile){ -1, 1, 103 }, &left));
        cr_assert(jfr_lefts_take(&lefts, &(JfrFile){ -1, 1, 100 + JFR_FIND_MAX_LEFT }, &left));
        cr_assert_eq(lefts.n, JFR_FIND_MAX_LEFT - 2);
}
