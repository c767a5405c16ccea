/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Recordings that the maker wrote, read into a window, for the tests of the reader: its helpers and two
 * chunks of known sums.
 */

#include <criterion/criterion.h>
#include <inttypes.h>

#include "core/jfr/jfr.h"
#include "jfr-maker.h"

#define START_NS UINT64_C(1700000000000000000)
#define SECRET "hunter2-do-not-tell"

typedef struct Read {
        Window *window;
        JfrResult result;
        Text problem, diagnostics;
        int r;
} Read;

static inline Read read_with(const JfrMaker *maker, JfrOptions options) {
        const JfrMemory memory = { maker->data, maker->size };
        const JfrInput input = jfr_memory_input(&memory);
        Read read = { 0 };

        if (!options.end_ns)
                options.end_ns = UINT64_MAX;
        cr_assert_eq(window_new(&read.window, 0, 0, NULL), 0);
        read.r = jfr_read(&input, &options, read.window, &read.result, &read.diagnostics, &read.problem);
        cr_assert_geq(read.r, 0);
        cr_assert_eq(window_close(read.window, 0), 0);
        return read;
}

static inline Read read_all(const JfrMaker *maker) {
        return read_with(maker, (JfrOptions){ .timestamps = true });
}

static inline void end(JfrMaker *maker, Read *read) {
        window_free(read->window);
        text_deinit(&read->problem);
        text_deinit(&read->diagnostics);
        free(maker->data);
}

static inline JfrMaker make(void) {
        return (JfrMaker){ .encoding = 3,
                           .n_threads = 2,
                           .n_methods = 5,
                           .n_stacks = 4,
                           .depth = 3,
                           .start_ns = START_NS,
                           .start_ticks = 5000,
                           .ticks_per_second = 1000000000 };
}

/* Sum of the values of the profile of that type; -1 = there is none. */
static inline int64_t total(const Read *read, const char *type, const char *unit) {
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

/* Of the profile of that type; -1 = there is none. */
static inline int64_t period(const Read *read, const char *type) {
        for (uint32_t i = 0; i < window_n_profiles(read->window); i++) {
                const WindowProfile *profile = window_get_profile(read->window, i);

                if (!strcmp(window_get_string(read->window, profile->names.type, NULL), type))
                        return profile->period;
        }
        return -1;
}

static inline bool has_string(const Read *read, const char *part) {
        for (uint32_t i = 0; i < window_n_strings(read->window); i++)
                if (strstr(window_get_string(read->window, i, NULL), part))
                        return true;
        return false;
}

/* Two of each kind: 1 s of ticks is 1 s whatever the clock. */
static inline void put_events(JfrMaker *maker) {
        uint64_t t = maker->start_ticks, second = maker->ticks_per_second;

        for (uint64_t i = 0; i < 2; i++, t += second / 10) {
                MAKER_EVENT(maker, MAKER_JDK_EXECUTION, { t }, { 1 }, { 1 }, { 1 });
                MAKER_EVENT(maker, MAKER_DD_EXECUTION, { t }, { 2 }, { 2 }, { 0x1122334455667788 }, { 0x99 },
                            { 3 }, { .text = "/checkout", .number = maker->encoding == 2 });
                MAKER_EVENT(maker, MAKER_DD_METHOD, { t }, { 2 }, { 2 }, { 0x10 }, { 0x99 }, { 7 });
                MAKER_EVENT(maker, MAKER_DD_OBJECT, { t }, { 2 }, { 3 }, { 1 }, { 1000 }, { .real = 2.5 },
                            { 0x10 }, { 0x99 });
                MAKER_EVENT(maker, MAKER_ENTER, { t }, { second / 2 }, { 1 }, { 4 }, { 2 });
                MAKER_EVENT(maker, MAKER_PARK, { t }, { second / 4 }, { 1 }, { 4 });
                MAKER_EVENT(maker, MAKER_ALLOC_SAMPLE, { t }, { 1 }, { 3 }, { 1 }, { 300 });
                MAKER_EVENT(maker, MAKER_TLAB, { t }, { 1 }, { 3 }, { 1 }, { 16 }, { 2048 });
                MAKER_EVENT(maker, MAKER_WALL, { t }, { 1 }, { 1 }, { 2 }, { 5 });
        }
}

static inline void put_chunk(JfrMaker *maker) {
        maker_begin_chunk(maker);
        put_events(maker);
        maker_end_chunk(maker);
}
