/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Recordings that the maker wrote, read into a window. What must come out is said by what was put in; how it
 * was written (integers, strings, order of fields, checkpoints, clock) must not matter.
 */

#include "jfr-read.h"

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

static const char *function_name(const Read *read, const WindowFrame *frame) {
        return window_get_string(read->window, window_get_function(read->window, frame->function)->name,
                                 NULL);
}

static WindowSample only_sample(const Read *read) {
        WindowSample sample;

        cr_assert_eq(window_n_profiles(read->window), 1);
        cr_assert_eq(window_get_profile(read->window, 0)->n_samples, 1);
        window_get_sample(read->window, 0, 0, &sample);
        return sample;
}

static void check_events(const Read *read) {
        cr_assert_eq(read->r, 0, "%s", read->problem.data);
        cr_expect_eq(total(read, "samples", "count"), 2 * 3);
        cr_expect_eq(total(read, "execution_samples", "count"), 2);
        cr_expect_eq(total(read, "wall", "count"), 2 * 5);
        cr_expect_eq(total(read, "datadog_wall_samples", "count"), 2 * 7);
        cr_expect_eq(total(read, "alloc_space", "bytes"), 2 * 2048);
        cr_expect_eq(total(read, "datadog_alloc_space", "bytes"), 2 * 2500);
        cr_expect_eq(total(read, "sampled_alloc_space", "bytes"), 2 * 300);
        cr_expect_leq(llabs(total(read, "lock_contention", "nanoseconds") - 2 * (500000000LL + 250000000)),
                      4);
        cr_expect_eq(window_n_events(read->window), 18);
        cr_expect_eq(read->result.n_stackless, 0);
        cr_expect_eq(read->result.n_frames_missing, 0);
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
        for (unsigned way = 0; way < 2 * 2 * 4 * 3 * 3 * 4; way++) {
                JfrMaker maker = make();

                maker.plain = way % 2;
                maker.reversed = way / 2 % 2;
                maker.encoding = 2 + (int)(way / 4 % 4);
                maker.n_checkpoints = 1 + way / 16 % 3;
                maker.ticks_per_second = (uint64_t[]){ 1000000000, 2994375000, 1000 }[way / 48 % 3];
                maker.inlined = way / 144 % 2;
                maker.by_reference = way / 288;
                maker.minor = maker.plain;
                check_chunk(&maker);
        }
}

/* Some of them fit into what is kept of a frame that was seen before, and some do not. */
Test(jfr, reads_methods_of_any_number) {
        static const uint64_t bases[] = { 1ULL << 31, (1ULL << 32) - 3, (1ULL << 36) - 4, 1ULL << 60,
                                          UINT64_MAX - 5 };

        for (size_t i = 0; i < sizeof(bases) / sizeof(*bases); i++) {
                JfrMaker maker = make();

                maker.method_base = bases[i];
                check_chunk(&maker);
        }
}

static uint32_t frames_of(const Read *read, uint32_t stack) {
        size_t n;

        window_get_stack(read->window, stack, &n);
        return (uint32_t)n;
}

/* Frames in a pool of their own, as the writer of JDK Mission Control has them. */
Test(jfr, reads_the_frames_that_a_stack_refers_to) {
        JfrMaker maker = make();
        const FrameWord *words;
        WindowFrame frame;
        size_t n;
        Read read;

        maker.by_reference = true;
        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 4 }, { 1 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        words = window_get_stack(read.window, only_sample(&read).stack, &n);
        cr_assert_eq(n, 3);
        frame = window_expand_frame(read.window, words[1]);
        cr_expect_str_eq(function_name(&read, &frame), "pkg.Class4.method-4");
        cr_expect_eq(frame.line, 11);
        end(&maker, &read);
}

/* Each event whose stack is nowhere counts, and the rest of what it says stays. */
Test(jfr, counts_samples_whose_stack_is_nowhere) {
        JfrMaker maker = make();
        const uint64_t null_of_mission_control = UINT64_C(1) << 63;
        Read read;

        maker_begin_chunk(&maker);
        for (uint64_t i = 0; i < 3; i++)
                MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 + i }, { 1 }, { 77 }, { 1 });
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 0 }, { 1 });
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { null_of_mission_control }, { 1 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(total(&read, "samples", "count"), 6);
        cr_expect_eq(read.result.n_stackless, 3);
        end(&maker, &read);
}

