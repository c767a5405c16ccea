/* SPDX-License-Identifier: Apache-2.0 */

/* Recordings of many blocks. What comes out is said by what was put in. */

#include "jfr-read.h"

enum {
        N_EVENTS = 150000,
        N_SPANS = 30000,                /* so many combinations that they push each other out */
        N_SIZES = 100,
};

static uint64_t random_number(uint64_t *state) {
        *state = *state * 6364136223846793005 + 1442695040888963407;
        return *state >> 33;
}

typedef struct Truth {
        int64_t cpu, bytes, lock_ns;
        uint64_t n_timed;
} Truth;

/* Of both ways of measuring it that put_many() writes: a profile each. */
static int64_t all_cpu(const Read *read) {
        int64_t datadog = total(read, "samples", "count"), jdk = total(read, "execution_samples", "count");

        return (datadog > 0 ? datadog : 0) + (jdk > 0 ? jdk : 0);
}

/* Times stand still now and then and go on at any pace. */
static Truth put_many(JfrMaker *maker, uint64_t n) {
        uint64_t state = 42, t = maker->start_ticks;
        Truth truth = { 0 };

        for (uint64_t i = 0; i < n; i++, t += random_number(&state) % 3 * 1000) {
                uint64_t thread = 1 + random_number(&state) % 2, stack = 1 + random_number(&state) % 4,
                         size = random_number(&state) % N_SIZES;
                uint64_t span = 1 + random_number(&state) % N_SPANS;

                switch (random_number(&state) % 4) {
                case 0:
                        MAKER_EVENT(maker, MAKER_JDK_EXECUTION, { t }, { thread }, { stack }, { 1 });
                        truth.cpu++;
                        truth.n_timed++;
                        break;
                case 1:
                        MAKER_EVENT(maker, MAKER_DD_EXECUTION, { t }, { thread }, { stack }, { span }, { 9 },
                                    { 3 }, { .text = "/pay" });
                        truth.cpu += 3;
                        truth.n_timed++;
                        break;
                case 2:
                        MAKER_EVENT(maker, MAKER_DD_OBJECT, { t }, { thread }, { stack }, { 1 }, { size },
                                    { .real = 2 }, { span }, { 9 });
                        truth.bytes += (int64_t)size * 2;
                        break;
                default:
                        MAKER_EVENT(maker, MAKER_ENTER, { t }, { size }, { thread }, { stack }, { 2 });
                        truth.lock_ns += (int64_t)size;
                }
        }
        return truth;
}

static void put_large_chunk(JfrMaker *maker, Truth *truth) {
        maker_begin_chunk(maker);
        *truth = put_many(maker, N_EVENTS);
        maker_end_chunk(maker);
        cr_assert_gt(maker->size, 1 << 20);
}

static void check_totals(const Read *read, const Truth *truth) {
        cr_assert_eq(read->r, 0, "%s", read->problem.data);
        cr_expect_eq(all_cpu(read), truth->cpu);
        cr_expect_eq(total(read, "alloc_space", "bytes"), truth->bytes);
        cr_expect_eq(total(read, "lock_contention", "nanoseconds"), truth->lock_ns);
        cr_expect_eq(window_n_events(read->window), N_EVENTS);
        cr_expect_eq(read->result.n_timed, truth->n_timed);
}

static void check(JfrOptions options, void (*check_read)(const Read *read, const Truth *truth)) {
        JfrMaker maker = make();
        Truth truth;
        Read read;

        put_large_chunk(&maker, &truth);
        read = read_with(&maker, options);
        check_read(&read, &truth);
        end(&maker, &read);
}

Test(jfr_blocks, counts_all_events_of_a_large_chunk) {
        check((JfrOptions){ .timestamps = true }, check_totals);
}

static void check_dropped(const Read *read, const Truth *truth) {
        WindowSample sample;

        cr_assert_eq(read->r, 0, "%s", read->problem.data);
        cr_expect(read->result.times_dropped);
        cr_expect_eq(all_cpu(read), truth->cpu);
        cr_expect_eq(window_n_events(read->window), N_EVENTS);
        window_get_sample(read->window, 0, 0, &sample);
        cr_expect_eq(sample.n_times, 0);
}

Test(jfr_blocks, keeps_sums_from_wherever_times_are_dropped) {
        check((JfrOptions){ .timestamps = true, .max_times = 1000 }, check_dropped);
}

