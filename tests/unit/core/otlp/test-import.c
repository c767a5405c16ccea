/* SPDX-License-Identifier: Apache-2.0 */
/* Tests decode.c too: what is read back must be what was written. */
#include <criterion/criterion.h>
#include <string.h>

#include "core/otlp/decode.h"
#include "core/otlp/encode.h"
#include "fill-golden.h"
#include "golden-request.h"
#include "import-window.h"

enum { MAX_REQUESTS = 200 };

struct requests {
        OtlpRequest *decoded[MAX_REQUESTS];
        uint8_t *data[MAX_REQUESTS];
        size_t sizes[MAX_REQUESTS];
        size_t n;
};

static int keep(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles, void *userdata) {
        struct requests *requests = userdata;
        char where[256];

        cr_assert_lt(requests->n, MAX_REQUESTS);
        cr_assert_eq(otlp_decode_request(data, size, &requests->decoded[requests->n], where, sizeof(where)),
                     0);
        requests->data[requests->n] = malloc(size);
        memcpy(requests->data[requests->n], data, size);
        requests->sizes[requests->n++] = size;
        return 0;
}

static void forget(struct requests *requests) {
        for (size_t i = 0; i < requests->n; i++) {
                otlp_request_freep(&requests->decoded[i]);
                free(requests->data[i]);
        }
        requests->n = 0;
}

static void encode(const Window *window, size_t max_bytes, struct requests *requests) {
        OtlpOptions options = { .max_bytes = max_bytes, .scope_version = "1.2.3", .timestamps = 1 };
        uint64_t n_lost;

        cr_assert_eq(otlp_encode(window, &options, keep, requests, &n_lost), 0);
}

static Window *import(const struct requests *requests) {
        Window *window = NULL;
        char where[256];

        cr_assert_eq(import_window(&window, (const OtlpRequest *const *)requests->decoded, requests->n, NULL,
                                   where, sizeof(where)),
                     0, "%s", where);
        return window;
}

static OtlpRequest *golden(void) {
        OtlpRequest *request;
        char where[256];

        cr_assert_eq(
                otlp_decode_request(golden_request, sizeof(golden_request), &request, where, sizeof(where)),
                0);
        return request;
}

static void expect_bad(OtlpRequest *request, int code, const char *expected) {
        const OtlpRequest *requests[] = { request };
        Window *window = NULL;
        char where[256];

        cr_assert_eq(import_window(&window, requests, 1, NULL, where, sizeof(where)), code, "%s", expected);
        cr_assert_null(window);
        cr_assert_str_eq(where, expected, "%s", where);
}

Test(import, brings_back_the_bytes_that_were_written) {
        static struct requests first, second;
        _cleanup_(window_freep) Window *window = fill_golden(), *again = NULL;

        encode(window, 0, &first);
        again = import(&first);
        cr_assert_eq(window_n_events(again), 3);
        encode(again, 0, &second);
        cr_assert_eq(second.n, 1);
        cr_assert_eq(second.sizes[0], sizeof(golden_request));
        cr_assert_arr_eq(second.data[0], golden_request, sizeof(golden_request));
        forget(&first);
        forget(&second);
}

Test(import, brings_back_the_same_from_json) {
        const OtlpRequest *requests[1];
        _cleanup_(window_freep) Window *window = NULL;
        static struct requests second;
        OtlpRequest *request;
        char where[256];

        cr_assert_eq(otlp_decode_request((const uint8_t *)golden_json, strlen(golden_json), &request, where,
                                         sizeof(where)),
                     0);
        requests[0] = request;
        cr_assert_eq(import_window(&window, requests, 1, NULL, where, sizeof(where)), 0);
        encode(window, 0, &second);
        cr_assert_arr_eq(second.data[0], golden_request, sizeof(golden_request));
        otlp_request_freep(&request);
        forget(&second);
}

/* Profiles have ranges of their own when samples are late; a window has one. */
static void forget_ranges(OtlpRequest *request) {
        for (size_t i = 0; i < request->n_resource_profiles; i++) {
                OtlpScopeProfiles *scope = request->resource_profiles[i]->scope_profiles[0];

                for (size_t j = 0; j < scope->n_profiles; j++)
                        scope->profiles[j]->time_unix_nano = scope->profiles[j]->duration_nano = 0;
        }
}

