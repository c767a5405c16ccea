/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file/gzip.h"
#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "core/otlp/decode.h"
#include "core/otlp/import.h"
#include "host/service/recorder/recorder-keep.h"
#include "host/service/recorder/recorder-rules.h"

enum { OFFSET_S = 1000, LENGTH_S = 15, FRAMES = 64 };

static uint64_t state;

static uint64_t draw(void) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        return state >> 11;
}

static uint32_t string(Window *window, const char *text) {
        uint32_t index;

        cr_assert_eq(window_string(window, text, strlen(text), &index), 0);
        return index;
}

/* @n ticks, and as many between two, each of the trace @first + its number, with a stack of its own. */
static Window *make_window(uint64_t start_s, uint32_t n, uint64_t first) {
        uint32_t resource, profiles[2], module;
        Window *window;

        cr_assert_eq(window_new(&window, start_s * NS_PER_SEC, OFFSET_S * (int64_t)NS_PER_SEC, NULL), 0);
        cr_assert_eq(window_resource(window, 1, &resource), 0);
        cr_assert_eq(window_profile(window, resource, PROFILE_CPU, &profiles[0]), 0);
        cr_assert_eq(window_profile(window, resource, PROFILE_FINE, &profiles[1]), 0);
        cr_assert_eq(window_module(window, &(WindowModule){ .path = string(window, "/bin/shop"),
                                                            .build_id_gnu = string(window, "aa"),
                                                            .limit = UINT64_C(1) << 40 },
                                   &module), 0);
        for (uint32_t i = 0; i < 2 * n; i++) {
                WindowLink link = { .span_id = { 1 } };
                uint64_t trace = first + i;
                FrameWord words[FRAMES];
                uint32_t stack, at;

                for (int j = 0; j < FRAMES; j++)
                        cr_assert_eq(window_native_frame(window, FRAME_MARK_NATIVE, module,
                                                         draw() & 0xffffffff, &words[j]), 0);
                memcpy(link.trace_id + 8, &trace, sizeof(trace));
                cr_assert_eq(window_stack(window, words, FRAMES, &stack), 0);
                cr_assert_eq(window_link(window, &link, &at), 0);
                cr_assert_eq(window_sample(window, profiles[i % 2], stack, 0, at, 1,
                                           start_s * NS_PER_SEC + i * NS_PER_MS), 0);
        }
        cr_assert_eq(window_close(window, (start_s + LENGTH_S) * NS_PER_SEC), 0);
        return window;
}

static uint64_t now_ns(uint64_t start_s) {
        return (OFFSET_S + start_s + LENGTH_S) * NS_PER_SEC;
}

static void add(Recorder *recorder, uint64_t start_s, uint32_t n, uint64_t first) {
        Window *window = make_window(start_s, n, first);

        cr_assert_eq(recorder_add(recorder, window, 1000000, now_ns(start_s)), 0);
        window_free(window);
}

static Recorder *make(uint64_t max_age_s, size_t max_bytes) {
        Recorder *recorder;

        cr_assert_eq(recorder_new(&recorder), 0);
        recorder_set_limits(recorder, max_age_s * NS_PER_SEC, max_bytes, 0);
        return recorder;
}

typedef struct Seen {
        uint64_t starts_s[16];
        uint32_t n;
        const RecorderRequest *last;
} Seen;

static int see(void *userdata, const RecorderRequest *request, uint64_t start_ns, uint64_t end_ns) {
        Seen *seen = userdata;

        cr_assert_eq(end_ns - start_ns, LENGTH_S * NS_PER_SEC);
        if (seen->n < ARRAY_SIZE(seen->starts_s))
                seen->starts_s[seen->n] = start_ns / NS_PER_SEC - OFFSET_S;
        seen->n++;
        seen->last = request;
        return 0;
}

static Seen ask(const Recorder *recorder, const char *path) {
        RecorderAsk asked;
        Seen seen = { .n = 0 };

        cr_assert_eq(recorder_ask_parse(path, &asked), 0, "%s", path);
        cr_assert_eq(recorder_each(recorder, &asked.query, see, &seen), 0);
        return seen;
}

