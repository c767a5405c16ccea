/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/stat.h"
#include "host/sampling/aggregate/aggregate.h"
#include "host/sampling/aggregate/wait-spread.h"
#include "stat-reset.h"

enum { START_NS = 1000 };

typedef struct Bench {
        Frames *frames;
        Aggregator *aggregator;
        Process process;
        Publication publication;
} Bench;

static void bench_init(Bench *bench) {
        stat_reset();
        *bench = (Bench){ .process = { .pid = 4711,
                                       .generation = 1,
                                       .comm = "victim",
                                       .exe = (char *)"/usr/bin/victim" } };
        cr_assert_eq(frames_new(&bench->frames), 0);
        cr_assert_eq(aggregator_new(&bench->aggregator, bench->frames, START_NS), 0);
}

static void bench_deinit(Bench *bench) {
        aggregator_free(bench->aggregator);
        frames_free(bench->frames);
}

/* A sample of one user frame that lies in no mapping. */
static struct abi_sample sample(uint64_t time_ns) {
        return (struct abi_sample){ .time_ns = time_ns,
                                    .value = 1,
                                    .generation = 1,
                                    .tgid = 4711,
                                    .tid = 4712,
                                    .n_user = 1,
                                    .kind = ABI_KIND_CPU,
                                    .comm = "worker",
                                    .context = ABI_CONTEXT_UNPUBLISHED };
}

static int add_sample(Bench *bench, const Sample *sample) {
        const Program program = { &bench->process, &bench->publication };

        return aggregator_add(bench->aggregator, &program, sample);
}

static void add(Bench *bench, const struct abi_sample *header) {
        static const uint64_t user[] = { 0x401000 };
        Sample s = { .header = header, .kernel = user, .user = user };

        cr_assert_eq(add_sample(bench, &s), 0);
}

static Window *rotate(Bench *bench, uint64_t end_ns) {
        Window *window = NULL;

        cr_assert_eq(aggregator_rotate(bench->aggregator, end_ns, 12345, 2469, &window), 0);
        return window;
}

static const char *text(const Window *window, uint32_t index) {
        size_t size;

        return window_get_string(window, index, &size);
}

/* The attribute of a sample by its key, or NULL. */
static const WindowAttribute *attribute(const Window *window, uint32_t set, const char *key) {
        const uint32_t *members;
        size_t n;

        members = window_get_attribute_set(window, set, &n);
        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *row = window_get_attribute(window, members[i]);

                if (!strcmp(text(window, row->key), key))
                        return row;
        }
        return NULL;
}

Test(aggregate, merges_samples_of_one_identity_and_keeps_their_times) {
        struct abi_sample one = sample(2000), two = sample(3000), other = sample(4000);
        WindowSample merged;
        Window *window;
        Bench bench;

        other.tid = 4713;
        bench_init(&bench);
        add(&bench, &one);
        add(&bench, &two);
        add(&bench, &other);
        window = rotate(&bench, 5000);
        cr_assert_eq(window_n_profiles(window), 1);
        cr_assert_eq(window_get_profile(window, 0)->n_samples, 2);
        cr_assert_eq(window_get_profile(window, 0)->n_events, 3);
        cr_assert_eq(window_get_profile(window, 0)->period, 12345);
        window_get_sample(window, 0, 0, &merged);
        cr_assert_eq(merged.value, 2);
        cr_assert_eq(merged.n_times, 2);
        cr_assert_eq(merged.times_ns[0], 2000);
        cr_assert_eq(merged.times_ns[1], 3000);
        cr_assert_eq(attribute(window, merged.attributes, "thread.id")->integer, 4712);
        cr_assert_str_eq(text(window, attribute(window, merged.attributes, "thread.name")->string), "worker");
        window_free(window);
        bench_deinit(&bench);
}

