/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/otlp/encode.h"
#include "core/otlp/messages.h"
#include "fill-golden.h"
#include "golden-request.h"

struct requests {
        uint8_t *data[2000];
        size_t sizes[2000];
        uint64_t n_events;
        unsigned n;
        int stop_at;
};

static uint64_t count_profiles(const uint8_t *data, size_t size) {
        ProtobufCMessage *message = protobuf_c_message_unpack(OTLP_REQUEST_DESCRIPTOR, NULL, size, data);
        const OtlpRequest *request = (const OtlpRequest *)message;
        uint64_t n = 0;

        cr_assert_not_null(message);
        for (size_t i = 0; i < request->n_resource_profiles; i++)
                for (size_t j = 0; j < request->resource_profiles[i]->n_scope_profiles; j++)
                        n += request->resource_profiles[i]->scope_profiles[j]->n_profiles;
        protobuf_c_message_free_unpacked(message, NULL);
        return n;
}

static int keep(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles, void *userdata) {
        struct requests *requests = userdata;

        if (requests->stop_at && (int)requests->n == requests->stop_at)
                return 7;
        cr_assert_lt(requests->n, ARRAY_SIZE(requests->data));
        cr_assert_eq(n_profiles, count_profiles(data, size));
        requests->data[requests->n] = malloc(size);
        memcpy(requests->data[requests->n], data, size);
        requests->sizes[requests->n++] = size;
        requests->n_events += n_events;
        return 0;
}

static void forget(struct requests *requests) {
        for (unsigned i = 0; i < requests->n; i++)
                free(requests->data[i]);
        *requests = (struct requests){ 0 };
}

static void encode(const Window *window, size_t max_bytes, struct requests *requests, uint64_t *n_lostp) {
        OtlpOptions options = { .max_bytes = max_bytes, .scope_version = "1.2.3", .timestamps = 1 };

        cr_assert_eq(otlp_encode(window, &options, keep, requests, n_lostp), 0);
}

static OtlpRequest *unpack(const struct requests *requests, unsigned i) {
        ProtobufCMessage *message = protobuf_c_message_unpack(OTLP_REQUEST_DESCRIPTOR, NULL,
                                                              requests->sizes[i], requests->data[i]);

        cr_assert_not_null(message);
        return (OtlpRequest *)message;
}

Test(encode, packs_the_bytes_that_protobuf_packs) {
        _cleanup_(window_freep) Window *window = fill_golden();
        static struct requests requests;
        uint64_t n_lost = 9;

        encode(window, 0, &requests, &n_lost);
        cr_assert_eq(requests.n, 1);
        cr_assert_eq(requests.n_events, 3);
        cr_assert_eq(n_lost, 0);
        cr_assert_eq(requests.sizes[0], sizeof(golden_request));
        for (size_t i = 0; i < sizeof(golden_request); i++)
                cr_assert_eq(requests.data[0][i], golden_request[i], "byte %zu", i);
        forget(&requests);
}

Test(encode, sends_nothing_for_a_window_without_samples) {
        _cleanup_(window_freep) Window *window = NULL;
        static struct requests requests;
        uint64_t n_lost;

        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        fill_profile(window, fill_resource(window, 1, 1, "idle"), PROFILE_CPU);
        cr_assert_eq(window_close(window, 2), 0);
        encode(window, 0, &requests, &n_lost);
        cr_assert_eq(requests.n, 0);
}

Test(encode, gives_the_same_bytes_twice) {
        _cleanup_(window_freep) Window *window = fill_window(3, 50);
        static struct requests a, b;
        uint64_t n_lost;

        encode(window, 0, &a, &n_lost);
        encode(window, 0, &b, &n_lost);
        cr_assert_eq(a.n, 1);
        cr_assert_eq(a.sizes[0], b.sizes[0]);
        cr_assert_arr_eq(a.data[0], b.data[0], a.sizes[0]);
        forget(&a);
        forget(&b);
}

Test(encode, splits_between_resources_first) {
        _cleanup_(window_freep) Window *window = fill_window(6, 40);
        static struct requests requests;
        uint64_t n_lost;

        encode(window, 20000, &requests, &n_lost);
        cr_assert_gt(requests.n, 1);
        cr_assert_eq(n_lost, 0);
        cr_assert_eq(requests.n_events, window_n_events(window));
        for (unsigned i = 0, next = 0; i < requests.n; i++) {
                OtlpRequest *request = unpack(&requests, i);

                cr_assert_lt(requests.sizes[i], 20000);
                for (size_t j = 0; j < request->n_resource_profiles; j++, next++)
                        cr_assert_eq(request->resource_profiles[j]->resource->attributes[1]->value->int_value,
                                     100 * (next + 1),
                                     "each resource is in one request, and they keep their order");
                protobuf_c_message_free_unpacked(&request->base, NULL);
        }
        forget(&requests);
}