Test(jfr, counts_samples_whose_stack_has_no_frames) {
        JfrMaker maker = make();
        Read read;

        maker.depth = 0;
        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(read.result.n_stackless, 1);
        end(&maker, &read);
}

/* The frame stays in the stack, without a name. */
Test(jfr, counts_frames_whose_method_is_nowhere) {
        JfrMaker maker = make();
        WindowSample sample;
        Read read;

        maker.stray_methods = 2;
        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        sample = only_sample(&read);
        cr_expect_eq(frames_of(&read, sample.stack), 3);
        cr_expect_eq(read.result.n_frames_missing, 2);
        end(&maker, &read);
}

/* Constants of one class that are two things at once: what one became is not taken for the other. */
Test(jfr, takes_no_stack_for_a_method) {
        JfrMaker maker = make();
        Read read;

        maker.methods_are_stacks = true;
        maker.n_stacks = maker.n_methods = 300;
        maker.depth = 2;
        maker_begin_chunk(&maker);
        for (uint64_t i = 0; i < 300; i++)
                MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 300 - i }, { 1 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(read.r, 0);
        cr_expect_eq(total(&read, "samples", "count"), 300);
        cr_expect_not(has_string(&read, "method-"));
        end(&maker, &read);
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
        MAKER_EVENT(&maker, MAKER_DD_EXECUTION, { 5000 }, { 2 }, { 2 }, { 0x1122334455667788 }, { 0x99 },
                    { 3 }, { .text = "/pay" });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        sample = only_sample(&read);
        link = window_get_link(read.window, sample.link);
        cr_expect_arr_eq(link->span_id, ((uint8_t[]){ 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88 }), 8);
        cr_expect_arr_eq(link->trace_id, ((uint8_t[16]){ [15] = 0x99 }), 16);
        cr_expect_str_eq(attribute(&read, sample.attributes, "datadog.local_root_span_id"),
                         "0000000000000099");
        cr_expect_str_eq(attribute(&read, sample.attributes, "endpoint"), "/pay");
        cr_expect_str_eq(attribute(&read, sample.attributes, "profile.type"), "cpu");
        cr_expect_str_eq(attribute(&read, sample.attributes, "jfr.event"), "datadog.ExecutionSample");
        cr_expect_str_eq(attribute(&read, sample.attributes, "thread.name"), "thread-1");
        end(&maker, &read);
}