/* W3C: both ids are big endian on the wire. */
Test(aggregate, turns_a_present_context_into_a_link) {
        static const uint8_t trace[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
        static const uint8_t span[8] = { 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8 };
        struct abi_sample with = sample(2000);
        WindowSample row;
        Window *window;
        Bench bench;

        with.context = ABI_CONTEXT_PRESENT;
        with.form = ABI_FORM_RING;
        with.span = (struct abi_span){ .trace_high = 0x0102030405060708, .trace_low = 0x090a0b0c0d0e0f10,
                                                 .span = 0xa1a2a3a4a5a6a7a8 };
        bench_init(&bench);
        add(&bench, &with);
        window = rotate(&bench, 5000);
        window_get_sample(window, 0, 0, &row);
        cr_assert_arr_eq(window_get_link(window, row.link)->trace_id, trace, 16);
        cr_assert_arr_eq(window_get_link(window, row.link)->span_id, span, 8);
        cr_assert_null(attribute(window, row.attributes, "datadog.local_root_span_id"),
                       "the trace id is a real one");
        cr_assert_eq(stat_get(COUNTER_CONTEXT_PRESENT), 1);
        window_free(window);
        bench_deinit(&bench);
}

Test(aggregate, says_so_when_the_low_half_is_a_local_root_span) {
        struct abi_sample with = sample(2000);
        WindowSample row;
        Window *window;
        Bench bench;

        with.context = ABI_CONTEXT_PRESENT;
        with.form = ABI_FORM_RING;
        with.span = (struct abi_span){ .trace_low = 0xabc, .span = 7 };
        bench_init(&bench);
        add(&bench, &with);
        window = rotate(&bench, 5000);
        window_get_sample(window, 0, 0, &row);
        cr_assert_neq(row.link, 0);
        cr_assert_str_eq(
                text(window, attribute(window, row.attributes, "datadog.local_root_span_id")->string),
                "0000000000000abc");
        window_free(window);
        bench_deinit(&bench);
}

/* Only what was read whole and in time becomes a link, whatever bytes the slot holds. */
Test(aggregate, makes_no_link_of_any_other_outcome) {
        Bench bench;

        bench_init(&bench);
        for (int context = 0; context < ABI_CONTEXT_N; context++) {
                struct abi_sample with = sample(2000);
                WindowSample row;
                Window *window;

                with.context = (uint8_t)context;
                with.form = ABI_FORM_RING;
                with.span = (struct abi_span){ .trace_high = 1, .trace_low = 2,
                                               .span = context == ABI_CONTEXT_PRESENT ? 0 : 3 };
                add(&bench, &with);
                window = rotate(&bench, 5000);
                window_get_sample(window, 0, 0, &row);
                cr_assert_eq(row.link, 0, "context %d", context);
                cr_assert_eq(window_n_links(window), 1, "only the empty row");
                window_free(window);
        }
        cr_assert_eq(stat_get(COUNTER_CONTEXT_STALE), 1);
        cr_assert_eq(stat_get(COUNTER_CONTEXT_BUSY), 2, "and INVALID, which no ring is");
        cr_assert_eq(stat_get(COUNTER_CONTEXT_AMBIGUOUS), 1);
        cr_assert_eq(stat_get(COUNTER_CONTEXT_UNREADABLE), 1);
        bench_deinit(&bench);
}

/*
 * A record that is not valid is being written if there was a span before, and says that there is none
 * otherwise.
 */
Test(aggregate, tells_a_record_under_way_from_one_without_a_span) {
        static const uint8_t outcomes[] = { ABI_CONTEXT_INVALID, ABI_CONTEXT_PRESENT, ABI_CONTEXT_INVALID,
                                            ABI_CONTEXT_INVALID };
        Bench bench;

        bench_init(&bench);
        for (size_t i = 0; i < sizeof(outcomes); i++) {
                struct abi_sample one = sample(2000 + i), other = sample(2000 + i);

                one.form = other.form = ABI_FORM_THREAD;
                one.context = outcomes[i];
                other.tid = one.tid + 4096;             /* another thread at the same place of the table */
                other.context = ABI_CONTEXT_NONE;
                add(&bench, &one);
                if (i == 3)
                        add(&bench, &other);
        }
        cr_assert_eq(stat_get(COUNTER_CONTEXT_PRESENT), 1);
        cr_assert_eq(stat_get(COUNTER_CONTEXT_BUSY), 1);
        cr_assert_eq(stat_get(COUNTER_CONTEXT_NONE), 3);
        bench_deinit(&bench);
}

/* Adds a sample with these attributes: {index, length, bytes}…, as a thread record has them. */
static void add_attributes(Bench *bench, const char *bytes, size_t size) {
        struct abi_sample header = sample(2000);
        static const uint64_t user[] = { 0x401000 };
        Sample s = { .header = &header, .kernel = user, .user = user, .attributes = (const uint8_t *)bytes };

        header.form = ABI_FORM_THREAD;
        header.context = ABI_CONTEXT_NONE;
        header.attributes_size = (uint16_t)size;
        cr_assert_eq(add_sample(bench, &s), 0);
}

/* Resource { service.name = "shop" }, then threadlocal.attribute_key_map = ["route", "user"], by hand. */
static const char payload[] =
        "\x0a\x18\x0a\x16\x0a\x0cservice.name\x12\x06\x0a\x04shop"
        "\x12\x33\x0a\x1dthreadlocal.attribute_key_map\x12\x12\x2a\x10\x0a\x07\x0a\x05route\x0a\x05\x0a\x03usr";

Test(aggregate, names_the_attributes_of_threads_by_the_process_context) {
        const WindowAttribute *row;
        WindowSample merged;
        Window *window;
        Bench bench;

        bench_init(&bench);
        cr_assert_eq(process_context_decode(payload, sizeof(payload) - 1, &bench.publication.context), 0);
        add_attributes(&bench, "\0\2/a\1\3ann\0\2/b", 13);
        cr_assert_not(bench.publication.wants_context);
        window = rotate(&bench, 5000);
        window_get_sample(window, 0, 0, &merged);
        row = attribute(window, merged.attributes, "route");
        cr_assert_not_null(row);
        cr_assert_str_eq(text(window, row->string), "/b", "the last one counts");
        row = attribute(window, merged.attributes, "usr");
        cr_assert_str_eq(text(window, row->string), "ann");
        window_free(window);

        add_attributes(&bench, "\2\1x\0\x7f", 5);   /* an index without a name, then a length without bytes */
        window = rotate(&bench, 6000);
        window_get_sample(window, 0, 0, &merged);
        cr_assert_null(attribute(window, merged.attributes, "route"));
        cr_assert(bench.publication.wants_context);
        cr_assert_eq(stat_get(COUNTER_CONTEXT_KEYS_UNKNOWN), 1);
        cr_assert_eq(stat_get(COUNTER_CONTEXT_ATTRIBUTES_MALFORMED), 1);
        window_free(window);
        bench.publication.context = process_context_free(bench.publication.context);
        bench_deinit(&bench);
}

static const char *service_of(const Window *window, uint32_t profile) {
        return window_get_resource_text(window, window_get_profile(window, profile)->resource, "service.name");
}

Test(aggregate, gives_earlier_samples_of_a_process_the_name_that_it_got_later) {
        struct abi_sample first = sample(2000), second = sample(3000);
        WindowSample merged;
        Window *window;
        Bench bench;

        bench_init(&bench);
        add(&bench, &first);
        cr_assert_eq(process_context_decode(payload, sizeof(payload) - 1, &bench.publication.context), 0);
        add(&bench, &second);
        window = rotate(&bench, 5000);
        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);

                if (!strcmp(service_of(window, i), "shop")) {
                        cr_assert_eq(profile->n_samples, 1);
                        cr_assert_eq(profile->n_events, 2);
                        cr_assert_eq(profile->first_ns, 2000);
                        window_get_sample(window, i, 0, &merged);
                        cr_assert_eq(merged.n_times, 2);
                        cr_assert_eq(merged.times_ns[0], 2000);
                        cr_assert_eq(merged.times_ns[1], 3000);
                } else {
                        cr_assert_eq(profile->n_samples, 0, "%s", service_of(window, i));
                        cr_assert_eq(profile->n_events, 0);
                }
        }
        cr_assert_eq(window_n_events_of(window, PROFILE_CPU), 2);
        window_free(window);
        bench.publication.context = process_context_free(bench.publication.context);
        bench_deinit(&bench);
}

