/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Recordings that the maker wrote, read into a window. What must come out is said by what was put in; how it was
 * written (integers, strings, order of fields, checkpoints, clock) must not matter.
 */

#include <criterion/criterion.h>
#include <inttypes.h>

#include "jfr-maker.h"
#include "jfr/jfr.h"
#include "jfr/value.h"

#define START_NS UINT64_C(1700000000000000000)
#define SECRET "hunter2-do-not-tell"

static size_t read_bytes(void *userdata, void *to, size_t size, uint64_t offset) {
        const JfrMaker *maker = userdata;

        if (offset >= maker->size)
                return 0;
        if (size > maker->size - offset)
                size = (size_t)(maker->size - offset);
        memcpy(to, maker->data + offset, size);
        return size;
}

typedef struct Read {
        Window *window;
        JfrResult result;
        Text problem, diagnostics;
        int r;
} Read;

static Read read_with(const JfrMaker *maker, JfrOptions options) {
        const JfrInput input = { read_bytes, (void *)maker, maker->size };
        Read read = { 0 };

        if (!options.end_ns)
                options.end_ns = UINT64_MAX;
        cr_assert_eq(window_new(&read.window, 0, 0, NULL), 0);
        read.r = jfr_read(&input, &options, read.window, &read.result, &read.diagnostics, &read.problem);
        cr_assert_geq(read.r, 0);
        cr_assert_eq(window_close(read.window, 0), 0);
        return read;
}

static Read read_all(const JfrMaker *maker) {
        return read_with(maker, (JfrOptions){ .timestamps = true });
}

static void end(JfrMaker *maker, Read *read) {
        window_free(read->window);
        text_deinit(&read->problem);
        text_deinit(&read->diagnostics);
        free(maker->data);
}

static JfrMaker make(void) {
        return (JfrMaker){ .encoding = 3, .n_threads = 2, .n_methods = 5, .n_stacks = 4, .depth = 3, .start_ns = START_NS,
                           .start_ticks = 5000, .ticks_per_second = 1000000000 };
}

/* Sum of the values of the profile of that type; -1 = there is none. */
static int64_t total(const Read *read, const char *type, const char *unit) {
        int64_t sum = -1;

        for (uint32_t i = 0; i < window_n_profiles(read->window); i++) {
                const WindowProfile *profile = window_get_profile(read->window, i);

                if (strcmp(window_get_string(read->window, profile->names.type, NULL), type) ||
                    strcmp(window_get_string(read->window, profile->names.unit, NULL), unit))
                        continue;
                sum = sum < 0 ? 0 : sum;
                for (uint32_t j = 0; j < profile->n_samples; j++) {
                        WindowSample sample;

                        window_get_sample(read->window, i, j, &sample);
                        sum += sample.value;
                }
        }
        return sum;
}

static const char *attribute(const Read *read, uint32_t set, const char *key) {
        const uint32_t *rows;
        size_t n;

        rows = window_get_attribute_set(read->window, set, &n);
        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *row = window_get_attribute(read->window, rows[i]);

                if (!strcmp(window_get_string(read->window, row->key, NULL), key))
                        return window_get_string(read->window, row->string, NULL);
        }
        return "";
}

static bool has_string(const Read *read, const char *part) {
        for (uint32_t i = 0; i < window_n_strings(read->window); i++)
                if (strstr(window_get_string(read->window, i, NULL), part))
                        return true;
        return false;
}

static const char *function_name(const Read *read, const WindowFrame *frame) {
        return window_get_string(read->window, window_get_function(read->window, frame->function)->name, NULL);
}

static WindowSample only_sample(const Read *read) {
        WindowSample sample;

        cr_assert_eq(window_n_profiles(read->window), 1);
        cr_assert_eq(window_get_profile(read->window, 0)->n_samples, 1);
        window_get_sample(read->window, 0, 0, &sample);
        return sample;
}