Test(recorder, hands_out_ticks_of_both_kinds_as_one_profile) {
        Recorder *recorder = make(600, RECORDER_MAX_BYTES);
        uint64_t start_ns, end_ns, n_recorded = stat_get(COUNTER_FINE_RECORDED);
        OtlpRequest *request;
        uint8_t *data;
        Window *read;
        char where[64];
        size_t size;
        Seen seen;

        add(recorder, 100, 10, 1);
        cr_assert_eq(stat_get(COUNTER_FINE_RECORDED) - n_recorded, 10);
        seen = ask(recorder, "");
        cr_assert_eq(seen.n, 1);
        cr_assert_eq(recorder_find(recorder, seen.last->number), seen.last);
        cr_assert_eq(gzip_expand(seen.last->data, seen.last->size, RECORDER_REQUEST_BYTES, &data, &size), 0);
        cr_assert_eq(otlp_decode_request(data, size, &request, where, sizeof(where)), 0);
        cr_assert_eq(window_new(&read, 0, 0, NULL), 0);
        cr_assert_eq(otlp_import_add(read, request, &start_ns, &end_ns, where, sizeof(where)), 0, "%s", where);
        cr_assert_eq(window_n_profiles(read), 1);
        cr_assert_eq(window_n_events_of(read, PROFILE_CPU), 20);
        cr_assert_eq(window_get_profile(read, 0)->period, 1000000);
        cr_assert_eq(start_ns, (OFFSET_S + 100) * NS_PER_SEC);
        window_free(read);
        otlp_request_freep(&request);
        free(data);
        recorder_free(recorder);
}

/* Unpacked, strings stand there as they are. */
static bool has_text(const Recorder *recorder, const char *text) {
        Seen seen = ask(recorder, "");
        uint8_t *data;
        size_t size;
        bool has;

        cr_assert_eq(gzip_expand(seen.last->data, seen.last->size, RECORDER_REQUEST_BYTES, &data, &size), 0);
        has = memmem(data, size, text, strlen(text));
        free(data);
        return has;
}

Test(recorder, holds_paths_as_they_are_exported) {
        Recorder *recorder = make(600, RECORDER_MAX_BYTES);

        add(recorder, 100, 10, 1);
        cr_assert(has_text(recorder, "/bin/shop"));
        recorder_set_paths(recorder, REMAP_PATHS_NAME);
        add(recorder, 115, 10, 1);
        cr_assert(has_text(recorder, "shop") && !has_text(recorder, "/bin"));
        recorder_set_paths(recorder, REMAP_PATHS_NONE);
        add(recorder, 130, 10, 1);
        cr_assert_not(has_text(recorder, "shop"));
        recorder_free(recorder);
}

Test(recorder, finds_windows_by_trace_and_time) {
        Recorder *recorder = make(600, RECORDER_MAX_BYTES);
        Seen seen;

        add(recorder, 100, 5, 0x0100000000000000);
        add(recorder, 115, 5, 0x0200000000000000);
        add(recorder, 130, 5, 0x0200000000000000);
        cr_assert_eq(ask(recorder, "").n, 3);
        /* the lowest byte of the number stands first in the id */
        seen = ask(recorder, "/trace/01");
        cr_assert_eq(seen.n, 1);
        cr_assert_eq(seen.starts_s[0], 100);
        cr_assert_eq(ask(recorder, "/trace/00000000000000000000000000000002").n, 2);
        cr_assert_eq(ask(recorder, "/trace/03").n, 0);
        cr_assert_eq(ask(recorder, "/start/1115000000000").n, 2, "the first one ends then");
        cr_assert_eq(ask(recorder, "/end/1115000000000").n, 1);
        cr_assert_eq(ask(recorder, "/trace/02/start/1120000000000/end/1121000000000").n, 1);
        cr_assert_null(recorder_find(recorder, 3));
        recorder_free(recorder);
}

static int see_one(void *userdata, const RecorderRequest *request, uint64_t start_ns, uint64_t end_ns) {
        ++*(int *)userdata;
        return 7;
}

Test(recorder, visits_none_after_one_that_says_stop) {
        Recorder *recorder = make(600, RECORDER_MAX_BYTES);
        RecorderAsk asked;
        int n = 0;

        add(recorder, 100, 5, 1);
        add(recorder, 115, 5, 1);
        cr_assert_eq(recorder_ask_parse("", &asked), 0);
        cr_assert_eq(recorder_each(recorder, &asked.query, see_one, &n), 7);
        cr_assert_eq(n, 1);
        recorder_free(recorder);
}