Test(aggregate, gives_ticks_of_a_boosted_process_a_profile_with_their_period) {
        struct abi_sample usual = sample(2000), boosted = sample(2500);
        Window *window;
        Bench bench;

        bench_init(&bench);
        boosted.kind = ABI_KIND_BOOST;
        add(&bench, &usual);
        add(&bench, &boosted);
        window = rotate(&bench, 5000);
        cr_assert_eq(window_n_profiles(window), 2);
        cr_assert_eq(window_get_profile(window, 0)->period, 12345);
        cr_assert_eq(window_get_profile(window, 1)->period, 2469);
        cr_assert_eq(window_get_profile(window, 0)->names.type, window_get_profile(window, 1)->names.type);
        window_free(window);
        bench_deinit(&bench);
}

/* Two processes of one program are one resource without their ids. A name of one is none of the other's. */
Test(aggregate, keeps_what_two_processes_share_when_one_gets_a_name) {
        char *deny[] = { (char *)"process.*" };
        const AttributeFilter filter = { .deny = deny, .n_deny = 1 };
        struct abi_sample first = sample(2000), other = sample(2500), last = sample(3000);
        Window *window;
        Bench bench;

        bench_init(&bench);
        aggregator_set_filter(bench.aggregator, &filter);
        add(&bench, &first);
        bench.process.generation = other.generation = 2;
        bench.process.pid = other.tgid = 4800;
        add(&bench, &other);
        bench.process.generation = 1;
        bench.process.pid = 4711;
        cr_assert_eq(process_context_decode(payload, sizeof(payload) - 1, &bench.publication.context), 0);
        add(&bench, &last);
        window = rotate(&bench, 5000);
        cr_assert_eq(window_n_profiles(window), 2);
        for (uint32_t i = 0; i < 2; i++)
                cr_assert_eq(window_get_profile(window, i)->n_events,
                             !strcmp(service_of(window, i), "shop") ? 1 : 2);
        window_free(window);
        bench.publication.context = process_context_free(bench.publication.context);
        bench_deinit(&bench);
}

/*
 * 1,000 values of a key are sent; the next ones are not, in this window; other keys and the next window are
 * free.
 */
Test(aggregate, bounds_the_values_of_a_key) {
        uint32_t n_overflow = 0, n_samples;
        Window *window;
        Bench bench;

        bench_init(&bench);
        cr_assert_eq(process_context_decode(payload, sizeof(payload) - 1, &bench.publication.context), 0);
        for (int i = 0; i < 1005; i++) {
                char bytes[16] = "\0\4";

                snprintf(bytes + 2, sizeof(bytes) - 2, "%04d", i);
                add_attributes(&bench, bytes, 6);
        }
        add_attributes(&bench, "\1\3ann", 5);
        add_attributes(&bench, "\0\0040007", 6);
        cr_assert_eq(stat_get(COUNTER_CONTEXT_ATTRIBUTES_OVERFLOW), 5);
        window = rotate(&bench, 5000);
        n_samples = window_get_profile(window, 0)->n_samples;
        cr_assert_eq(n_samples, 1000 + 1 + 1, "all that is over the cap is one sample");
        for (uint32_t i = 0; i < n_samples; i++) {
                const WindowAttribute *row;
                WindowSample merged;

                window_get_sample(window, 0, i, &merged);
                row = attribute(window, merged.attributes, "route");
                if (row && !strcmp(text(window, row->string), "__overflow__"))
                        n_overflow += merged.n_events;
        }
        cr_assert_eq(n_overflow, 5);
        window_free(window);
        add_attributes(&bench, "\0\0041004", 6);
        cr_assert_eq(stat_get(COUNTER_CONTEXT_ATTRIBUTES_OVERFLOW), 5);
        bench.publication.context = process_context_free(bench.publication.context);
        bench_deinit(&bench);
}