/* What tells events apart is looked at as bytes, of numbers of one byte to nine, and in batches. */
Test(jfr, tells_events_apart_by_numbers_of_every_length) {
        JfrMaker maker = make();
        uint32_t n[64] = { 0 };
        Read read;

        maker_begin_chunk(&maker);
        for (uint64_t i = 0; i < 3 * 64 * 2; i++)
                MAKER_EVENT(&maker, MAKER_DD_METHOD, { 6000 + i }, { 1 + i / 64 % 2 }, { 1 },
                            { UINT64_C(1) << i % 64 }, { UINT64_C(1) << (63 - i % 64) }, { 5 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_assert_eq(read.r, 0, "%s", read.problem.data);
        cr_assert_eq(window_n_profiles(read.window), 1);
        cr_assert_eq(window_get_profile(read.window, 0)->n_samples, 64 * 2);
        for (uint32_t i = 0; i < 64 * 2; i++) {
                const WindowLink *link;
                WindowSample sample;
                uint64_t span = 0, root = 0;

                window_get_sample(read.window, 0, i, &sample);
                cr_expect_eq(sample.value, 3 * 5);
                link = window_get_link(read.window, sample.link);
                for (int j = 0; j < 8; j++) {
                        span = span << 8 | link->span_id[j];
                        root = root << 8 | link->trace_id[8 + j];
                }
                cr_expect_eq(__builtin_popcountll(span), 1);
                cr_expect_eq(root, UINT64_C(1) << 63 >> __builtin_ctzll(span));
                n[__builtin_ctzll(span)]++;
        }
        for (int i = 0; i < 64; i++)
                cr_expect_eq(n[i], 2, "span %d: of %u threads", i, n[i]);
        end(&maker, &read);
}

Test(jfr, keeps_what_a_java_frame_says) {
        JfrMaker maker = make();
        const FrameWord *words;
        WindowFrame frame;
        WindowSample sample;
        size_t n;
        Read read;

        /* the last of them does not fit into a key of known frames */
        maker.method_base = (1ULL << 36) - 4;
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
                cr_expect_str_eq(window_get_string(read.window, kind->string, NULL),
                                 f % 2 ? "jit compiled" : "interpreted");
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
                MAKER_EVENT(&maker, MAKER_LIBRARY, { 5000 }, { .text = "/usr/lib/libfoo.so" },
                            { 0x7f0000000000 }, { 0x7f0000100000 }, { .text = JFR_MAKER_BUILD_ID },
                            { 0x7f0000000000 });
                maker_end_chunk(&maker);
                read = read_all(&maker);
                words = window_get_stack(read.window, only_sample(&read).stack, &n);
                cr_assert_eq(n, 3);
                frame = window_expand_frame(read.window, words[0]);
                module = window_get_module(read.window, frame.module);
                cr_expect_eq(frame.address, 0x1f2e0);
                cr_expect_eq(frame.function, 0);
                cr_expect_str_eq(window_get_string(read.window, frame.type, NULL), "native");
                cr_expect_str_eq(window_get_string(read.window, module->build_id_gnu, NULL),
                                 JFR_MAKER_BUILD_ID);
                cr_expect_str_eq(window_get_string(read.window, module->path, NULL), "/usr/lib/libfoo.so");
                end(&maker, &read);
        }
}

/* Class, method and descriptor as several releases of profilers write them. */
Test(jfr, knows_remote_frames_in_each_spelling) {
        static const struct {
                const char *names[3];
                uint64_t address;       /* 0 = it is none */
        } cases[] = {
                { { JFR_MAKER_BUILD_ID, "<remote>", "(0x1234)" }, 0x1234 },
                { { JFR_MAKER_BUILD_ID ".<remote>", "<remote>", "(0x1234)" }, 0x1234 },
                { { JFR_MAKER_BUILD_ID ".<remote>", "", "(0x5678)" }, 0x5678 },
                { { "C0FFEE00112233445566778899AABBCCDDEEFF00.<remote>", "", "0x5678" }, 0x5678 },
                { { JFR_MAKER_BUILD_ID, "<remote>", "0xfffffffffff" }, 0xfffffffffff },
                { { "", "<remote>", "0x99" }, 0 },
                { { ".<remote>", "", "0x99" }, 0 },
                { { JFR_MAKER_BUILD_ID, "", "(0x5678)" }, 0 },
                { { JFR_MAKER_BUILD_ID ".<remote>", "memcpy", "(0x5678)" }, 0 },
                { { JFR_MAKER_BUILD_ID, "<remote>", "zzz" }, 0 },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                JfrMaker maker = make();
                const FrameWord *words;
                WindowFrame frame;
                size_t n;
                Read read;

                maker.remote = true;
                memcpy(maker.remote_names, cases[i].names, sizeof(maker.remote_names));
                maker_begin_chunk(&maker);
                MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
                maker_end_chunk(&maker);
                read = read_all(&maker);
                words = window_get_stack(read.window, only_sample(&read).stack, &n);
                cr_assert_eq(n, 3);
                frame = window_expand_frame(read.window, words[0]);
                cr_expect_eq(frame.address, cases[i].address, "case %zu", i);
                cr_expect_eq(frame.module != 0, cases[i].address != 0, "case %zu", i);
                if (cases[i].address)
                        cr_expect_str_eq(
                                window_get_string(
                                        read.window,
                                        window_get_module(read.window, frame.module)->build_id_gnu, NULL),
                                JFR_MAKER_BUILD_ID, "case %zu", i);
                end(&maker, &read);
        }
}

/* The address differs from run to run, so that two recordings would have no function in common. */
Test(jfr, cuts_addresses_from_names_of_hidden_classes) {
        static const struct {
                const char *class, *function;
        } cases[] = { { "a/Main$$Lambda$14+0x0000000800c03000", "a.Main$$Lambda.run" },
                      { "a/Main$$Lambda/0x00007fcaa0001800", "a.Main$$Lambda.run" },
                      { "jdk/proxy2/$Proxy11", "jdk.proxy.$Proxy.run" },
                      { "a/Main$1", "a.Main$1.run" } };

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                JfrMaker maker = make();
                const WindowFunction *function;
                const FrameWord *words;
                WindowSample sample;
                WindowFrame frame;
                size_t n;
                Read read;

                maker.remote = true;
                maker.remote_names[0] = cases[i].class;
                maker.remote_names[1] = "run";
                maker.remote_names[2] = "()V";
                maker_begin_chunk(&maker);
                MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
                MAKER_EVENT(&maker, MAKER_ALLOC_SAMPLE, { 5000 }, { 1 }, { 1 }, { 1 }, { 300 });
                maker_end_chunk(&maker);
                read = read_all(&maker);
                cr_assert_eq(read.r, 0, "%s", read.problem.data);
                window_get_sample(read.window, 0, 0, &sample);
                words = window_get_stack(read.window, sample.stack, &n);
                cr_assert_eq(n, 3);
                frame = window_expand_frame(read.window, words[0]);
                function = window_get_function(read.window, frame.function);
                cr_expect_str_eq(window_get_string(read.window, function->name, NULL), cases[i].function);
                cr_expect(!has_string(&read, "0x0000"));
                window_get_sample(read.window, 1, 0, &sample);
                cr_expect_eq(strlen(attribute(&read, sample.attributes, "jvm.object.class")),
                             strlen(cases[i].function) - strlen(".run"));
                end(&maker, &read);
        }
}