static FrameWord add_inlined(Window *window, uint32_t module, const char *name, int64_t line,
                             bool is_inlined) {
        FrameWord word = fill_named(window, module, 0x1234, name, line, "native");
        WindowFrame frame = window_expand_frame(window, word);

        frame.is_inlined = is_inlined;
        FILL(window_frame(window, &frame, &word));
        return word;
}

static const char *name_of_line(const OtlpDictionary *dictionary, const OtlpLine *line) {
        return dictionary->string_table[dictionary->function_table[line->function_index]->name_strindex];
}

/* As profiles.proto has it: "if memcpy() is inlined into printf: lines[0] is memcpy, lines[1] is printf". */
Test(encode, makes_inlined_functions_lines_of_one_location) {
        static const char *const names[] = { "skip_blanks", "parse", "main" };
        _cleanup_(window_freep) Window *window = NULL;
        static struct requests requests;
        uint32_t profile, module, stack;
        const OtlpDictionary *dictionary;
        const OtlpLocation *location;
        FrameWord words[7];
        uint64_t n_lost;
        OtlpRequest *request;

        FILL(window_new(&window, FILL_START_NS, FILL_OFFSET_NS, NULL));
        module = fill_module(window, "/bin/a", "abcd", 0x1000, 0x9000);
        profile = fill_profile(window, fill_resource(window, 1, 7, "shop"), PROFILE_CPU);
        for (size_t i = 0; i < 6; i++)  /* main calls itself at the same place */
                words[i] = add_inlined(window, module, names[i % 3], 10 + (int64_t)(i % 3), i % 3 < 2);
        words[6] = fill_native(window, FRAME_MARK_NATIVE, module, 0x2000);
        FILL(window_stack(window, words, ARRAY_SIZE(words), &stack));
        FILL(window_sample(window, profile, stack, 0, 0, 1, FILL_START_NS));
        FILL(window_stack(window, &words[2], 1, &stack));
        FILL(window_sample(window, profile, stack, 0, 0, 1, FILL_START_NS + 1));
        FILL(window_close(window, FILL_START_NS + 100));
        encode(window, 0, &requests, &n_lost);
        request = unpack(&requests, 0);
        dictionary = request->dictionary;
        cr_assert_eq(dictionary->n_location_table, 4);
        cr_assert_eq(dictionary->stack_table[1]->n_location_indices, 3);
        cr_assert_eq(dictionary->stack_table[1]->location_indices[0],
                     dictionary->stack_table[1]->location_indices[1]);
        location = dictionary->location_table[dictionary->stack_table[1]->location_indices[0]];
        cr_assert_eq(location->address, 0x1234);
        cr_assert_eq(location->n_lines, 3);
        for (size_t i = 0; i < 3; i++) {
                cr_assert_str_eq(name_of_line(dictionary, location->lines[i]), names[i]);
                cr_assert_eq(location->lines[i]->line, 10 + (int64_t)i);
        }
        cr_assert_eq(dictionary->stack_table[2]->n_location_indices, 1);
        protobuf_c_message_free_unpacked(&request->base, NULL);
        forget(&requests);
}

static uint64_t count_events(const OtlpRequest *request) {
        uint64_t n = 0;

        for (size_t i = 0; i < request->n_resource_profiles; i++) {
                const OtlpScopeProfiles *scope = request->resource_profiles[i]->scope_profiles[0];

                for (size_t j = 0; j < scope->n_profiles; j++)
                        for (size_t k = 0; k < scope->profiles[j]->n_samples; k++)
                                n += scope->profiles[j]->samples[k]->n_timestamps_unix_nano;
        }
        return n;
}

/* One process, off-CPU durations: every event is told. */
static Window *fill_events(uint32_t n_stacks, uint32_t n_events) {
        Window *window;
        uint32_t profile, stack;

        FILL(window_new(&window, FILL_START_NS, FILL_OFFSET_NS, NULL));
        profile = fill_profile(window, fill_resource(window, 1, 1, "x"), PROFILE_OFF_CPU);
        for (uint32_t i = 0; i < n_events; i++) {
                FrameWord word = fill_native(window, FRAME_MARK_UNKNOWN, 0, 0x1000 + i % n_stacks);

                FILL(window_stack(window, &word, 1, &stack));
                FILL(window_sample(window, profile, stack, 0, 0, 1000 + i, FILL_START_NS + i));
        }
        FILL(window_close(window, FILL_START_NS + n_events));
        return window;
}