/* Two of each kind: 1 s of ticks is 1 s whatever the clock. */
static void put_events(JfrMaker *maker) {
        uint64_t t = maker->start_ticks, second = maker->ticks_per_second;

        for (uint64_t i = 0; i < 2; i++, t += second / 10) {
                MAKER_EVENT(maker, MAKER_JDK_EXECUTION, { t }, { 1 }, { 1 }, { 1 });
                MAKER_EVENT(maker, MAKER_DD_EXECUTION, { t }, { 2 }, { 2 }, { 0x1122334455667788 }, { 0x99 }, { 3 },
                            { .text = "/checkout", .number = maker->encoding == 2 });
                MAKER_EVENT(maker, MAKER_DD_METHOD, { t }, { 2 }, { 2 }, { 0x10 }, { 0x99 }, { 7 });
                MAKER_EVENT(maker, MAKER_DD_OBJECT, { t }, { 2 }, { 3 }, { 1 }, { 1000 }, { .real = 2.5 }, { 0x10 }, { 0x99 });
                MAKER_EVENT(maker, MAKER_ENTER, { t }, { second / 2 }, { 1 }, { 4 }, { 2 });
                MAKER_EVENT(maker, MAKER_PARK, { t }, { second / 4 }, { 1 }, { 4 });
                MAKER_EVENT(maker, MAKER_ALLOC_SAMPLE, { t }, { 1 }, { 3 }, { 1 }, { 300 });
                MAKER_EVENT(maker, MAKER_TLAB, { t }, { 1 }, { 3 }, { 1 }, { 16 }, { 2048 });
                MAKER_EVENT(maker, MAKER_WALL, { t }, { 1 }, { 1 }, { 2 }, { 5 });
        }
}

static void put_chunk(JfrMaker *maker) {
        maker_begin_chunk(maker);
        put_events(maker);
        maker_end_chunk(maker);
}

static void check_events(const Read *read) {
        cr_assert_eq(read->r, 0, "%s", read->problem.data);
        cr_expect_eq(total(read, "samples", "count"), 2 * (1 + 3));
        cr_expect_eq(total(read, "wall-samples", "count"), 2 * (7 + 5));
        cr_expect_eq(total(read, "alloc_space", "bytes"), 2 * (2500 + 300 + 2048));
        cr_expect_leq(llabs(total(read, "lock_contention", "nanoseconds") - 2 * (500000000LL + 250000000)), 4);
        cr_expect_eq(window_n_events(read->window), 18);
        cr_expect(has_string(read, "/checkout"));
        cr_expect(has_string(read, "thread-1"));
        cr_expect(has_string(read, "pkg.Class4.method-4(I)V"));
}

/* One chunk of a maker that was just set up, read back. Ends it. */
static void check_chunk(JfrMaker *maker) {
        Read read;

        put_chunk(maker);
        read = read_all(maker);
        check_events(&read);
        end(maker, &read);
}

Test(jfr, reads_the_same_however_it_is_written) {
        for (unsigned way = 0; way < 2 * 2 * 4 * 3 * 3; way++) {
                JfrMaker maker = make();

                maker.plain = way % 2;
                maker.reversed = way / 2 % 2;
                maker.encoding = 2 + (int)(way / 4 % 4);
                maker.n_checkpoints = 1 + way / 16 % 3;
                maker.ticks_per_second = (uint64_t[]){ 1000000000, 2994375000, 1000 }[way / 48];
                maker.minor = maker.plain;
                check_chunk(&maker);
        }
}

/* Some of them fit into what is kept of a frame that was seen before, and some do not. */
Test(jfr, reads_methods_of_any_number) {
        static const uint64_t bases[] = { 1ULL << 31, (1ULL << 32) - 3, (1ULL << 36) - 4, 1ULL << 60, UINT64_MAX - 5 };

        for (size_t i = 0; i < sizeof(bases) / sizeof(*bases); i++) {
                JfrMaker maker = make();

                maker.method_base = bases[i];
                check_chunk(&maker);
        }
}

Test(jfr, joins_chunks_of_different_makers) {
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        maker_end_chunk(&maker);
        maker.plain = maker.reversed = true;
        maker.minor = 1;
        maker.encoding = 4;
        maker.n_threads = 7;
        maker.ticks_per_second = 1000;
        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5007 }, { 1 }, { 1 }, { 1 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(read.r, 0);
        cr_expect_eq(total(&read, "samples", "count"), 2);
        /* the same thread, stack and state: one sample with two times */
        cr_expect_eq(only_sample(&read).n_times, 2);
        cr_expect_eq(only_sample(&read).times_ns[0], START_NS);
        cr_expect_eq(only_sample(&read).times_ns[1], START_NS + 7000000);
        end(&maker, &read);
}