Test(recorder, forgets_what_is_too_old) {
        uint64_t n_aged = stat_get(COUNTER_RECORDER_AGED), n_dropped = stat_get(COUNTER_RECORDER_DROPPED);
        Recorder *recorder = make(30, RECORDER_MAX_BYTES);

        for (uint64_t i = 0; i < 10; i++)
                add(recorder, 15 * i, 1, 1);
        cr_assert_eq(recorder_state(recorder).n_windows, 3, "of which the last ended now");
        cr_assert_eq(recorder_state(recorder).start_ns, (OFFSET_S + 105) * NS_PER_SEC);
        recorder_expire(recorder, now_ns(1000));
        cr_assert_eq(recorder_state(recorder).n_windows, 0);
        cr_assert_eq(recorder_state(recorder).bytes, 0);
        cr_assert_eq(recorder_state(recorder).start_ns, 0);
        cr_assert_eq(stat_get(COUNTER_RECORDER_AGED) - n_aged, 10);
        add(recorder, 0, 1, 1);
        recorder_free(recorder);
        cr_assert_eq(stat_get(COUNTER_RECORDER_DROPPED) - n_dropped, 1);
}

/* Stacks and traces that are all distinct, whose bytes are chance: nothing packs them. */
Test(recorder, stays_inside_its_cap_whatever_comes) {
        enum { CAP = 8 << 20, N = 24 };
        uint64_t n_kept = stat_get(COUNTER_RECORDER_KEPT), n_over_cap = stat_get(COUNTER_RECORDER_OVER_CAP);
        Recorder *recorder = make(UINT64_C(1) << 30, CAP);
        size_t most = 0, n_windows;

        for (uint64_t i = 0; i < N; i++) {
                add(recorder, 15 * i, 1000, i << 32);
                cr_assert_leq(recorder_state(recorder).bytes, CAP);
                most = MAX(most, recorder_state(recorder).bytes);
                cr_assert_eq(ask(recorder, "").starts_s[0] + OFFSET_S,
                             recorder_state(recorder).start_ns / NS_PER_SEC);
        }
        n_windows = recorder_state(recorder).n_windows;
        cr_assert_gt(most, CAP / 2);
        cr_assert(n_windows > 0 && n_windows < N, "%zu", n_windows);
        cr_assert_eq(stat_get(COUNTER_RECORDER_KEPT) - n_kept, N);
        cr_assert_eq(stat_get(COUNTER_RECORDER_OVER_CAP) - n_over_cap, N - n_windows);
        /* less room from now on */
        recorder_set_limits(recorder, UINT64_MAX, most / n_windows, now_ns(15 * N));
        cr_assert_leq(recorder_state(recorder).bytes, most / n_windows);
        recorder_free(recorder);
}

Test(recorder, counts_a_window_without_room_for_any_part_of_it) {
        uint64_t n_cut = stat_get(COUNTER_RECORDER_CUT);
        Recorder *recorder = make(600, 4096);

        add(recorder, 100, 1000, 1);
        cr_assert_eq(recorder_state(recorder).n_windows, 0);
        cr_assert_eq(recorder_state(recorder).bytes, 0);
        cr_assert_eq(stat_get(COUNTER_RECORDER_CUT) - n_cut, 1);
        recorder_free(recorder);
}

/* Who fills one window leaves what was before it. */
Test(recorder, keeps_no_more_of_one_window_than_its_part) {
        enum { CAP = 4 << 20 };
        uint64_t n_cut = stat_get(COUNTER_RECORDER_CUT), n_over_cap = stat_get(COUNTER_RECORDER_OVER_CAP);
        Recorder *recorder = make(600, CAP);
        size_t before, own;

        for (uint64_t i = 0; i < 10; i++)
                add(recorder, 15 * i, 10, 1);
        cr_assert_eq(stat_get(COUNTER_RECORDER_CUT), n_cut);
        before = recorder_state(recorder).bytes;
        add(recorder, 150, 10000, 1);
        own = recorder_state(recorder).bytes - before;
        cr_assert(own > CAP / 8 / 2 && own <= CAP / 8, "%zu", own);
        cr_assert_eq(recorder_state(recorder).n_windows, 11);
        cr_assert_eq(stat_get(COUNTER_RECORDER_CUT) - n_cut, 1);
        cr_assert_eq(stat_get(COUNTER_RECORDER_OVER_CAP), n_over_cap);
        recorder_free(recorder);
}