static void assert_equal(OtlpRequest *a, OtlpRequest *b) {
        size_t size = protobuf_c_message_get_packed_size(&a->base);
        uint8_t *x, *y;

        cr_assert_eq(protobuf_c_message_get_packed_size(&b->base), size);
        x = malloc(size);
        y = malloc(size);
        protobuf_c_message_pack(&a->base, x);
        protobuf_c_message_pack(&b->base, y);
        cr_assert_arr_eq(x, y, size);
        free(x);
        free(y);
}

Test(import, keeps_everything_of_a_window_with_everything) {
        _cleanup_(window_freep) Window *window = fill_window(3, 100), *again = NULL;
        static struct requests first, second;

        encode(window, 0, &first);
        again = import(&first);
        encode(again, 0, &second);
        cr_assert_eq(second.n, 1);
        forget_ranges(first.decoded[0]);
        forget_ranges(second.decoded[0]);
        assert_equal(first.decoded[0], second.decoded[0]);
        forget(&first);
        forget(&second);
}

Test(import, puts_the_parts_of_a_split_window_together) {
        _cleanup_(window_freep) Window *window = fill_window(2, 100), *again = NULL;
        static struct requests parts;

        encode(window, 3000, &parts);
        cr_assert_gt(parts.n, 4);
        again = import(&parts);
        cr_assert_eq(window_n_resources(again), window_n_resources(window));
        cr_assert_eq(window_n_profiles(again), window_n_profiles(window));
        cr_assert_eq(window_n_links(again), window_n_links(window));
        cr_assert_eq(window_n_stacks(again), window_n_stacks(window));
        for (uint32_t i = 0; i < window_n_profiles(window); i++)
                cr_assert_eq(window_get_profile(again, i)->n_samples,
                             window_get_profile(window, i)->n_samples);
        cr_assert_eq(window_end_ns(again), window_end_ns(window) + FILL_OFFSET_NS);
        forget(&parts);
}

/* 10 boosted samples of 2 ms are less time than 9 of 10 ms. */
Test(import, keeps_a_boost_apart_whichever_comes_first) {
        enum { MS = 1000000 };
        static const ProfileType orders[2][2] = { { PROFILE_CPU, PROFILE_BOOST },
                                                  { PROFILE_BOOST, PROFILE_CPU } };

        for (int order = 0; order < 2; order++) {
                _cleanup_(window_freep) Window *window = NULL, *again = NULL;
                static struct requests requests;
                uint32_t resource, profile;
                double time_ns = 0;

                cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
                window_set_period(window, PROFILE_CPU, 10 * MS);
                window_set_period(window, PROFILE_BOOST, 2 * MS);
                cr_assert_eq(window_resource(window, 7, &resource), 0);
                for (int i = 0; i < 2; i++) {
                        cr_assert_eq(window_profile(window, resource, orders[order][i], &profile), 0);
                        cr_assert_eq(window_sample(window, profile, 0, 0, 0,
                                                   orders[order][i] == PROFILE_CPU ? 9 : 10, 5),
                                     0);
                }
                cr_assert_eq(window_close(window, 10), 0);
                encode(window, 0, &requests);
                again = import(&requests);
                cr_assert_eq(window_n_profiles(again), 2);
                for (uint32_t i = 0; i < 2; i++) {
                        const WindowProfile *row = window_get_profile(again, i);

                        cr_assert(profile_is_cpu(row->type));
                        cr_assert_eq(row->period, row->total == 9 ? 10 * MS : 2 * MS);
                        time_ns += row->total * (double)row->period;
                }
                cr_assert_eq(time_ns, 110.0 * MS);
                forget(&requests);
        }
}