/* Sum of the samples of a profile that have a value of an attribute. */
static int64_t total_with(const Read *read, const char *type, const char *key, const char *value) {
        int64_t sum = 0;

        for (uint32_t i = 0; i < window_n_profiles(read->window); i++) {
                const WindowProfile *profile = window_get_profile(read->window, i);

                if (strcmp(window_get_string(read->window, profile->names.type, NULL), type))
                        continue;
                for (uint32_t j = 0; j < profile->n_samples; j++) {
                        WindowSample sample;

                        window_get_sample(read->window, i, j, &sample);
                        if (!strcmp(attribute(read, sample.attributes, key), value))
                                sum += sample.value;
                }
        }
        return sum;
}

/* Texts of these events are no attributes that a profiler added: a path or a message may hold a secret. */
Test(jfr, makes_waits_exceptions_and_live_objects_of_events_of_the_jdk) {
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_FILE_READ, { 5000 }, { 7000 }, { 1 }, { 1 }, { .text = "/" SECRET }, { 9 });
        MAKER_EVENT(&maker, MAKER_FILE_READ, { 6000 }, { 500 }, { 1 }, { 2 }, { .text = "/tmp" }, { 9 });
        MAKER_EVENT(&maker, MAKER_SOCKET_WRITE, { 6000 }, { 40 }, { 1 }, { 1 }, { .text = SECRET }, { 9 });
        MAKER_EVENT(&maker, MAKER_SLEEP, { 6000 }, { 3 }, { 1 }, { 1 }, { 77 });
        MAKER_EVENT(&maker, MAKER_PINNED, { 6000 }, { 20000 }, { 1 }, { 1 });
        for (uint64_t i = 0; i < 5; i++)
                MAKER_EVENT(&maker, MAKER_THROW, { 6000 }, { 1 }, { 1 }, { .text = SECRET }, { 1 + i / 3 });
        for (uint64_t i = 0; i < 4; i++)
                MAKER_EVENT(&maker, MAKER_OLD_OBJECT, { 6000 }, { 1 }, { 1 + i % 2 }, { 4000 }, { 64 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_assert_eq(read.r, 0, "%s", read.problem.data);
        cr_expect_eq(total(&read, "off_cpu", "nanoseconds"), 27543);
        cr_expect_eq(total_with(&read, "off_cpu", "wait.reason", "read"), 7500);
        cr_expect_eq(total_with(&read, "off_cpu", "wait.file.kind", "file"), 7500);
        cr_expect_eq(total_with(&read, "off_cpu", "wait.reason", "write"), 40);
        cr_expect_eq(total_with(&read, "off_cpu", "wait.file.kind", "socket"), 40);
        cr_expect_eq(total_with(&read, "off_cpu", "wait.reason", "sleep"), 3);
        cr_expect_eq(total_with(&read, "off_cpu", "wait.reason", "pinned"), 20000);
        cr_expect_eq(total_with(&read, "off_cpu", "wait.state", "blocked"), 27543);
        cr_expect_eq(total(&read, "exceptions", "count"), 5);
        cr_expect_eq(total_with(&read, "exceptions", "exception.type", "pkg.Class0"), 3);
        cr_expect_eq(total_with(&read, "exceptions", "exception.type", "pkg.Class1"), 2);
        cr_expect_eq(total(&read, "inuse_objects", "count"), 4);
        cr_expect_eq(read.result.n_left, 0);
        cr_expect_not(has_string(&read, SECRET));
        end(&maker, &read);
}

Test(jfr, says_which_events_with_stacks_are_in_no_profile) {
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        for (uint64_t i = 0; i < 3; i++)
                MAKER_EVENT(&maker, MAKER_CLASS_LOAD, { 5000 }, { 7000 }, { 1 }, { 1 });
        MAKER_EVENT(&maker, MAKER_CPU_LOAD, { 5000 }, { .real = 0.5 });
        MAKER_EVENT(&maker, MAKER_SLEEP, { 6000 }, { 3 }, { 1 }, { 1 }, { 77 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(read.result.n_left, 3);
        cr_expect_eq(read.result.n_left_types, 1);
        cr_expect_str_eq(read.result.left[0].name, "jdk.ClassLoad");
        cr_expect_eq(read.result.left[0].n, 3);
        end(&maker, &read);
}

/* Whatever came first in the recording. */
Test(jfr, puts_time_of_cpus_before_waits_locks_and_allocations) {
        /* of two that measure the same the one that came first is first */
        static const char *const types[] = { "samples",     "wall",        "off_cpu", "lock_contention",
                                             "sampled_alloc_space", "alloc_space", "exceptions" };
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_THROW, { 6000 }, { 1 }, { 1 }, { .text = "" }, { 1 });
        MAKER_EVENT(&maker, MAKER_ALLOC_SAMPLE, { 5000 }, { 1 }, { 3 }, { 1 }, { 300 });
        MAKER_EVENT(&maker, MAKER_TLAB, { 5000 }, { 1 }, { 3 }, { 1 }, { 16 }, { 2048 });
        MAKER_EVENT(&maker, MAKER_PARK, { 5000 }, { 20 }, { 1 }, { 4 });
        MAKER_EVENT(&maker, MAKER_SLEEP, { 6000 }, { 3 }, { 1 }, { 1 }, { 77 });
        MAKER_EVENT(&maker, MAKER_WALL, { 5000 }, { 1 }, { 1 }, { 2 }, { 5 });
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 4 }, { 1 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_assert_eq(window_order_profiles(read.window, jfr_profile_rank), 0);
        cr_assert_eq(window_n_profiles(read.window), sizeof(types) / sizeof(*types));
        for (uint32_t i = 0; i < 7; i++) {
                const WindowProfile *profile = window_get_profile(read.window, i);
                const char *type = window_get_string(read.window, profile->names.type, NULL);

                cr_expect_str_eq(type, types[i]);
        }
        /* samples went with their profiles */
        cr_expect_eq(total(&read, "samples", "count"), 1);
        cr_expect_eq(total(&read, "wall", "count"), 5);
        cr_expect_eq(total(&read, "off_cpu", "nanoseconds"), 3);
        cr_expect_eq(total(&read, "lock_contention", "nanoseconds"), 20);
        cr_expect_eq(total(&read, "alloc_space", "bytes"), 2048);
        cr_expect_eq(total(&read, "sampled_alloc_space", "bytes"), 300);
        cr_expect_eq(total(&read, "exceptions", "count"), 1);
        end(&maker, &read);
}

Test(jfr, never_lets_out_what_the_environment_holds) {
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JVM, { 5000 }, { .text = "OpenJDK" }, { .text = "OpenJDK (17.0.1) for x" },
                    { .text = "-Dpassword=" SECRET " -Dotel.service.name=shop" },
                    { .text = "Main --token " SECRET }, { 1 }, { 4711 });
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
        MAKER_EVENT(&maker, MAKER_SETTING, { 5000 }, { MAKER_JDK_EXECUTION }, { .text = "period" },
                    { .text = "20 ms" });
        /* of no samples */
        MAKER_EVENT(&maker, MAKER_SETTING, { 5000 }, { MAKER_CPU_LOAD }, { .text = "period" },
                    { .text = "1 s" });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(period(&read, "samples"), 20000000);
        end(&maker, &read);
}

/* Those that the profilers' own documents name: default.jfc of the JDK, and java-profiler. */
Test(jfr, takes_the_usual_periods_where_there_are_none) {
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        MAKER_EVENT(&maker, MAKER_DD_EXECUTION, { 5000 }, { 2 }, { 2 }, { 1 }, { 2 }, { 3 },
                    { .text = "/pay" });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(period(&read, "execution_samples"), 20000000);
        cr_expect_eq(period(&read, "samples"), 10000000);
        cr_expect_not_null(strstr(read.diagnostics.data, "periods: some are not in the recording"));
        end(&maker, &read);
}

static void put_setting(JfrMaker *maker, unsigned class, const char *name, const char *value) {
        MAKER_EVENT(maker, MAKER_SETTING, { 5000 }, { class }, { .text = name }, { .text = value });
}

/* A chunk as async-profiler writes it, with two events in each state: runnable, sleeping, default. */
static void put_async_chunk(JfrMaker *maker, const char *event, const char *interval, const char *wall) {
        maker_begin_chunk(maker);
        put_setting(maker, MAKER_RECORDING, "version", "3.0");
        put_setting(maker, MAKER_RECORDING, "event", event);
        put_setting(maker, MAKER_JDK_EXECUTION, "interval", interval);
        if (wall)
                put_setting(maker, MAKER_JDK_EXECUTION, "wall", wall);
        for (uint64_t i = 0; i < 6; i++)
                MAKER_EVENT(maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 + i % 3 });
        maker_end_chunk(maker);
}