static uint64_t keep(const Recorder *recorder, const char *path, uint64_t n_wanted) {
        Seen seen = ask(recorder, "");
        RecorderAsk asked;
        Window *window = NULL;
        uint64_t n = 0;
        int r;

        cr_assert_eq(recorder_ask_parse(path, &asked), 0, "%s", path);
        r = recorder_keep(seen.last, &asked, &window);
        cr_assert_eq(r, n_wanted ? 0 : RECORDER_KEEP_E_NOTHING, "%s", path);
        if (!r) {
                const WindowProfile *profile = window_get_profile(window, 0);

                n = window_n_events(window);
                cr_assert_eq(window_n_profiles(window), 1);
                cr_assert_eq(profile->type, PROFILE_OTHER);
                cr_assert_str_eq(window_get_string(window, profile->names.type, NULL), "kept_samples");
                cr_assert_str_eq(window_get_resource_text(window, profile->resource, RECORDER_KEEP_REASON),
                                 asked.reason);
                cr_assert_eq(profile->period, 1000000);
                cr_assert_eq(window_start_ns(window), (OFFSET_S + 100) * NS_PER_SEC);
        }
        window_free(window);
        return n;
}

Test(recorder, ships_what_is_meant_as_a_type_of_its_own) {
        Recorder *recorder = make(600, RECORDER_MAX_BYTES);

        add(recorder, 100, 5, 0x0100000000000000);
        cr_assert_eq(keep(recorder, "", 10), 10);
        cr_assert_eq(keep(recorder, "/span/0100000000000000", 10), 10);
        cr_assert_eq(keep(recorder, "/span/1", 0), 0);
        cr_assert_eq(keep(recorder, "/trace/01", 1), 1);
        cr_assert_eq(keep(recorder, "/trace/02", 0), 0);
        cr_assert_eq(keep(recorder, "/start/1100003000000", 7), 7, "one each ms");
        cr_assert_eq(keep(recorder, "/process/7", 0), 0);
        recorder_free(recorder);
}

static void read_id(const RecorderRequest *request, uint8_t id[static 16]) {
        OtlpRequest *decoded;
        uint8_t *data;
        char where[64];
        size_t size;

        cr_assert_eq(gzip_expand(request->data, request->size, RECORDER_REQUEST_BYTES, &data, &size), 0);
        cr_assert_eq(otlp_decode_request(data, size, &decoded, where, sizeof(where)), 0);
        cr_assert_eq(decoded->resource_profiles[0]->scope_profiles[0]->profiles[0]->profile_id.len, 16);
        memcpy(id, decoded->resource_profiles[0]->scope_profiles[0]->profiles[0]->profile_id.data, 16);
        otlp_request_freep(&decoded);
        free(data);
}

/* A reader drops a profile that it has seen, by its id. */
Test(recorder, ships_profiles_with_ids_of_their_own_each_time) {
        Recorder *recorder = make(600, RECORDER_MAX_BYTES);
        uint8_t ids[3][16];
        RecorderAsk asked;
        Seen seen;

        add(recorder, 100, 5, 1);
        seen = ask(recorder, "");
        read_id(seen.last, ids[0]);
        cr_assert_eq(recorder_ask_parse("", &asked), 0);
        for (int i = 1; i < 3; i++) {
                Window *window;

                cr_assert_eq(recorder_keep(seen.last, &asked, &window), 0);
                memcpy(ids[i], window_get_profile(window, 0)->id, 16);
                window_free(window);
        }
        cr_assert(memcmp(ids[0], ids[1], 16) && memcmp(ids[0], ids[2], 16) && memcmp(ids[1], ids[2], 16));
        recorder_free(recorder);
}

Test(recorder, ships_nothing_of_bytes_that_are_no_request) {
        uint8_t data[] = "no gzip";
        const RecorderRequest request = { .data = data, .size = sizeof(data) };
        RecorderAsk asked;
        Window *window;

        cr_assert_eq(recorder_ask_parse("", &asked), 0);
        cr_assert_eq(recorder_keep(&request, &asked, &window), RECORDER_KEEP_E_NOTHING);
}