Test(import, names_each_wrong_index) {
        OtlpRequest *request = golden();
        OtlpProfile *profile = request->resource_profiles[0]->scope_profiles[0]->profiles[0];
        OtlpDictionary *dictionary = request->dictionary;
        int32_t keep_index;

#define BAD(_index, _value, _where) \
        keep_index = (_index); \
        (_index) = (_value); \
        expect_bad(request, OTLP_IMPORT_E_INDEX, (_where)); \
        (_index) = keep_index
        BAD(profile->samples[1]->stack_index, 3,
            "resource_profiles[0].scope_profiles[0].profiles[0].samples[1].stack_index = 3, but the table has 3 rows");
        BAD(profile->samples[0]->link_index, -1,
            "resource_profiles[0].scope_profiles[0].profiles[0].samples[0].link_index = -1, but the table has 2 rows");
        BAD(profile->samples[0]->attribute_indices[1], 99,
            "resource_profiles[0].scope_profiles[0].profiles[0].samples[0].attribute_indices = 99, "
            "but the table has 6 rows");
        BAD(profile->sample_type->unit_strindex, 11,
            "resource_profiles[0].scope_profiles[0].profiles[0].unit_strindex = 11, but the table has 11 rows");
        BAD(dictionary->stack_table[2]->location_indices[1], INT32_MAX,
            "dictionary.stack_table[2].location_indices = 2147483647, but the table has 4 rows");
        BAD(dictionary->location_table[3]->mapping_index, 2,
            "dictionary.location_table[3].mapping_index = 2, but the table has 2 rows");
        BAD(dictionary->location_table[1]->lines[0]->function_index, 2,
            "dictionary.location_table[1].lines.function_index = 2, but the table has 2 rows");
        BAD(dictionary->location_table[1]->attribute_indices[0], 6,
            "dictionary.location_table[1].attribute_indices = 6, but the table has 6 rows");
        BAD(dictionary->mapping_table[1]->filename_strindex, INT32_MIN,
            "dictionary.mapping_table[1].filename_strindex = -2147483648, but the table has 11 rows");
        BAD(dictionary->function_table[1]->name_strindex, 12,
            "dictionary.function_table[1].name_strindex = 12, but the table has 11 rows");
        BAD(dictionary->attribute_table[4]->key_strindex, 12,
            "dictionary.attribute_table[4].key_strindex = 12, but the table has 11 rows");
#undef BAD
        otlp_request_freep(&request);
}

Test(import, refuses_values_that_do_not_match_the_times) {
        OtlpRequest *request = golden();
        OtlpSample *sample = request->resource_profiles[0]->scope_profiles[0]->profiles[0]->samples[0];
        int64_t values[3] = { 0 };

        sample->values = values;        /* the request does not own what it has not unpacked */
        sample->n_values = 3;
        expect_bad(
                request, OTLP_IMPORT_E_SHAPE,
                "resource_profiles[0].scope_profiles[0].profiles[0].samples[0]: 3 values and 2 timestamps");
        sample->n_values = sample->n_timestamps_unix_nano = 0;
        expect_bad(
                request, OTLP_IMPORT_E_SHAPE,
                "resource_profiles[0].scope_profiles[0].profiles[0].samples[0]: 0 values and 0 timestamps");
        otlp_request_freep(&request);
}

Test(import, refuses_a_link_of_the_wrong_size) {
        OtlpRequest *request = golden();

        request->dictionary->link_table[1]->span_id.len = 7;
        expect_bad(request, OTLP_IMPORT_E_SHAPE, "dictionary.link_table[1]: ids of 16 and 7 bytes");
        otlp_request_freep(&request);
}

Test(import, says_when_a_window_is_full) {
        WindowLimits limits = window_default_limits;
        const OtlpRequest *requests[1];
        OtlpRequest *request = golden();
        Window *window = NULL;
        char where[256];

        requests[0] = request;
        limits.max_stacks = 2;
        cr_assert_eq(import_window(&window, requests, 1, &limits, where, sizeof(where)), OTLP_IMPORT_E_FULL);
        cr_assert_str_eq(where, "dictionary.stack_table[2]: more than a window takes");
        cr_assert_null(window);
        otlp_request_freep(&request);
}