/*
 * Adds a sample of a goroutine: its id, then {size, size, key, value}…, as the kernel half has them. @obi:
 * the span that OBI's map has; 0 = none.
 */
static void add_labels_beside(Bench *bench, const char *labels, size_t size, uint64_t obi) {
        static const uint64_t user[] = { 0x401000 };
        struct abi_sample header = sample(2000);
        uint8_t bytes[ABI_MAX_ATTRIBUTES_SIZE] = { 33 };
        Sample s = { .header = &header, .kernel = user, .user = user, .attributes = bytes };

        memcpy(bytes + GO_HEADER_SIZE, labels, size);
        header.form = ABI_FORM_GO;
        header.context = obi ? ABI_CONTEXT_PRESENT : ABI_CONTEXT_NONE;
        header.span = (struct abi_span){ 5, 6, obi };
        header.attributes_size = (uint16_t)(GO_HEADER_SIZE + size);
        cr_assert_eq(add_sample(bench, &s), 0);
}

static void add_labels(Bench *bench, const char *labels, size_t size) {
        add_labels_beside(bench, labels, size, 0);
}

#define DATADOG_LABELS "\7\2span id12" "\22\2local root span id77" "\6\4tenantblue"

Test(aggregate, takes_span_and_attributes_from_labels_of_a_goroutine) {
        AttributeFilter filter = { .coroutine_ids = false };
        WindowSample row;
        Window *window;
        Bench bench;

        for (int with_id = 0; with_id < 2; with_id++) {
                bench_init(&bench);
                filter.coroutine_ids = with_id;
                aggregator_set_filter(bench.aggregator, &filter);
                add_labels(&bench, DATADOG_LABELS, sizeof(DATADOG_LABELS) - 1);
                window = rotate(&bench, 5000);
                cr_assert_eq(window_get_profile(window, 0)->n_samples, 1);
                window_get_sample(window, 0, 0, &row);
                cr_assert_eq(window_get_link(window, row.link)->span_id[7], 12);
                cr_assert_eq(window_get_link(window, row.link)->trace_id[15], 77);
                cr_assert_str_eq(text(window, attribute(window, row.attributes, "tenant")->string), "blue");
                cr_assert_str_eq(
                        text(window, attribute(window, row.attributes, "datadog.local_root_span_id")->string),
                        "000000000000004d");
                cr_assert_null(attribute(window, row.attributes, "span id"));
                cr_assert_eq(attribute(window, row.attributes, "go.goroutine.id") != NULL, with_id == 1);
                cr_assert_eq(stat_get(COUNTER_CONTEXT_PRESENT), 1);
                window_free(window);
                bench_deinit(&bench);
        }
}

Test(aggregate, takes_the_span_of_obi_where_labels_of_a_goroutine_have_none) {
        static const struct {
                const char *labels;
                uint8_t span;
        } cases[] = { { "\6\4tenantblue", 9 }, { DATADOG_LABELS, 12 } };
        WindowSample row;
        Window *window;
        Bench bench;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                bench_init(&bench);
                add_labels_beside(&bench, cases[i].labels, strlen(cases[i].labels), 9);
                window = rotate(&bench, 5000);
                window_get_sample(window, 0, 0, &row);
                cr_assert_eq(window_get_link(window, row.link)->span_id[7], cases[i].span);
                cr_assert_str_eq(text(window, attribute(window, row.attributes, "tenant")->string), "blue");
                window_free(window);
                bench_deinit(&bench);
        }
}

static size_t count_attributes(const Window *window, uint32_t set, const char *key) {
        const uint32_t *members;
        size_t n, found = 0;

        members = window_get_attribute_set(window, set, &n);
        for (size_t i = 0; i < n; i++)
                found += !strcmp(text(window, window_get_attribute(window, members[i])->key), key);
        return found;
}