Test(recorder_ask, takes_pairs_alone) {
        static const char *const wrong[] = {
                "/", "/trace", "/trace/", "/trace/x1", "/trace/1/", "trace/1", "/trace/1/trace/1", "/spam/1",
                "/span/12345678123456781", "/span/x", "/process/0", "/process/-1", "/process/2147483648", "/process/1/process/1",
                "/start/-1", "/start/1x", "/start/18446744073709551616", "/start/1/start/1", "//", "/trace//1",
                "/trace/111111111111111111111111111111111", "/end/1/end/1",
                "/trace/1111111111111111111111111111111111111111111111111111111111111111111111111",
        };
        RecorderAsk asked;

        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
                cr_assert_eq(recorder_ask_parse(wrong[i], &asked), RECORDER_ASK_E_MALFORMED, "%s", wrong[i]);
        cr_assert_eq(recorder_ask_parse("/start/7/trace/4bf92f3577b34da6a3ce929d0e0e4736/end/9", &asked), 0);
        cr_assert(asked.query.start_ns == 7 && asked.query.end_ns == 9 && asked.query.has_trace);
        cr_assert_eq(asked.query.trace_id[0], 0x4b);
        cr_assert_eq(asked.query.trace_id[15], 0x36);
        cr_assert_str_eq(asked.reason, "trace");
        cr_assert_eq(recorder_ask_parse("/trace/f3577b34da6a3ce929d0e0e4736", &asked), 0, "27 digits");
        cr_assert_eq(asked.query.trace_id[2], 0x0f);
        cr_assert_eq(asked.query.trace_id[3], 0x35);
        cr_assert_eq(recorder_ask_parse("/process/812/span/b7", &asked), 0);
        cr_assert(asked.pid == 812 && asked.has_span && asked.span_id[7] == 0xb7 && !asked.span_id[0]);
        cr_assert_str_eq(asked.reason, "span");
        cr_assert_eq(recorder_ask_parse("", &asked), 0);
        cr_assert(!asked.query.start_ns && asked.query.end_ns == UINT64_MAX && !asked.query.has_trace);
        cr_assert_str_eq(asked.reason, "time");
}

/* ---- rules ---- */

typedef struct Spans {
        Window *window;
        uint32_t profile;
        uint64_t end_ns;
} Spans;

static Spans begin_spans(uint64_t start_ns, uint64_t length_ns) {
        Spans spans = { .end_ns = start_ns + length_ns };
        uint32_t resource;

        cr_assert_eq(window_new(&spans.window, start_ns, 0, NULL), 0);
        cr_assert_eq(window_resource(spans.window, 1, &resource), 0);
        cr_assert_eq(window_profile(spans.window, resource, PROFILE_CPU, &spans.profile), 0);
        return spans;
}

/* Two ticks: the first and the last one of a span. @operation: 0 = none. */
static void add_span(Spans *spans, uint64_t trace, uint64_t span, int operation, uint64_t from_ns,
                     uint64_t to_ns) {
        WindowLink link = { .span_id = { 0 } };
        uint32_t at, attribute, set = 0;
        char name[16];

        snprintf(name, sizeof(name), "/%d", operation);
        if (operation) {
                cr_assert_eq(window_attribute_string(spans->window, "http.route", name, strlen(name), &attribute),
                             0);
                cr_assert_eq(window_attribute_set(spans->window, &attribute, 1, &set), 0);
        }
        memcpy(link.trace_id, &trace, sizeof(trace));
        memcpy(link.span_id, &span, sizeof(span));
        cr_assert_eq(window_link(spans->window, &link, &at), 0);
        cr_assert_eq(window_sample(spans->window, spans->profile, 0, set, at, 1, from_ns), 0);
        cr_assert_eq(window_sample(spans->window, spans->profile, 0, set, at, 1, to_ns), 0);
}

/* Return: traces that are kept. The first one's id and reason are those of @ask. */
static size_t end_spans(Spans *spans, RecorderRules *rules, const RecorderLimits *limits, RecorderAsk *ask) {
        static uint64_t number;
        RecorderAsk asks[RECORDER_RULES_MINUTE];
        size_t n;

        cr_assert_eq(window_close(spans->window, spans->end_ns), 0);
        cr_assert_eq(recorder_rules_window(rules, limits, spans->window, number++, asks, &n), 0);
        window_free(spans->window);
        if (n)
                *ask = asks[0];
        return n;
}

static RecorderRules *make_rules(void) {
        RecorderRules *rules;

        cr_assert_eq(recorder_rules_new(&rules), 0);
        return rules;
}