static void check_line(const char *diagnostics, const char *type, unsigned long *convertedp) {
        const char *line = strstr(diagnostics, type);
        unsigned long n_read, n_late, n_failed, n_other;

        cr_assert_not_null(line);
        cr_assert_eq(
                sscanf(line + 44, "%lu %lu %lu %lu %lu", &n_read, convertedp, &n_late, &n_failed, &n_other),
                5);
        cr_expect_eq(n_read, *convertedp + n_late + n_failed + n_other);
        cr_expect_gt(n_other, 0);
}

/* What is in the window goes on being counted; what finds no place is told. */
Test(jfr_blocks, says_what_a_full_window_leaves_out) {
        WindowLimits limits = window_default_limits;
        JfrMaker maker = make();
        const JfrOptions options = { .end_ns = UINT64_MAX, .timestamps = true };
        Text problem = { 0 }, diagnostics = { 0 };
        unsigned long n_spans, n_objects;
        JfrResult result;
        JfrMemory memory;
        Window *window;
        JfrInput input;
        Truth truth;

        put_large_chunk(&maker, &truth);
        memory = (JfrMemory){ maker.data, maker.size };
        input = jfr_memory_input(&memory);
        limits.max_samples = 5000;
        cr_assert_eq(window_new(&window, 0, 0, &limits), 0);
        cr_expect_eq(jfr_read(&input, &options, window, &result, &diagnostics, &problem), JFR_E_FULL);
        check_line(diagnostics.data, "datadog.ExecutionSample ", &n_spans);
        check_line(diagnostics.data, "datadog.ObjectSample ", &n_objects);
        cr_expect_lt(n_spans + n_objects, window_n_events(window));
        cr_assert_eq(window_close(window, 0), 0);
        window_free(window);
        text_deinit(&problem);
        text_deinit(&diagnostics);
        free(maker.data);
}

/* Longer than what is read at once, and longer than what is ever looked at. */
Test(jfr_blocks, takes_long_events_in_between) {
        static const size_t sizes[] = { 70000, 150000, 250000, 300000, 1500000 };
        JfrMaker maker = make();
        int64_t n = 0;
        Read read;

        maker_begin_chunk(&maker);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
                char *text = calloc(1, sizes[i] + 1);

                cr_assert_not_null(text);
                memset(text, 'x', sizes[i]);
                n += put_many(&maker, 10000 * i).cpu;
                MAKER_EVENT(&maker, MAKER_DD_EXECUTION, { 5000 }, { 1 }, { 1 }, { 7 }, { 9 }, { 1000000 },
                            { .text = text });
                n += sizes[i] < 256 << 10 ? 1000000 : 0;
                free(text);
        }
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(read.r, JFR_E_DAMAGED);
        cr_expect_not_null(
                strstr(read.problem.data, "the datadog.ExecutionSample there is shorter than its fields"));
        cr_expect_eq(all_cpu(&read), n);
        end(&maker, &read);
}

Test(jfr_blocks, reads_up_to_where_a_chunk_is_damaged) {
        JfrMaker maker = make();
        char where[64];
        size_t border;
        Truth truth;
        Read read;

        maker_begin_chunk(&maker);
        truth = put_many(&maker, N_EVENTS);
        border = maker.size;
        put_many(&maker, N_EVENTS);
        maker_end_chunk(&maker);
        memset(maker.data + border, 0, 16);     /* an event of no bytes */
        snprintf(where, sizeof(where), "byte %zu: no event can begin there", border);
        read = read_all(&maker);
        cr_expect_eq(read.r, JFR_E_DAMAGED);
        cr_expect_not_null(strstr(read.problem.data, where), "%s", read.problem.data);
        cr_expect_eq(all_cpu(&read), truth.cpu);
        cr_expect_eq(window_n_events(read.window), N_EVENTS);
        end(&maker, &read);
}

/* The last one counts, wherever it stands. */
Test(jfr_blocks, learns_about_the_recording_in_between) {
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        put_many(&maker, N_EVENTS);
        MAKER_EVENT(&maker, MAKER_SETTING, { 5000 }, { MAKER_JDK_EXECUTION }, { .text = "period" },
                    { .text = "20 ms" });
        put_many(&maker, N_EVENTS / 2);
        MAKER_EVENT(&maker, MAKER_SETTING, { 5000 }, { MAKER_JDK_EXECUTION }, { .text = "period" },
                    { .text = "30 ms" });
        put_many(&maker, N_EVENTS);
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(read.r, 0);
        cr_expect_eq(period(&read, "execution_samples"), 30000000);
        end(&maker, &read);
}