Test(jfr, takes_spans_and_says_where_the_trace_is_from) {
        JfrMaker maker = make();
        const WindowLink *link;
        WindowSample sample;
        Read read;

        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_DD_EXECUTION, { 5000 }, { 2 }, { 2 }, { 0x1122334455667788 }, { 0x99 }, { 3 }, { .text = "/pay" });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        sample = only_sample(&read);
        link = window_get_link(read.window, sample.link);
        cr_expect_arr_eq(link->span_id, ((uint8_t[]){ 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88 }), 8);
        cr_expect_arr_eq(link->trace_id, ((uint8_t[16]){ [15] = 0x99 }), 16);
        cr_expect_str_eq(attribute(&read, sample.attributes, "trace.id.source"), "local_root_span");
        cr_expect_str_eq(attribute(&read, sample.attributes, "endpoint"), "/pay");
        cr_expect_str_eq(attribute(&read, sample.attributes, "profile.type"), "cpu");
        cr_expect_str_eq(attribute(&read, sample.attributes, "jfr.event"), "datadog.ExecutionSample");
        cr_expect_str_eq(attribute(&read, sample.attributes, "thread.name"), "thread-1");
        end(&maker, &read);
}

Test(jfr, keeps_what_a_java_frame_says) {
        JfrMaker maker = make();
        const FrameWord *words;
        WindowFrame frame;
        WindowSample sample;
        size_t n;
        Read read;

        maker.method_base = (1ULL << 36) - 4;           /* the last of them does not fit into a key of known frames */
        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 2 }, { 1 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        sample = only_sample(&read);
        words = window_get_stack(read.window, sample.stack, &n);
        cr_assert_eq(n, 3);
        for (uint32_t f = 0; f < 3; f++) {              /* stack 1 (index 2), leaf first */
                const WindowAttribute *kind;
                char expected[64];

                frame = window_expand_frame(read.window, words[f]);
                snprintf(expected, sizeof(expected), "pkg.Class%u.method-%u", 1 + f, 1 + f);
                cr_expect_str_eq(function_name(&read, &frame), expected);
                cr_expect_eq(frame.line, 10 * f + 1);
                cr_expect_str_eq(window_get_string(read.window, frame.type, NULL), "jvm");
                kind = window_get_attribute(read.window, frame.attribute);
                cr_expect_str_eq(window_get_string(read.window, kind->key, NULL), "jvm.frame.compilation");
                cr_expect_str_eq(window_get_string(read.window, kind->string, NULL), f % 2 ? "jit compiled" : "interpreted");
        }
        end(&maker, &read);
}

Test(jfr, makes_mappings_of_remote_frames_also_without_their_type) {
        for (int missing = 0; missing < 2; missing++) {
                JfrMaker maker = make();
                const WindowModule *module;
                const FrameWord *words;
                WindowFrame frame;
                size_t n;
                Read read;

                maker.remote = true;
                maker.no_remote_type = missing;
                maker_begin_chunk(&maker);
                MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
                MAKER_EVENT(&maker, MAKER_LIBRARY, { 5000 }, { .text = "/usr/lib/libfoo.so" }, { 0x7f0000000000 }, { 0x7f0000100000 },
                            { .text = JFR_MAKER_BUILD_ID }, { 0x7f0000000000 });
                maker_end_chunk(&maker);
                read = read_all(&maker);
                words = window_get_stack(read.window, only_sample(&read).stack, &n);
                cr_assert_eq(n, 3);
                frame = window_expand_frame(read.window, words[0]);
                module = window_get_module(read.window, frame.module);
                cr_expect_eq(frame.address, 0x1f2e0);
                cr_expect_eq(frame.function, 0);
                cr_expect_str_eq(window_get_string(read.window, frame.type, NULL), "native");
                cr_expect_str_eq(window_get_string(read.window, module->build_id_gnu, NULL), JFR_MAKER_BUILD_ID);
                cr_expect_str_eq(window_get_string(read.window, module->path, NULL), "/usr/lib/libfoo.so");
                end(&maker, &read);
        }
}