Test(recorder_rules, keeps_the_trace_of_a_span_that_is_over_and_was_long) {
        const RecorderLimits limits = { .slower_ns = 500 * NS_PER_MS };
        RecorderRules *rules = make_rules();
        Spans spans = begin_spans(100 * NS_PER_SEC, 15 * NS_PER_SEC);
        RecorderAsk ask;
        uint64_t trace;

        /* just the limit; more; the same trace again; one that may go on */
        add_span(&spans, 1, 1, 0, 101 * NS_PER_SEC, 101 * NS_PER_SEC + 500 * NS_PER_MS);
        add_span(&spans, 2, 2, 0, 101 * NS_PER_SEC, 102 * NS_PER_SEC);
        add_span(&spans, 2, 3, 0, 101 * NS_PER_SEC, 103 * NS_PER_SEC);
        add_span(&spans, 4, 4, 0, 101 * NS_PER_SEC, 115 * NS_PER_SEC - NS_PER_MS);
        cr_assert_eq(end_spans(&spans, rules, &limits, &ask), 1);
        memcpy(&trace, ask.query.trace_id, sizeof(trace));
        cr_assert_eq(trace, 2);
        cr_assert(ask.query.has_trace && ask.query.end_ns == UINT64_MAX && !ask.query.start_ns);
        cr_assert_str_eq(ask.reason, "slower-than");
        /* it goes on, and ends there */
        spans = begin_spans(115 * NS_PER_SEC, 15 * NS_PER_SEC);
        add_span(&spans, 4, 4, 0, 115 * NS_PER_SEC, 116 * NS_PER_SEC);
        cr_assert_eq(end_spans(&spans, rules, &limits, &ask), 1);
        memcpy(&trace, ask.query.trace_id, sizeof(trace));
        cr_assert_eq(trace, 4);
        recorder_rules_free(rules);
}

Test(recorder_rules, adds_a_span_up_over_windows) {
        const RecorderLimits limits = { .slower_ns = 3 * NS_PER_SEC };
        RecorderRules *rules = make_rules();
        RecorderAsk ask;
        Spans later;

        for (uint64_t s = 100; s < 104; s++) {
                Spans spans = begin_spans(s * NS_PER_SEC, NS_PER_SEC);

                add_span(&spans, 7, 7, 0, s * NS_PER_SEC + 1, (s + 1) * NS_PER_SEC - 1);
                cr_assert_eq(end_spans(&spans, rules, &limits, &ask), 0);
        }
        later = begin_spans(104 * NS_PER_SEC, 2 * NS_PER_SEC);
        cr_assert_eq(end_spans(&later, rules, &limits, &ask), 1);
        recorder_rules_free(rules);
}

/* A child is long and over in the first window, its root goes on, without a sample in the second. */
Test(recorder_rules, keeps_the_rest_of_a_trace_when_it_is_over) {
        const RecorderLimits limits = { .slower_ns = 500 * NS_PER_MS };
        RecorderRules *rules = make_rules();
        Spans spans = begin_spans(100 * NS_PER_SEC, 15 * NS_PER_SEC);
        RecorderAsk ask;
        uint64_t trace;

        add_span(&spans, 5, 1, 0, 101 * NS_PER_SEC, 101 * NS_PER_SEC + NS_PER_MS);
        add_span(&spans, 5, 2, 0, 102 * NS_PER_SEC, 104 * NS_PER_SEC);
        cr_assert_eq(end_spans(&spans, rules, &limits, &ask), 1);
        cr_assert_eq(ask.from, 0);
        spans = begin_spans(115 * NS_PER_SEC, 15 * NS_PER_SEC);
        cr_assert_eq(end_spans(&spans, rules, &limits, &ask), 0);
        spans = begin_spans(130 * NS_PER_SEC, 15 * NS_PER_SEC);
        add_span(&spans, 5, 1, 0, 131 * NS_PER_SEC, 131 * NS_PER_SEC + NS_PER_MS);
        cr_assert_eq(end_spans(&spans, rules, &limits, &ask), 1);
        memcpy(&trace, ask.query.trace_id, sizeof(trace));
        cr_assert_eq(trace, 5);
        cr_assert_eq(ask.from, 1, "behind the first window's requests");
        cr_assert_str_eq(ask.reason, "slower-than");
        spans = begin_spans(145 * NS_PER_SEC, 15 * NS_PER_SEC);
        cr_assert_eq(end_spans(&spans, rules, &limits, &ask), 0);
        recorder_rules_free(rules);
}

/* @n spans of 20 to 30 ms of an operation, and one of @ms. */
static size_t usual(RecorderRules *rules, uint64_t start_s, uint32_t n, uint64_t ms, RecorderAsk *ask) {
        const RecorderLimits limits = { .above_usual = 4 };
        Spans spans = begin_spans(start_s * NS_PER_SEC, 15 * NS_PER_SEC);

        for (uint32_t i = 0; i < n; i++)
                add_span(&spans, (start_s << 32) + i, 1, 1, start_s * NS_PER_SEC,
                         start_s * NS_PER_SEC + (20 + i % 11) * NS_PER_MS);
        add_span(&spans, (start_s << 32) + n, 2, 1, start_s * NS_PER_SEC,
                 start_s * NS_PER_SEC + ms * NS_PER_MS);
        /* long, but of an operation that is not known well, and of none */
        add_span(&spans, (start_s << 32) + n + 1, 3, 2, start_s * NS_PER_SEC, (start_s + 5) * NS_PER_SEC);
        add_span(&spans, (start_s << 32) + n + 2, 4, 0, start_s * NS_PER_SEC, (start_s + 5) * NS_PER_SEC);
        return end_spans(&spans, rules, &limits, ask);
}