Test(jfr, tells_what_async_profiler_took_execution_samples_at) {
        JfrMaker maker = make();
        Read read;

        /* its default; two of six are of the CPU's time */
        put_async_chunk(&maker, "cpu", "0", "20000000");
        put_async_chunk(&maker, "wall", "0", NULL);             /* its default, for all six */
        put_async_chunk(&maker, "cache-misses", "1000", NULL);
        put_async_chunk(&maker, "itimer", "30000000", NULL);
        read = read_all(&maker);
        cr_expect_eq(total(&read, "samples", "count"), 2 + 2);
        cr_expect_eq(period(&read, "samples"), (2 * 10000000 + 2 * 30000000) / 4);
        cr_expect_eq(total(&read, "wall", "count"), 4 + 6 + 4 + 4);
        cr_expect_eq(total(&read, "cache-misses", "count"), 2);
        cr_expect_eq(period(&read, "cache-misses"), 1000);
        cr_expect_eq(window_n_profiles(read.window), 3);
        cr_expect_eq(read.result.n_twice, 0);
        end(&maker, &read);

        maker = make();                         /* the JDK's own: states are no such sign */
        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 2 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(total(&read, "samples", "count"), 1);
        end(&maker, &read);
}

Test(jfr, weighs_samples_of_the_cpu_time_by_their_own_period) {
        JfrMaker maker = make();
        Read read;

        maker.ticks_per_second = 2000000000;
        maker_begin_chunk(&maker);
        /* one of 10 ms and three of 30 ms; of those that failed there is no stack */
        for (uint64_t i = 0; i < 4; i++)
                MAKER_EVENT(&maker, MAKER_CPU_TIME, { 5000 }, { i == 2 ? 0 : 1 }, { 1 }, { i == 2 },
                            { i ? 60000000 : 20000000 }, { 0 });
        MAKER_EVENT(&maker, MAKER_LOST, { 5000 }, { 17 }, { 1 });
        MAKER_EVENT(&maker, MAKER_LOST, { 5000 }, { 4 }, { 2 });
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        put_setting(&maker, MAKER_JDK_EXECUTION, "period", "20 ms");
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(total(&read, "samples", "count"), 4);
        cr_expect_eq(period(&read, "samples"), 25000000);
        cr_expect_eq(total(&read, "execution_samples", "count"), 1);
        cr_expect_eq(period(&read, "execution_samples"), 20000000);
        cr_expect_eq(read.result.n_lost, 21);
        cr_assert_eq(read.result.n_twice, 1);
        cr_expect_str_eq(read.result.twice[0].type, "samples");
        cr_expect_str_eq(read.result.twice[0].other, "execution_samples");
        end(&maker, &read);
}