Test(encode, splits_one_resource_between_samples_and_gives_each_part_an_id) {
        _cleanup_(window_freep) Window *window = fill_events(500, 500);
        static struct requests requests;
        uint8_t ids[ARRAY_SIZE(requests.data)][16];
        uint64_t n_lost, n = 0;

        encode(window, 2000, &requests, &n_lost);
        cr_assert_gt(requests.n, 5);
        cr_assert_eq(n_lost, 0);
        for (unsigned i = 0; i < requests.n; i++) {
                OtlpRequest *request = unpack(&requests, i);

                cr_assert_leq(requests.sizes[i], 2000);
                cr_assert_eq(request->n_resource_profiles, 1);
                memcpy(ids[i], request->resource_profiles[0]->scope_profiles[0]->profiles[0]->profile_id.data,
                       16);
                for (unsigned j = 0; j < i; j++)
                        cr_assert_neq(memcmp(ids[i], ids[j], 16), 0);
                n += count_events(request);
                protobuf_c_message_free_unpacked(&request->base, NULL);
        }
        cr_assert_eq(n, 500);
        cr_assert_eq(requests.n_events, 500);
        forget(&requests);
}

Test(encode, splits_one_sample_between_its_times) {
        _cleanup_(window_freep) Window *window = fill_events(2, 5000);
        static struct requests requests;
        uint64_t n_lost, next[2] = { 0, 1 }, n = 0;

        encode(window, 4000, &requests, &n_lost);
        cr_assert_eq(n_lost, 0);
        cr_assert_eq(requests.n_events, 5000);
        for (unsigned i = 0; i < requests.n; i++) {
                OtlpRequest *request = unpack(&requests, i);
                OtlpProfile *profile = request->resource_profiles[0]->scope_profiles[0]->profiles[0];

                for (size_t j = 0; j < profile->n_samples; j++) {
                        const OtlpSample *sample = profile->samples[j];
                        uint64_t first = sample->timestamps_unix_nano[0] - FILL_OFFSET_NS - FILL_START_NS;

                        cr_assert_eq(first, next[first % 2], "no event is left out or told twice");
                        cr_assert_eq(sample->n_values, sample->n_timestamps_unix_nano);
                        cr_assert_eq((uint64_t)sample->values[0], 1000 + first);
                        next[first % 2] += 2 * sample->n_values;
                        n += sample->n_values;
                }
                protobuf_c_message_free_unpacked(&request->base, NULL);
        }
        cr_assert_eq(n, 5000);
        forget(&requests);
}

/*
 * Stacks of two frames below one of three callers; calls come in an order in which no two addresses are
 * neighbours, from two files in turn.
 */
static Window *fill_callers(uint32_t n_stacks) {
        Window *window;
        uint32_t profile, stack, modules[2];
        FrameWord words[2];

        FILL(window_new(&window, FILL_START_NS, FILL_OFFSET_NS, NULL));
        modules[0] = fill_module(window, "/usr/lib/libone.so", "aa", 0x1000, 0x90000);
        modules[1] = fill_module(window, "/usr/lib/libtwo.so", "bb", 0x1000, 0x90000);
        profile = fill_profile(window, fill_resource(window, 1, 1, "x"), PROFILE_CPU);
        for (uint32_t i = 0; i < n_stacks; i++) {
                words[0] = fill_native(window, FRAME_MARK_NATIVE, modules[i % 2],
                                       0x1000 + 16 * ((i * 7919) % n_stacks));
                words[1] = fill_native(window, FRAME_MARK_NATIVE, modules[1], 0x80000 + i % 3);
                FILL(window_stack(window, words, 2, &stack));
                FILL(window_sample(window, profile, stack, 0, 0, 1, FILL_START_NS + i));
        }
        FILL(window_close(window, FILL_START_NS + n_stacks));
        return window;
}

static const OtlpProfile *only_profile(const OtlpRequest *request) {
        return request->resource_profiles[0]->scope_profiles[0]->profiles[0];
}

static bool stands_behind(const OtlpLocation *one, const OtlpLocation *other) {
        return one->mapping_index != other->mapping_index ? one->mapping_index > other->mapping_index
                                                          : one->address > other->address;
}