Test(recorder_rules, keeps_what_is_much_longer_than_usual) {
        RecorderRules *rules = make_rules();
        RecorderAsk ask;

        cr_assert_eq(usual(rules, 100, RECORDER_RULES_LEAST - 2, 200, &ask), 0, "too few are known");
        cr_assert_eq(usual(rules, 200, 1, 115, &ask), 0, "less than four times 30 ms");
        cr_assert_eq(usual(rules, 300, 1, 150, &ask), 1, "more than four times 30 ms and an eighth");
        cr_assert_str_eq(ask.reason, "above-usual");
        recorder_rules_free(rules);
}

Test(recorder_rules, keeps_so_many_in_a_minute_and_counts_the_others) {
        const RecorderLimits limits = { .slower_ns = 500 * NS_PER_MS };
        uint64_t n_kept = stat_get(COUNTER_RECORDER_RULES),
                 n_over = stat_get(COUNTER_RECORDER_RULES_OVER_RATE);
        RecorderRules *rules = make_rules();
        RecorderAsk ask;

        for (uint64_t s = 100; s < 200; s += 15) {
                Spans spans = begin_spans(s * NS_PER_SEC, 15 * NS_PER_SEC);

                for (uint64_t i = 0; i < 2 * RECORDER_RULES_MINUTE; i++)
                        add_span(&spans, (s << 32) + i, 1, 0, s * NS_PER_SEC, (s + 1) * NS_PER_SEC);
                cr_assert_eq(end_spans(&spans, rules, &limits, &ask),
                             s == 100 || s == 160 ? RECORDER_RULES_MINUTE : 0);
        }
        cr_assert_eq(stat_get(COUNTER_RECORDER_RULES) - n_kept, 2 * RECORDER_RULES_MINUTE);
        cr_assert_eq(stat_get(COUNTER_RECORDER_RULES_OVER_RATE) - n_over, 12 * RECORDER_RULES_MINUTE);
        recorder_rules_free(rules);
}

Test(recorder_rules, has_caps_on_spans_and_operations) {
        const RecorderLimits limits = { .slower_ns = 500 * NS_PER_MS };
        uint64_t n_spans = stat_get(COUNTER_RECORDER_SPANS_OVER_CAP),
                 n_operations = stat_get(COUNTER_RECORDER_OPERATIONS_OVER_CAP);
        RecorderRules *rules = make_rules();
        Spans spans = begin_spans(100 * NS_PER_SEC, 15 * NS_PER_SEC);
        RecorderAsk ask;

        for (int i = 0; i < RECORDER_RULES_MAX_SPANS + 10; i++)
                add_span(&spans, 1, (uint64_t)i + 1, i < RECORDER_RULES_MAX_OPERATIONS + 7 ? i + 1 : 0,
                         100 * NS_PER_SEC, 102 * NS_PER_SEC);
        cr_assert_eq(end_spans(&spans, rules, &limits, &ask), 1);
        cr_assert_eq(stat_get(COUNTER_RECORDER_SPANS_OVER_CAP) - n_spans, 10);
        cr_assert_eq(stat_get(COUNTER_RECORDER_OPERATIONS_OVER_CAP) - n_operations, 7);
        recorder_rules_free(rules);
}

/* Spans of 30 ms of an operation, and of some that are not seen again. */
static void add_often(Spans *spans, uint64_t start_s, int often, int other, int n_others) {
        for (uint32_t i = 0; i < RECORDER_RULES_LEAST; i++)
                add_span(spans, (start_s << 32) + i + 1, 1, often, start_s * NS_PER_SEC,
                         start_s * NS_PER_SEC + 30 * NS_PER_MS);
        for (int i = 0; i < n_others; i++)
                add_span(spans, (start_s << 32) + (uint64_t)i + 1, 2, other + i, start_s * NS_PER_SEC,
                         start_s * NS_PER_SEC + 30 * NS_PER_MS);
}