/*
 * One file after the other into one window: whoever has a name keeps it, and nothing is added to what
 * measures the same in another way.
 */
Test(jfr, keeps_ways_of_measuring_apart_over_several_recordings) {
        Window *window;

        cr_assert_eq(window_new(&window, 0, 0, NULL), 0);
        for (int i = 0; i < 3; i++) {
                JfrMaker maker = make();
                Text diagnostics = { 0 }, problem = { 0 };
                JfrMemory memory;
                JfrInput input;
                JfrResult result;

                maker_begin_chunk(&maker);
                if (i != 1)
                        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
                if (i)
                        MAKER_EVENT(&maker, MAKER_CPU_TIME, { 5000 }, { 1 }, { 1 }, { 0 }, { 10000000 },
                                    { 0 });
                maker_end_chunk(&maker);
                memory = (JfrMemory){ maker.data, maker.size };
                input = jfr_memory_input(&memory);
                cr_assert_eq(jfr_read(&input, &(JfrOptions){ .end_ns = UINT64_MAX }, window, &result,
                                      &diagnostics, &problem),
                             0);
                text_deinit(&diagnostics);
                text_deinit(&problem);
                free(maker.data);
        }
        cr_assert_eq(window_close(window, 0), 0);
        cr_assert_eq(window_n_profiles(window), 2);
        for (uint32_t i = 0; i < 2; i++)
                cr_expect_eq(window_get_profile(window, i)->n_events, 2);
        cr_expect_neq(window_get_profile(window, 0)->names.type, window_get_profile(window, 1)->names.type);
        window_free(window);
}