Test(encode, numbers_locations_so_that_they_pack) {
        enum { N = 1000, N_SHORT = 127 };       /* numbers of one byte */
        _cleanup_(window_freep) Window *window = fill_callers(N);
        static struct requests requests;
        const OtlpDictionary *dictionary;
        bool seen[N] = { false };
        OtlpRequest *request;
        uint64_t n_lost;

        encode(window, 0, &requests, &n_lost);
        cr_assert_eq(requests.n, 1);
        request = unpack(&requests, 0);
        dictionary = request->dictionary;
        cr_assert_eq(dictionary->n_location_table, 1 + N + 3);
        for (size_t i = 2; i < dictionary->n_location_table; i++)
                if (i != N_SHORT + 1)
                        cr_assert(stands_behind(dictionary->location_table[i],
                                                dictionary->location_table[i - 1]),
                                  "location %zu", i);
        for (size_t i = 0; i < N; i++) {
                const OtlpSample *sample = only_profile(request)->samples[i];
                const OtlpStack *stack = dictionary->stack_table[sample->stack_index];
                uint64_t at = sample->timestamps_unix_nano[0] - FILL_OFFSET_NS - FILL_START_NS;

                cr_assert_eq(stack->n_location_indices, 2);
                cr_assert_leq(stack->location_indices[1], N_SHORT, "callers of many have short numbers");
                cr_assert_eq(dictionary->location_table[stack->location_indices[0]]->address,
                             0x1000 + 16 * ((at * 7919) % N));
                cr_assert_eq(dictionary->location_table[stack->location_indices[1]]->address,
                             0x80000 + at % 3);
                cr_assert_not(seen[at]);
                seen[at] = true;
        }
        protobuf_c_message_free_unpacked(&request->base, NULL);
        forget(&requests);
}

Test(encode, splits_at_the_limit_where_numbers_are_long) {
        _cleanup_(window_freep) Window *window = fill_callers(30000);
        static struct requests requests;
        uint64_t n_lost;

        encode(window, 400000, &requests, &n_lost);
        cr_assert_gt(requests.n, 1);
        cr_assert_eq(n_lost, 0);
        cr_assert_eq(requests.n_events, 30000);
        for (unsigned i = 0; i < requests.n; i++)
                cr_assert_leq(requests.sizes[i], 400000);
        forget(&requests);
}

Test(encode, counts_what_no_request_can_hold) {
        _cleanup_(window_freep) Window *window = fill_window(1, 3);
        static struct requests requests;
        uint64_t n_lost;

        encode(window, 100, &requests, &n_lost);
        cr_assert_eq(requests.n, 0, "the resource alone is larger");
        cr_assert_eq(n_lost, window_n_events(window));

        encode(window, 300, &requests, &n_lost);
        cr_assert_eq(requests.n, 1, "the sample without a stack fits, the others' modules do not");
        cr_assert_eq(n_lost, window_n_events(window) - 1);
        forget(&requests);

        encode(window, 700, &requests, &n_lost);
        cr_assert_gt(requests.n_events, 1);
        cr_assert_gt(n_lost, 0, "deep stacks do not fit, others do");
        cr_assert_eq(requests.n_events + n_lost, window_n_events(window));
        forget(&requests);
}

Test(encode, ends_with_the_code_of_the_sink) {
        _cleanup_(window_freep) Window *window = fill_window(6, 40);
        OtlpOptions options = { .max_bytes = 10000 };
        static struct requests requests;
        uint64_t n_lost;

        requests.stop_at = 1;
        cr_assert_eq(otlp_encode(window, &options, keep, &requests, &n_lost), 7);
        cr_assert_eq(requests.n, 1);
        forget(&requests);
}

Test(encode, leaves_times_out_on_request) {
        _cleanup_(window_freep) Window *window = fill_golden();
        OtlpOptions options = { .timestamps = 0 };
        static struct requests requests;
        OtlpRequest *request;
        OtlpProfile *profile;
        uint64_t n_lost;

        cr_assert_eq(otlp_encode(window, &options, keep, &requests, &n_lost), 0);
        request = unpack(&requests, 0);
        profile = request->resource_profiles[0]->scope_profiles[0]->profiles[0];
        cr_assert_eq(profile->samples[0]->n_timestamps_unix_nano, 0);
        cr_assert_eq(profile->samples[0]->n_values, 1);
        cr_assert_eq(profile->samples[0]->values[0], 2);
        cr_assert_eq(requests.n_events, 3);
        protobuf_c_message_free_unpacked(&request->base, NULL);
        forget(&requests);
}