/* One span of an operation that lasts ten times as long. */
static size_t end_slow(RecorderRules *rules, uint64_t start_s, int operation, RecorderAsk *ask) {
        const RecorderLimits limits = { .above_usual = 4 };
        Spans spans = begin_spans(start_s * NS_PER_SEC, 15 * NS_PER_SEC);

        add_span(&spans, start_s << 32, 1, operation, start_s * NS_PER_SEC,
                 start_s * NS_PER_SEC + 300 * NS_PER_MS);
        return end_spans(&spans, rules, &limits, ask);
}

Test(recorder_rules, lets_rare_operations_go_for_others) {
        const RecorderLimits limits = { .above_usual = 4 };
        uint64_t n_over = stat_get(COUNTER_RECORDER_OPERATIONS_OVER_CAP);
        RecorderRules *rules = make_rules();
        Spans spans = begin_spans(100 * NS_PER_SEC, 15 * NS_PER_SEC);
        RecorderAsk ask;

        add_often(&spans, 100, 1, 1000, RECORDER_RULES_MAX_OPERATIONS);
        cr_assert_eq(end_spans(&spans, rules, &limits, &ask), 0);
        cr_assert_eq(stat_get(COUNTER_RECORDER_OPERATIONS_OVER_CAP) - n_over, 1);
        spans = begin_spans(115 * NS_PER_SEC, 15 * NS_PER_SEC);
        add_often(&spans, 115, 2, 1000, 0);
        cr_assert_eq(end_spans(&spans, rules, &limits, &ask), 0);
        cr_assert_eq(stat_get(COUNTER_RECORDER_OPERATIONS_OVER_CAP) - n_over, 1);
        cr_assert_eq(end_slow(rules, 130, 2, &ask), 1, "one that came later");
        cr_assert_eq(end_slow(rules, 145, 1, &ask), 1, "one that was often");
        recorder_rules_free(rules);
}

static void end_of_service(RecorderRules *rules, const char *service, uint64_t start_s, uint64_t ms,
                           bool are_kept) {
        const RecorderLimits limits = { .above_usual = 4 };
        Spans spans = begin_spans(start_s * NS_PER_SEC, 15 * NS_PER_SEC);
        RecorderAsk ask;
        uint32_t resource, attribute;

        cr_assert_eq(window_resource(spans.window, 1, &resource), 0);
        cr_assert_eq(window_attribute_string(spans.window, "service.name", service, strlen(service), &attribute),
                     0);
        cr_assert_eq(window_resource_attributes(spans.window, resource, &attribute, 1), 0);
        for (uint32_t i = 0; i < RECORDER_RULES_LEAST; i++)
                add_span(&spans, (start_s << 32) + i + 1, 1, 1, start_s * NS_PER_SEC,
                         start_s * NS_PER_SEC + ms * NS_PER_MS);
        cr_assert_eq(end_spans(&spans, rules, &limits, &ask) > 0, are_kept);
}

Test(recorder_rules, tells_services_apart_that_name_an_operation_alike) {
        RecorderRules *rules = make_rules();

        end_of_service(rules, "cache", 100, 2, false);
        end_of_service(rules, "shop", 115, 300, false);
        end_of_service(rules, "cache", 130, 300, true);
        recorder_rules_free(rules);
}

Test(recorder, is_asked_for_the_last_seconds_with_a_reason) {
        static const char *const wrong[] = {
                "/last/0", "/last/-1", "/last/86401", "/last/1/last/1", "/reason/", "/reason/A", "/reason/a b",
                "/reason/a%20b", "/reason/a/reason/b", "/reason/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        };
        RecorderAsk asked;

        cr_assert_eq(recorder_ask_parse("/last/90/reason/high-latency_2", &asked), 0);
        cr_assert_str_eq(asked.reason, "high-latency_2");
        recorder_ask_begin(&asked, 100 * NS_PER_SEC);
        cr_assert_eq(asked.query.start_ns, 10 * NS_PER_SEC);
        cr_assert_eq(recorder_ask_parse("/last/90", &asked), 0);
        cr_assert_str_eq(asked.reason, "time");
        recorder_ask_begin(&asked, 50 * NS_PER_SEC);
        cr_assert_eq(asked.query.start_ns, 0);
        cr_assert_eq(recorder_ask_parse("/start/70000000000/last/90", &asked), 0);
        recorder_ask_begin(&asked, 100 * NS_PER_SEC);
        cr_assert_eq(asked.query.start_ns, 70 * NS_PER_SEC);
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
                cr_assert_eq(recorder_ask_parse(wrong[i], &asked), RECORDER_ASK_E_MALFORMED, "%s", wrong[i]);
}