/* No runtime is there that could name it. */
Test(aggregate, counts_a_sample_of_a_process_of_erlang_where_it_is_in) {
        static const uint64_t user[] = { 0x401000 };
        static const uint8_t task[PYTHON_TASK_SIZE] = { 7 };
        struct abi_sample header = sample(2000);
        Sample s = { .header = &header, .user = user, .task = task };
        Bench bench;

        bench_init(&bench);
        header.task_size = BEAM_TASK_SIZE;
        cr_assert_eq(add_sample(&bench, &s), 0);
        cr_assert_eq(stat_get(COUNTER_BEAM_TASKS_LATE), 1);
        header.kind = ABI_KIND_FINE;
        cr_assert_eq(add_sample(&bench, &s), 0);
        header.kind = 0;
        header.task_size = PYTHON_TASK_SIZE;
        cr_assert_eq(add_sample(&bench, &s), 0);
        cr_assert_eq(stat_get(COUNTER_BEAM_TASKS_LATE), 1, "a fine tick, or a task of Python");
        cr_assert_eq(stat_get(COUNTER_BEAM_TASKS_TOLD), 0);
        bench_deinit(&bench);
}

/* A set of attributes has each key once (OTLP's data model). */
Test(aggregate, says_the_state_of_a_task_within_a_coroutine_once) {
        static const uint64_t user[] = { 0x401000 };
        struct abi_sample header = sample(2000);
        Sample s = { .header = &header, .user = user, .task_name = "fetch" };
        WindowSample row;
        Window *window;
        Bench bench;

        bench_init(&bench);
        for (int i = 0; i < 2; i++) {
                s.coroutine = (SampleCoroutine){ .station = 7, .known = i };
                cr_assert_eq(add_sample(&bench, &s), 0);
        }
        window = rotate(&bench, 5000);
        cr_assert_eq(window_get_profile(window, 0)->n_samples, 2);
        for (uint32_t i = 0; i < 2; i++) {
                window_get_sample(window, 0, i, &row);
                cr_assert_eq(count_attributes(window, row.attributes, "coroutine.state"), 1);
                cr_assert_eq(count_attributes(window, row.attributes, "coroutine.station"), i);
                cr_assert_str_eq(text(window, attribute(window, row.attributes, "coroutine.name")->string),
                                 "fetch");
        }
        window_free(window);
        bench_deinit(&bench);
}

Test(aggregate, keeps_labels_without_a_span_and_bounds_their_names) {
        char label[] = "\5\1k0000v";
        WindowSample row;
        Window *window;
        Bench bench;

        bench_init(&bench);
        for (int i = 0; i < CONTEXT_ATTRIBUTES_MAX_KEYS + 5; i++) {
                snprintf(label + 2, 6, "k%04d", i);
                label[7] = 'v';
                add_labels(&bench, label, 8);
        }
        cr_assert_eq(stat_get(COUNTER_CONTEXT_ATTRIBUTES_OVERFLOW), 5);
        add_labels(&bench, "\7\20span_id0011223344556677\1\1", 27);        /* the last one is cut */
        cr_assert_eq(stat_get(COUNTER_CONTEXT_ATTRIBUTES_MALFORMED), 1);
        cr_assert_eq(stat_get(COUNTER_CONTEXT_PRESENT), 0);
        window = rotate(&bench, 5000);
        window_get_sample(window, 0, 0, &row);
        cr_assert_eq(row.link, 0);
        cr_assert_str_eq(text(window, attribute(window, row.attributes, "k0000")->string), "v");
        window_free(window);
        bench_deinit(&bench);
}

Test(aggregate, says_why_a_stack_is_not_whole) {
        static const struct {
                enum abi_stack_end end;
                const char *reason;
                enum counter counter;
        } cases[] = {
                { ABI_STACK_COMPLETE, NULL, COUNTER_STACKS_COMPLETE },
                { ABI_STACK_NO_USER, NULL, COUNTER_STACKS_NO_USER },
                { ABI_STACK_NO_MAPPING, "no_mapping", COUNTER_STACKS_NO_MAPPING },
                { ABI_STACK_NO_ROWS, "no_rows", COUNTER_STACKS_NO_ROWS },
                { ABI_STACK_FAULT, "fault", COUNTER_STACKS_FAULT },
                { ABI_STACK_BAD_CFA, "bad_cfa", COUNTER_STACKS_BAD_CFA },
                { ABI_STACK_UNSUPPORTED, "unsupported", COUNTER_STACKS_UNSUPPORTED },
                { ABI_STACK_DEPTH, "depth", COUNTER_STACKS_DEPTH },
                { ABI_STACK_FP_END, "fp_end", COUNTER_STACKS_FP_END },
                { ABI_STACK_STALE, "stale", COUNTER_STACKS_STALE },
                { ABI_STACK_INTERNAL, "internal", COUNTER_STACKS_INTERNAL },
                { ABI_STACK_PENDING, "pending", COUNTER_STACKS_PENDING },
                { ABI_STACK_LONG, "long", COUNTER_STACKS_LONG },
                { ABI_STACK_MALFORMED, "malformed", COUNTER_STACKS_MALFORMED },
                { ABI_STACK_RUNTIME, "runtime", COUNTER_STACKS_RUNTIME },
                { ABI_STACK_UNPROVED, "unproved", COUNTER_STACKS_UNPROVED },
        };
        Bench bench;

        bench_init(&bench);
        cr_assert_eq(sizeof(cases) / sizeof(*cases), ABI_STACK_END_N);
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct abi_sample cut = sample(2000);
                const WindowAttribute *reason;
                WindowSample row;
                Window *window;

                cut.stack_end = (uint8_t)cases[i].end;
                add(&bench, &cut);
                window = rotate(&bench, 5000);
                window_get_sample(window, 0, 0, &row);
                reason = attribute(window, row.attributes, "profile.stack.truncated");
                cr_assert_eq(!reason, !cases[i].reason, "end %d", cases[i].end);
                if (reason)
                        cr_assert_str_eq(text(window, reason->string), cases[i].reason);
                cr_assert_eq(stat_get(cases[i].counter), 1, "end %d", cases[i].end);
                window_free(window);
        }
        bench_deinit(&bench);
}