/* 0 says in OTLP that there is no time. */
Test(jfr, has_a_time_even_where_the_clock_was_never_set) {
        JfrMaker maker = make();
        Read read;

        maker.start_ns = 0;
        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { maker.start_ticks }, { 1 }, { 1 }, { 1 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(only_sample(&read).times_ns[0], 1);
        cr_expect_eq(read.result.start_ns, 1);
        end(&maker, &read);
}

Test(jfr, takes_less_than_nothing_for_nothing) {
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        /* the clock was set back */
        MAKER_EVENT(&maker, MAKER_ENTER, { 5000 }, { (uint64_t)-5 }, { 1 }, { 4 }, { 2 });
        MAKER_EVENT(&maker, MAKER_ENTER, { 5000 }, { 1000 }, { 1 }, { 4 }, { 2 });
        MAKER_EVENT(&maker, MAKER_ALLOC_SAMPLE, { 5000 }, { 1 }, { 3 }, { 1 }, { (uint64_t)-300 });
        MAKER_EVENT(&maker, MAKER_ALLOC_SAMPLE, { 5000 }, { 1 }, { 3 }, { 1 }, { 300 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(total(&read, "lock_contention", "nanoseconds"), 1000);
        cr_expect_eq(total(&read, "alloc_space", "bytes"), 300);
        cr_expect_eq(window_n_events(read.window), 4);
        end(&maker, &read);
}

Test(jfr, counts_each_event_that_it_reads) {
        JfrMaker maker = make();
        Read read;

        put_chunk(&maker);
        read = read_with(&maker, (JfrOptions){ .start_ns = START_NS + 50000000, .timestamps = true });
        cr_expect_eq(window_n_events(read.window), 9);
        cr_expect_eq(total(&read, "samples", "count"), 3);
        /* read = converted + out of time + failed + no sample */
        cr_expect_not_null(strstr(read.diagnostics.data, "jdk.ExecutionSample "));
        for (const char *line = strstr(read.diagnostics.data, "jdk.ExecutionSample "); line; line = NULL) {
                unsigned long n_read, n_converted, n_late, n_failed, n_other;

                cr_assert_eq(sscanf(line + 44, "%lu %lu %lu %lu %lu", &n_read, &n_converted, &n_late,
                                    &n_failed, &n_other),
                             5);
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