Test(encode, moves_the_start_back_for_a_late_sample) {
        _cleanup_(window_freep) Window *window = fill_window(1, 1);
        static struct requests requests;
        OtlpRequest *request;
        OtlpProfile *profile;
        uint64_t n_lost;

        encode(window, 0, &requests, &n_lost);
        request = unpack(&requests, 0);
        profile = request->resource_profiles[0]->scope_profiles[0]->profiles[0];
        cr_assert_eq(profile->time_unix_nano, FILL_START_NS + FILL_OFFSET_NS - 5);
        cr_assert_eq(profile->duration_nano, 500000005);
        profile = request->resource_profiles[0]->scope_profiles[0]->profiles[1];
        cr_assert_eq(profile->time_unix_nano, FILL_START_NS + FILL_OFFSET_NS, "only where the sample is");
        protobuf_c_message_free_unpacked(&request->base, NULL);
        forget(&requests);
}

static uint32_t most_samples(const struct requests *requests) {
        uint32_t most = 0;

        for (unsigned i = 0; i < requests->n; i++) {
                OtlpRequest *request = unpack(requests, i);

                for (size_t j = 0; j < request->n_resource_profiles; j++) {
                        const OtlpScopeProfiles *scope = request->resource_profiles[j]->scope_profiles[0];

                        for (size_t k = 0; k < scope->n_profiles; k++)
                                most = MAX(most, (uint32_t)scope->profiles[k]->n_samples);
                }
                protobuf_c_message_free_unpacked(&request->base, NULL);
        }
        return most;
}

static void encode_as(const Window *window, const OtlpOptions *options, struct requests *requests) {
        uint64_t n_lost = 9;

        cr_assert_eq(otlp_encode(window, options, keep, requests, &n_lost), 0);
        cr_assert_eq(n_lost, 0);
        cr_assert_eq(requests->n_events, window_n_events(window));
}

Test(encode, makes_requests_of_one_type_each_on_request) {
        const OtlpOptions options = { .timestamps = 1, .by_type = true };
        _cleanup_(window_freep) Window *window = fill_window(4, 20);
        static struct requests requests;
        char *seen[8] = { 0 };
        unsigned n_seen = 0;

        encode_as(window, &options, &requests);
        for (unsigned i = 0; i < requests.n; i++) {
                OtlpRequest *request = unpack(&requests, i);
                const char *type = NULL;

                for (size_t j = 0; j < request->n_resource_profiles; j++) {
                        const OtlpScopeProfiles *scope = request->resource_profiles[j]->scope_profiles[0];

                        cr_assert_eq(scope->n_profiles, 1);
                        for (size_t k = 0; k < scope->n_profiles; k++) {
                                int32_t index = scope->profiles[k]->sample_type->type_strindex;
                                const char *name = request->dictionary->string_table[index];

                                cr_assert(!type || !strcmp(type, name));
                                type = name;
                        }
                }
                for (unsigned j = 0; j < n_seen; j++)
                        cr_assert_str_neq(seen[j], type, "one request is enough");
                seen[n_seen++] = strdup(type);
                protobuf_c_message_free_unpacked(&request->base, NULL);
        }
        cr_assert_gt(n_seen, 2);
        for (unsigned i = 0; i < n_seen; i++)
                free(seen[i]);
        forget(&requests);
}

Test(encode, keeps_the_limits_of_one_profile) {
        _cleanup_(window_freep) Window *window = fill_window(2, 90);
        static struct requests requests;
        OtlpOptions options = { 0 };
        uint32_t most;

        encode_as(window, &options, &requests);
        most = most_samples(&requests);
        cr_assert_gt(most, 20);
        forget(&requests);
        options.max_samples = 20;
        encode_as(window, &options, &requests);
        cr_assert_gt(requests.n, 1);
        cr_assert_eq(most_samples(&requests), 20);
        forget(&requests);
        options.max_samples = 0;
        options.max_pprof_bytes = 6000;
        encode_as(window, &options, &requests);
        cr_assert_gt(requests.n, 1);
        cr_assert_lt(most_samples(&requests), most);
        forget(&requests);
}

Test(encode, sums_durations_where_one_value_is_asked_for) {
        const OtlpOptions options = { .timestamps = 1, .one_value = true };
        _cleanup_(window_freep) Window *window = fill_events(3, 30);
        static struct requests requests;
        const OtlpProfile *profile;
        OtlpRequest *request;

        encode_as(window, &options, &requests);
        request = unpack(&requests, 0);
        profile = request->resource_profiles[0]->scope_profiles[0]->profiles[0];
        cr_assert_eq(profile->n_samples, 3);
        for (size_t i = 0; i < profile->n_samples; i++) {
                cr_assert_eq(profile->samples[i]->n_values, 1);
                cr_assert_eq(profile->samples[i]->n_timestamps_unix_nano, 0);
        }
        protobuf_c_message_free_unpacked(&request->base, NULL);
        forget(&requests);
}