/* The counters of stacks and contexts are of ticks. */
Test(aggregate, counts_no_stack_of_an_allocation) {
        static const struct abi_allocation allocation = { 0x7000, 64 };
        static const uint64_t user[] = { 0x401000 };
        struct abi_sample header = sample(2000);
        Sample told = { .header = &header, .user = user, .allocation = &allocation };
        Bench bench;

        bench_init(&bench);
        header.kind = ABI_KIND_ALLOC;
        header.n_kernel = 0;
        header.value = 512;
        header.stack_end = ABI_STACK_FAULT;
        cr_assert_eq(add_sample(&bench, &told), 0);
        cr_assert_eq(stat_get(COUNTER_STACKS_FAULT), 0);
        cr_assert_eq(stat_get(COUNTER_CONTEXT_UNPUBLISHED), 0);
        told.allocation = NULL;
        header.kind = ABI_KIND_CPU;
        cr_assert_eq(add_sample(&bench, &told), 0);
        cr_assert_eq(stat_get(COUNTER_STACKS_FAULT), 1);
        window_free(rotate(&bench, 5000));
        bench_deinit(&bench);
}

static int begin_process(void *userdata, uint32_t pid, uint64_t generation) {
        return 0;
}

static int add_alive(void *userdata, const LiveAllocation *allocation) {
        Bench *bench = userdata;
        const Program program = { &bench->process, &bench->publication };

        return aggregator_add_live(bench->aggregator, &program, allocation, 2000 + 700 * NS_PER_SEC);
}

/* What is alive is in each window anew, with span and age. Code that is in no file may be other code then. */
Test(aggregate, adds_what_is_alive_to_each_window) {
        const struct abi_allocation allocation = { 0x7000, 64, 1 };
        const uint64_t user[] = { 0x401000 };
        struct abi_sample header = sample(2000);
        const Sample told = { .header = &header, .user = user, .allocation = &allocation };
        Bench bench;
        const LiveVisit visit = { begin_process, add_alive, &bench };
        LiveSet *live;

        bench_init(&bench);
        cr_assert_eq(live_set_new(&live), 0);
        aggregator_set_live(bench.aggregator, live);
        header.kind = ABI_KIND_ALLOC;
        header.value = 512;
        header.context = ABI_CONTEXT_PRESENT;
        header.span = (struct abi_span){ .trace_low = 7, .span = 9 };
        cr_assert_eq(live_set_add(live, &bench.process, &told), 0);
        cr_assert_eq(add_sample(&bench, &told), 0);
        for (uint32_t i = 0; i < 2; i++) {
                _cleanup_(window_freep) Window *window = NULL;
                const uint32_t bytes = i ? 0 : 2;       /* behind the two profiles of what was allocated */
                WindowSample row;

                cr_assert_eq(live_set_visit(live, &visit), 0);
                window = rotate(&bench, 5000 + i);
                cr_assert_eq(window_n_profiles(window), bytes + 2);
                cr_assert_eq(window_get_profile(window, bytes)->type, PROFILE_INUSE_SPACE);
                cr_assert_eq(window_get_profile(window, bytes)->period, 1);
                window_get_sample(window, bytes, 0, &row);
                cr_assert_eq(row.value, 512);
                cr_assert_eq(row.n_times, 0);
                cr_assert_eq(window_get_link(window, row.link)->span_id[7], 9);
                cr_assert_str_eq(text(window, attribute(window, row.attributes, "allocation.age")->string),
                                 "10m");
                cr_assert_str_eq(text(window, attribute(window, row.attributes,
                                                        "profile.stack.truncated")->string), "stale");
                cr_assert_eq(window_get_profile(window, bytes + 1)->type, PROFILE_INUSE_OBJECTS);
                window_get_sample(window, bytes + 1, 0, &row);
                cr_assert_eq(row.value, 8);
        }
        live_set_free(live);
        bench_deinit(&bench);
}