Test(jfr, never_lets_out_what_the_environment_holds) {
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JVM, { 5000 }, { .text = "OpenJDK" }, { .text = "OpenJDK (17.0.1) for x" },
                    { .text = "-Dpassword=" SECRET " -Dotel.service.name=shop" }, { .text = "Main --token " SECRET }, { 1 }, { 4711 });
        MAKER_EVENT(&maker, MAKER_ENVIRONMENT, { 5000 }, { .text = "DB_PASSWORD" }, { .text = SECRET });
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(total(&read, "samples", "count"), 1);
        cr_expect_not(has_string(&read, SECRET));
        cr_expect_not(has_string(&read, "DB_PASSWORD"));
        cr_expect(has_string(&read, "shop"));
        cr_expect(has_string(&read, "17.0.1"));
        cr_expect_null(strstr(read.diagnostics.data, SECRET));
        window_free(read.window);
        text_deinit(&read.problem);
        text_deinit(&read.diagnostics);

        /* a command line only when it is asked for; the environment never */
        read = read_with(&maker, (JfrOptions){ .arguments = true });
        cr_expect(has_string(&read, "java -Dpassword=" SECRET));
        cr_expect_not(has_string(&read, "DB_PASSWORD"));
        end(&maker, &read);
}

Test(jfr, takes_periods_from_the_settings) {
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        MAKER_EVENT(&maker, MAKER_SETTING, { 5000 }, { MAKER_JDK_EXECUTION }, { .text = "period" }, { .text = "20 ms" });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(window_get_profile(read.window, 0)->period, 20000000);
        end(&maker, &read);
}

Test(jfr, counts_each_event_that_it_reads) {
        JfrMaker maker = make();
        Read read;

        put_chunk(&maker);
        read = read_with(&maker, (JfrOptions){ .start_ns = START_NS + 50000000, .timestamps = true });
        cr_expect_eq(window_n_events(read.window), 9);
        cr_expect_eq(total(&read, "samples", "count"), 4);
        /* read = converted + out of time + failed + no sample */
        cr_expect_not_null(strstr(read.diagnostics.data, "jdk.ExecutionSample "));
        for (const char *line = strstr(read.diagnostics.data, "jdk.ExecutionSample "); line; line = NULL) {
                unsigned long n_read, n_converted, n_late, n_failed, n_other;

                cr_assert_eq(sscanf(line + 44, "%lu %lu %lu %lu %lu", &n_read, &n_converted, &n_late, &n_failed, &n_other), 5);
                cr_expect_eq(n_read, 2);
                cr_expect_eq(n_converted, 1);
                cr_expect_eq(n_late, 1);
                cr_expect_eq(n_failed + n_other, 0);
        }
        end(&maker, &read);

        maker = make();
        put_chunk(&maker);
        read = read_with(&maker, (JfrOptions){ .end_ns = 50000000, .end_relative = true });
        cr_expect_eq(window_n_events(read.window), 9);
        end(&maker, &read);
}

Test(jfr, keeps_sums_when_there_are_too_many_times) {
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        for (uint64_t i = 0; i < 100; i++)
                MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 + i }, { 1 + i % 2 }, { 1 }, { 1 });
        maker_end_chunk(&maker);
        read = read_with(&maker, (JfrOptions){ .timestamps = true, .max_times = 10 });
        cr_expect(read.result.times_dropped);
        cr_expect_eq(total(&read, "samples", "count"), 100);
        for (uint32_t i = 0; i < 2; i++) {
                WindowSample sample;

                window_get_sample(read.window, 0, i, &sample);
                cr_expect_eq(sample.n_times, 0);
                cr_expect_eq(sample.n_events, 50);
        }
        end(&maker, &read);
}

/* Damage: what stands before it is read, the rest costs no more than its bytes. */

Test(jfr, delivers_what_stands_before_a_cut) {
        JfrMaker maker = make();
        uint64_t most = 0;

        maker_begin_chunk(&maker);
        maker_checkpoint(&maker, 0, 1);
        maker_metadata(&maker);
        for (uint64_t i = 0; i < 200; i++)
                MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 + i }, { 1 }, { 1 }, { 1 });
        maker_end_chunk(&maker);
        for (size_t size = maker.size - 1; size > 0; size -= size > 150 ? 149 : 1) {
                JfrMaker cut = maker;
                uint64_t n;
                Read read;

                cut.data = malloc(size);
                memcpy(cut.data, maker.data, size);
                cut.size = size;
                read = read_all(&cut);
                n = window_n_events(read.window);
                cr_expect_eq(read.r, JFR_E_DAMAGED);
                cr_expect_gt(read.problem.size, 0);
                cr_expect_leq(n, 200);
                cr_expect(most == 0 || n <= most, "less of the file gave more events");
                most = n;
                if (size > maker.size - 50)
                        cr_expect_eq(n, 200);
                if (n)
                        cr_expect(has_string(&read, "method-0"), "the constants before the cut are lost");
                end(&cut, &read);
        }
        free(maker.data);
}