Test(import, makes_a_frame_of_each_inlined_line) {
        OtlpRequest *request = golden();
        OtlpLocation *location = request->dictionary->location_table[1];
        _cleanup_(window_freep) Window *window = NULL;
        const OtlpRequest *requests[] = { request };
        WindowSample sample;
        const FrameWord *words;
        OtlpLine outer = OTLP_LINE_INIT, *lines[2];
        static struct requests again;
        char where[256];
        size_t n;

        outer.function_index = 1;
        outer.line = 77;
        cr_assert_eq(location->n_lines, 1);
        lines[0] = location->lines[0];
        lines[1] = &outer;
        location->lines = lines;
        location->n_lines = 2;
        cr_assert_eq(import_window(&window, requests, 1, NULL, where, sizeof(where)), 0);
        window_get_sample(window, 0, 0, &sample);
        words = window_get_stack(window, sample.stack, &n);
        cr_assert_eq(n, 3);
        cr_assert_eq(window_expand_frame(window, words[1]).line, 0);
        cr_assert_eq(window_expand_frame(window, words[2]).line, 77,
                     "the caller stands behind what was inlined");
        cr_assert_eq(window_expand_frame(window, words[2]).address, 0xffffffff81000040);
        encode(window, 0, &again);
        location = again.decoded[0]->dictionary->location_table[1];
        for (size_t i = 2; location->address != 0xffffffff81000040; i++)
                location = again.decoded[0]->dictionary->location_table[i];
        cr_assert_eq(location->n_lines, 2, "they go out as they came");
        cr_assert_eq(location->lines[1]->line, 77);
        cr_assert_eq(again.decoded[0]->dictionary->n_location_table, request->dictionary->n_location_table);
        forget(&again);
        otlp_request_freep(&request);
}

/* Row 0 is "not set", also where a careless writer keeps a string there. */
Test(import, gives_nobody_the_name_in_row_0) {
        OtlpRequest *request = golden();
        _cleanup_(window_freep) Window *window = NULL;
        const OtlpRequest *requests[] = { request };
        char where[256], ghost[] = "ghost.c", **row = &request->dictionary->string_table[0], *empty = *row;

        cr_assert_str_eq(empty, "");
        *row = ghost;
        cr_assert_eq(request->dictionary->function_table[1]->filename_strindex, 0);
        cr_assert_eq(import_window(&window, requests, 1, NULL, where, sizeof(where)), 0, "%s", where);
        for (uint32_t i = 0; i < window_n_strings(window); i++)
                cr_expect_str_neq(window_get_string(window, i, NULL), ghost);
        *row = empty;                   /* as the decoder frees it */
        otlp_request_freep(&request);
}

Test(import, takes_string_indexes_and_lists_of_foreign_senders) {
        OtlpRequest *request = golden();
        OtlpKeyValue *pair = request->resource_profiles[0]->resource->attributes[0];
        _cleanup_(window_freep) Window *window = NULL;
        const OtlpRequest *requests[] = { request };
        const WindowAttribute *attribute;
        const uint32_t *attributes;
        char where[256];
        size_t n;

        pair->key_strindex = 9;
        pair->value->value_case = OTLP_ANY_STRINDEX;
        pair->value->string_value_strindex = 6;
        cr_assert_eq(import_window(&window, requests, 1, NULL, where, sizeof(where)), 0, "%s", where);
        attributes = window_get_resource(window, 1, &n);
        attribute = window_get_attribute(window, attributes[0]);
        cr_assert_str_eq(window_get_string(window, attribute->key, NULL), "thread.id");
        cr_assert_str_eq(window_get_string(window, attribute->string, NULL), "/usr/bin/shop");
        pair->value->string_value_strindex = 600;
        expect_bad(request, OTLP_IMPORT_E_INDEX,
                   "resource_profiles[0].value.string_value_strindex = 600, but the table has 11 rows");
        otlp_request_freep(&request);
}

Test(decode, refuses_every_truncation_or_reads_a_shorter_message) {
        for (size_t size = 0; size < sizeof(golden_request); size++) {
                OtlpRequest *request = NULL;
                uint8_t *copy = malloc(size + 1);       /* so that a sanitizer sees a read behind the end */
                char where[256];
                int r;

                memcpy(copy, golden_request, size);
                r = otlp_decode_request(copy, size, &request, where, sizeof(where));
                cr_assert(r == 0 || r == OTLP_DECODE_E_MALFORMED);
                cr_assert_eq(r == 0, request != NULL);
                otlp_request_freep(&request);
                free(copy);
        }
}

/* { resource { attributes { value { array { values { array … } } } } } } */
static size_t nest(uint8_t *data, int depth) {
        uint8_t reversed[4096];
        size_t n = 0;

        for (int i = 0; i < depth; i++) {
                static const uint8_t tags[] = { 0x0a, 0x0a, 0x0a, 0x12 };      /* down to AnyValue */
                uint8_t tag = depth - i <= 4 ? tags[depth - i - 1] : (depth - i) % 2 ? 0x2a : 0x0a;
                size_t size = n;

                if (size >= 0x80) {
                        reversed[n++] = (uint8_t)(size >> 7);
                        reversed[n++] = (uint8_t)(size | 0x80);
                } else {
                        reversed[n++] = (uint8_t)size;
                }
                reversed[n++] = tag;
        }
        for (size_t i = 0; i < n; i++)
                data[i] = reversed[n - 1 - i];
        return n;
}