/* The lock is of the time that the thread was blocked; a CPU is what it waited for behind that. */
Test(aggregate, says_which_lock_a_blocked_thread_waited_for) {
        const struct abi_waker nobody = { .kind = WAKER_UNKNOWN };
        const SampleLock lock = { "monitor", "shop.Cart", 4713 };
        const WaitTimes times = { .blocked_ns = 500, .runnable_ns = 20, .end_ns = START_NS + 600,
                                  .weight = WAIT_WEIGHT_ONE, .waker = &nobody, .lock = &lock };
        struct abi_sample header = sample(START_NS + 1);
        _cleanup_(window_freep) Window *window = NULL;
        Sample wait = { .header = &header };
        Program program;
        Bench bench;

        bench_init(&bench);
        header.kind = ABI_KIND_OFF_CPU;
        header.n_user = 0;
        program = (Program){ &bench.process, &bench.publication };
        cr_assert_eq(aggregator_add_wait(bench.aggregator, &program, &wait, "futex", &times), 0);
        window = rotate(&bench, START_NS + 1000);
        cr_assert_eq(window_get_profile(window, 0)->n_samples, 2);
        for (uint32_t i = 0; i < 2; i++) {
                WindowSample found;
                const WindowAttribute *state;

                window_get_sample(window, 0, i, &found);
                state = attribute(window, found.attributes, "wait.state");
                if (!strcmp(text(window, state->string), "runnable")) {
                        cr_expect_null(attribute(window, found.attributes, "wait.lock.kind"));
                        continue;
                }
                cr_expect_str_eq(text(window, attribute(window, found.attributes, "wait.lock.kind")->string),
                                 "monitor");
                cr_expect_str_eq(text(window, attribute(window, found.attributes, "wait.lock.class")->string),
                                 "shop.Cart");
                cr_expect_eq(attribute(window, found.attributes, "wait.lock.owner.thread.id")->integer, 4713);
        }
        bench_deinit(&bench);
}

Test(aggregate, describes_the_process_anew_in_each_window) {
        Bench bench;

        bench_init(&bench);
        for (int i = 0; i < 2; i++) {
                struct abi_sample one = sample(2000);
                const uint32_t *members;
                bool has_pid = false;
                Window *window;
                size_t n;

                add(&bench, &one);
                window = rotate(&bench, 5000);
                members = window_get_resource(window, window_get_profile(window, 0)->resource, &n);
                for (size_t j = 0; j < n; j++) {
                        const WindowAttribute *row = window_get_attribute(window, members[j]);

                        has_pid |= !strcmp(text(window, row->key), "process.pid") && row->integer == 4711;
                }
                cr_assert(has_pid, "window %d", i);
                window_free(window);
        }
        bench_deinit(&bench);
}

Test(aggregate, keeps_two_programs_of_one_process_apart) {
        struct abi_sample one = sample(2000), two = sample(3000);
        Window *window;
        Bench bench;

        bench_init(&bench);
        add(&bench, &one);
        bench.process.generation = 2;   /* exec */
        bench.process.exe = (char *)"/usr/bin/other";
        add(&bench, &two);
        window = rotate(&bench, 5000);
        cr_assert_eq(window_n_profiles(window), 2);
        cr_assert_neq(window_get_profile(window, 0)->resource, window_get_profile(window, 1)->resource);
        window_free(window);
        bench_deinit(&bench);
}

Test(aggregate, gives_a_program_that_executes_itself_one_resource) {
        struct abi_sample one = sample(2000), two = sample(3000);
        Window *window;
        Bench bench;

        bench_init(&bench);
        add(&bench, &one);
        bench.process.generation = 2;
        add(&bench, &two);
        window = rotate(&bench, 5000);
        cr_assert_eq(window_n_profiles(window), 1);
        cr_assert_eq(window_n_events(window), 2);
        window_free(window);
        bench_deinit(&bench);
}

/* A sample of a new thread is a new set of attributes. */
static void add_kind_of_thread(Bench *bench, enum abi_kind kind, uint32_t pid, uint64_t generation,
                               uint32_t tid) {
        struct abi_sample header = sample(2000);

        bench->process.pid = pid;
        bench->process.generation = generation;
        header.kind = (uint8_t)kind;
        header.tgid = pid;
        header.tid = tid;
        add(bench, &header);
}

static void add_of_thread(Bench *bench, uint32_t pid, uint64_t generation, uint32_t tid) {
        add_kind_of_thread(bench, ABI_KIND_CPU, pid, generation, tid);
}

Test(aggregate, a_process_that_fills_a_window_leaves_room_for_others) {
        const uint32_t nobody = 1 << 30, all = 70000, few = 2000;
        uint64_t n_lost;
        Window *window;
        Bench bench;

        bench_init(&bench);
        for (uint32_t i = 1; i <= all; i++)
                add_of_thread(&bench, nobody, 1, i);
        n_lost = stat_get(COUNTER_LOST_WINDOW_FULL);
        cr_assert_gt(n_lost, 0);
        cr_assert_lt(n_lost, all / 3, "three quarters are anybody's");
        for (uint32_t i = 1; i <= few; i++)
                add_of_thread(&bench, (uint32_t)getpid(), 2, i);
        cr_assert_eq(stat_get(COUNTER_LOST_WINDOW_FULL), n_lost, "none of the other");
        add_of_thread(&bench, nobody, 1, all + 1);
        cr_assert_eq(stat_get(COUNTER_LOST_WINDOW_FULL), n_lost + 1);
        add_of_thread(&bench, nobody, 1, 1);
        cr_assert_eq(stat_get(COUNTER_LOST_WINDOW_FULL), n_lost + 1, "what is there is found");
        window = rotate(&bench, 5000);
        cr_assert_eq(window_n_events(window), all - n_lost + few + 1);
        window_free(window);
        add_of_thread(&bench, nobody, 1, all + 1);
        cr_assert_eq(stat_get(COUNTER_LOST_WINDOW_FULL), n_lost + 1, "the next window is empty");
        bench_deinit(&bench);
}