Test(jfr, survives_flipped_bits) {
        JfrMaker maker = make();
        uint64_t chance = 88172645463325252;

        maker.remote = true;
        put_chunk(&maker);
        for (int i = 0; i < 3000; i++) {
                JfrMaker broken = maker;
                Read read;

                broken.data = malloc(maker.size);
                memcpy(broken.data, maker.data, maker.size);
                for (int j = 0; j < 1 + i % 4; j++) {
                        chance ^= chance << 13;
                        chance ^= chance >> 7;
                        chance ^= chance << 17;
                        broken.data[chance % maker.size] ^= (uint8_t)(1 << (chance >> 40) % 8);
                }
                read = read_all(&broken);
                /* a wrong size can make several events of one, each as long as its header and time at least */
                cr_expect_leq(window_n_events(read.window), maker.size / 6);
                end(&broken, &read);
        }
        free(maker.data);
}

static Read read_broken(JfrMaker *maker, size_t at, uint64_t value) {
        maker->chunk = 0;
        maker_put64(maker, at, value);
        return read_all(maker);
}

Test(jfr, reads_chunks_whose_header_lies) {
        static const struct {
                size_t at;
                uint64_t value;
                bool damaged;
        } lies[] = {
                { 8, 0, true },                         /* no size: not finished */
                { 8, UINT64_MAX, true },                /* larger than the file */
                { 16, 0, false },                       /* no checkpoint: they are looked for */
                { 16, UINT64_MAX, true },
                { 16, 70, true },
                { 24, 0, true },                        /* no metadata: it is looked for */
                { 24, UINT64_MAX - 3, true },
                { 24, 71, true },
        };

        for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
                JfrMaker maker = make();
                Read read;

                put_chunk(&maker);
                read = read_broken(&maker, lies[i].at, lies[i].value);
                cr_expect_eq(read.r, lies[i].damaged ? JFR_E_DAMAGED : 0, "lie %zu: %s", i, read.problem.data);
                cr_expect_eq(window_n_events(read.window), 18, "lie %zu", i);
                cr_expect(has_string(&read, "method-0"), "lie %zu", i);
                end(&maker, &read);
        }
}

Test(jfr, ends_at_a_checkpoint_that_points_to_itself) {
        JfrMaker maker = make();
        Read read;

        maker.n_checkpoints = 2;
        maker.plain = true;
        put_chunk(&maker);
        /* its delta: behind size (4), type (8), start (8) and duration (8) */
        memset(maker.data + maker.last_checkpoint + 28, 0xFF, 8);
        read = read_all(&maker);
        cr_expect_eq(read.r, JFR_E_DAMAGED);
        cr_expect_eq(window_n_events(read.window), 18);
        end(&maker, &read);
}

Test(jfr, goes_on_with_the_next_chunk_after_a_broken_event) {
        JfrMaker maker = make();
        size_t broken;
        Read read;

        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        broken = maker.size;
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        maker_end_chunk(&maker);
        memcpy(maker.data + broken, "\x00\x64\x64\x64", 4);     /* size 0 */
        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(read.r, JFR_E_DAMAGED);
        cr_expect_eq(window_n_events(read.window), 2);
        {
                char where[32];

                snprintf(where, sizeof(where), "byte %zu", broken);
                cr_expect_not_null(strstr(read.problem.data, where), "%s", read.problem.data);
        }
        end(&maker, &read);
}

/* Metadata of elements within elements, without end. */
Test(jfr, refuses_a_million_nested_elements) {
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        maker_begin(&maker, 0);
        maker_long(&maker, 0);
        maker_long(&maker, 0);
        maker_long(&maker, 1);
        maker_int(&maker, 1);
        maker_text(&maker, "class");
        for (int i = 0; i < 1000000; i++) {
                maker_int(&maker, 0);
                maker_int(&maker, 0);
                maker_int(&maker, 1);
        }
        maker_end(&maker);
        maker_put64(&maker, 8, maker.size);
        maker_put64(&maker, 24, JFR_HEADER_SIZE);
        read = read_all(&maker);
        cr_expect_eq(read.r, JFR_E_DAMAGED);
        cr_expect_eq(window_n_profiles(read.window), 0);
        end(&maker, &read);
}