Test(decode, refuses_messages_nested_without_end) {
        OtlpRequest *request = NULL;
        uint8_t data[4096];
        char where[256];

        cr_assert_eq(otlp_decode_request(data, nest(data, OTLP_DECODE_MAX_DEPTH - 1), &request, where,
                                         sizeof(where)),
                     0);
        otlp_request_freep(&request);
        cr_assert_eq(
                otlp_decode_request(data, nest(data, OTLP_DECODE_MAX_DEPTH), &request, where, sizeof(where)),
                OTLP_DECODE_E_TOO_DEEP);
        cr_assert_str_eq(where, "nested too deeply");
        cr_assert_null(request);
}

Test(decode, refuses_a_message_made_to_waste_memory) {
        size_t size = 4 << 20;
        uint8_t *data = malloc(size);
        OtlpRequest *request = NULL;
        char where[256];

        for (size_t i = 0; i < size; i += 2) {          /* two million empty ResourceProfiles */
                data[i] = 0x0a;
                data[i + 1] = 0;
        }
        cr_assert_eq(otlp_decode_request(data, size, &request, where, sizeof(where)),
                     OTLP_DECODE_E_TOO_LARGE);
        cr_assert_eq(otlp_decode_request(data, 2000, &request, where, sizeof(where)), 0,
                     "a few are nothing special");
        cr_assert_eq(request->n_resource_profiles, 1000);
        otlp_request_freep(&request);
        free(data);
}

Test(decode, takes_a_large_honest_request) {
        _cleanup_(window_freep) Window *window = NULL;
        OtlpOptions options = { .max_bytes = 64 << 20, .timestamps = 1 };
        static struct requests requests;
        WindowLimits limits = format_limits;
        uint64_t n_lost;
        uint32_t profile, stack;

        FILL(window_new(&window, FILL_START_NS, FILL_OFFSET_NS, &limits));
        profile = fill_profile(window, fill_resource(window, 1, 1, "x"), PROFILE_CPU);
        for (uint32_t i = 0; i < 300000; i++) {
                FrameWord words[3];

                for (uint32_t j = 0; j < ARRAY_SIZE(words); j++)
                        words[j] = fill_native(window, FRAME_MARK_UNKNOWN, 0, i * 3 + j);
                FILL(window_stack(window, words, ARRAY_SIZE(words), &stack));
                FILL(window_sample(window, profile, stack, 0, 0, 1, FILL_START_NS + i));
        }
        FILL(window_close(window, FILL_START_NS + 1000000));
        cr_assert_eq(otlp_encode(window, &options, keep, &requests, &n_lost), 0);       /* keep() decodes */
        cr_assert_gt(requests.sizes[0], 12 << 20);
        forget(&requests);
}

/* Ticks of one process, in a window of its own. */
static void encode_ticks(uint32_t n, int64_t period, struct requests *requests) {
        uint32_t resource, profile;
        Window *window;

        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        cr_assert_eq(window_resource(window, 1, &resource), 0);
        cr_assert_eq(window_profile(window, resource, PROFILE_CPU, &profile), 0);
        window_set_period(window, PROFILE_CPU, period);
        for (uint32_t i = 0; i < n; i++)
                cr_assert_eq(window_sample(window, profile, 0, 0, 0, 1, 2 + i), 0);
        cr_assert_eq(window_close(window, 1000), 0);
        encode(window, 0, requests);
        window_free(window);
}

Test(import, counts_ticks_of_windows_with_other_periods_by_their_mean) {
        struct requests requests = { 0 };
        const int64_t sum = 30 * 10000000 + 10 * 12000000 + 60 * 8000000;
        Window *window;

        encode_ticks(30, 10000000, &requests);
        encode_ticks(10, 12000000, &requests);
        encode_ticks(60, 8000000, &requests);
        window = import(&requests);
        cr_assert_eq(window_n_profiles(window), 1);
        cr_assert_eq(window_n_events(window), 100);
        cr_assert_eq(window_get_profile(window, 0)->period, sum / 100);
        window_free(window);
        forget(&requests);
}