/* The flight recorder's are not held against it. */
Test(aggregate, a_process_with_many_fine_ticks_has_the_room_that_it_would_have_without) {
        const uint32_t nobody = 1 << 30, all = 30000, others = 16000, own = 11000;
        uint64_t n_lost;
        Bench bench;

        bench_init(&bench);
        for (uint32_t i = 1; i <= all; i++)
                add_kind_of_thread(&bench, ABI_KIND_FINE, nobody, 1, i);
        n_lost = stat_get(COUNTER_FINE_WINDOW_FULL);
        cr_assert_gt(n_lost, all / 10, "it leaves some of the half, too");
        cr_assert_lt(n_lost, all / 4);
        for (uint32_t i = 1; i <= others; i++)
                add_of_thread(&bench, (uint32_t)getpid(), 2, all + i);
        for (uint32_t i = 1; i <= own; i++)
                add_of_thread(&bench, nobody, 1, all + others + i);
        cr_assert_eq(stat_get(COUNTER_LOST_WINDOW_FULL), 0);
        add_kind_of_thread(&bench, ABI_KIND_FINE, (uint32_t)getpid(), 2, all + others + own + 1);
        cr_assert_eq(stat_get(COUNTER_FINE_WINDOW_FULL), n_lost + 1, "half is full");
        bench_deinit(&bench);
}

/* A thousand values of each of its keys are a process' own; all of them would be too many for others. */
Test(aggregate, a_process_that_fills_the_table_of_values_leaves_room_for_others) {
        enum { KEYS = 70, VALUES = 1000 };
        const uint32_t nobody = 1 << 30;        /* one that lives could have the owner of this one */
        char label[] = "\3\3k00v00";
        WindowSample row;
        Window *window;
        Bench bench;

        bench_init(&bench);
        bench.process.pid = nobody;
        for (int i = 0; i < KEYS * VALUES; i++) {
                snprintf(label + 2, 4, "k%02d", i / VALUES);
                snprintf(label + 5, 4, "%03d", i % VALUES);
                add_labels(&bench, label, 8);
        }
        cr_assert_gt(stat_get(COUNTER_CONTEXT_ATTRIBUTES_OVERFLOW), 0);
        bench.process.pid = (uint32_t)getpid();
        bench.process.generation = 2;
        add_labels(&bench, "\3\5k00plain", 10);
        window = rotate(&bench, 5000);
        cr_assert_eq(window_n_profiles(window), 2);
        window_get_sample(window, 1, 0, &row);
        cr_assert_str_eq(text(window, attribute(window, row.attributes, "k00")->string), "plain");
        window_free(window);
        bench_deinit(&bench);
}

/* A sleep of thread @tid; with a weight it was walked, and is in a stack of one frame. */
static int add_sleep(Bench *bench, uint32_t tid, uint64_t ns, uint32_t weight) {
        static const uint64_t user[] = { 0x401000 };
        const struct abi_waker nobody = { .kind = WAKER_UNKNOWN };
        const WaitTimes times = { .blocked_ns = ns, .end_ns = START_NS + 600, .weight = weight,
                                  .waker = &nobody };
        const Program program = { &bench->process, &bench->publication };
        struct abi_sample header = sample(START_NS + 1);
        Sample wait = { .header = &header, .user = user };

        header.kind = ABI_KIND_OFF_CPU;
        header.tid = tid;
        header.n_user = weight != 0;
        return aggregator_add_wait(bench->aggregator, &program, &wait, "sleep", &times);
}

/* Waits that were not drawn are in the stacks of those that were, or in none where their kind has no room. */
Test(aggregate, a_process_with_waits_of_all_kinds_leaves_others_their_stacks) {
        const uint32_t nobody = 1 << 30;        /* one that lives could have the owner of this one */
        WindowSample row;
        Window *window;
        Bench bench;

        bench_init(&bench);
        bench.process.pid = nobody;
        for (uint32_t tid = 1; tid <= WAIT_SPREAD_MAX_KINDS; tid++)
                cr_assert_eq(add_sleep(&bench, tid, 1, 0), 0);
        bench.process.pid = (uint32_t)getpid();
        bench.process.generation = 2;
        cr_assert_eq(add_sleep(&bench, 1, 10, 4 * WAIT_WEIGHT_ONE), 0);
        cr_assert_eq(add_sleep(&bench, 1, 30, 0), 0);
        window = rotate(&bench, 5000);
        cr_assert_eq(window_n_profiles(window), 2);
        cr_assert_eq(window_get_profile(window, 1)->n_samples, 1, "one with a stack, and none without");
        window_get_sample(window, 1, 0, &row);
        cr_expect_neq(row.stack, 0);
        cr_expect_eq(row.value, 40);
        window_free(window);
        bench_deinit(&bench);
}