/* class jdk.ExecutionSample { jdk.ExecutionSample self; … } and what takes exponential time in a naive reader. */
Test(jfr, refuses_types_inside_themselves) {
        static const char *const strings[] = { "root", "metadata", "class", "name", "jdk.ExecutionSample", "id", "200", "field",
                                               "self", "stackTrace" };
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        maker_begin(&maker, 0);
        maker_long(&maker, 0);
        maker_long(&maker, 0);
        maker_long(&maker, 1);
        maker_int(&maker, 10);
        for (int i = 0; i < 10; i++)
                maker_text(&maker, strings[i]);
        for (const uint8_t *p = (const uint8_t[]){ 0, 0, 1, 1, 0, 1, 2, 2, 3, 4, 5, 6, 2, 7, 2, 3, 8, 2, 6, 0, 7, 2, 3, 9, 2, 6, 0, 255 }; *p != 255; p++)
                maker_int(&maker, *p);
        maker_end(&maker);
        maker_begin(&maker, 200);
        maker_long(&maker, 1);
        maker_end(&maker);
        maker_put64(&maker, 8, maker.size);
        maker_put64(&maker, 24, JFR_HEADER_SIZE);
        read = read_all(&maker);
        cr_expect_eq(read.r, JFR_E_DAMAGED);
        cr_expect_eq(window_n_events(read.window), 0);
        end(&maker, &read);
}

Test(jfr, says_which_version_it_cannot_read) {
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        maker_end_chunk(&maker);
        maker.data[5] = 3;
        read = read_all(&maker);
        cr_expect_eq(read.r, JFR_E_DAMAGED);
        cr_expect_not_null(strstr(read.problem.data, "version 3.0"), "%s", read.problem.data);
        end(&maker, &read);
}

/* As they stand in recordings: seven bits a byte, lowest first; a ninth byte has eight. */
Test(jfr, reads_integers_of_every_length) {
        static const struct {
                uint8_t bytes[JFR_MAX_INTEGER];
                size_t n;
                uint64_t value;
        } cases[] = {
                { { 0x00 }, 1, 0 },
                { { 0x7F }, 1, 0x7F },
                { { 0x80, 0x01 }, 2, 0x80 },
                { { 0x81, 0x00 }, 2, 1 },               /* longer than it had to be */
                { { 0xFF, 0x7F }, 2, 0x3FFF },
                { { 0x80, 0x80, 0x01 }, 3, 0x4000 },
                { { 0x81, 0x82, 0x83, 0x04 }, 4, 1 | 2 << 7 | 3 << 14 | 4 << 21 },
                { { 0xFF, 0xFF, 0xFF, 0xFF, 0x0F }, 5, 0xFFFFFFFF },
                { { 0x80, 0x80, 0x80, 0x80, 0x80, 0x7F }, 6, UINT64_C(0x7F) << 35 },
                { { 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x55 }, 7, 1 | UINT64_C(0x55) << 42 },
                { { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F }, 8, UINT64_MAX >> 8 },
                { { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00 }, 9, 0 },
                { { 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80 }, 9, 1 | UINT64_C(0x80) << 56 },
                { { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF }, 9, UINT64_MAX },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                uint8_t bytes[2 * JFR_MAX_INTEGER];
                const uint8_t *at = bytes;
                JfrCursor cursor = { bytes, bytes + cases[i].n, true, false };

                /* what follows must not count, whether it looks like more of it or not */
                memset(bytes, i % 2 ? 0xFF : 0, sizeof(bytes));
                memcpy(bytes, cases[i].bytes, cases[i].n);
                cr_expect_eq(jfr_quick_compressed(&at), cases[i].value, "case %zu", i);
                cr_expect_eq(at - bytes, (ptrdiff_t)cases[i].n, "case %zu", i);
                cr_expect_eq(jfr_compressed(&cursor), cases[i].value, "case %zu", i);
                cr_expect(!cursor.failed && cursor.at == cursor.end);
                cursor = (JfrCursor){ bytes, bytes + cases[i].n - 1, true, false };
                jfr_compressed(&cursor);
                cr_expect(cursor.failed, "case %zu, a byte short", i);
        }
}
