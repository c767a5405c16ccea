/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/util/stat.h"
#include "host/sampling/discover/starts.h"

static Starts starts;

static void add(uint32_t tgid, uint64_t time_ns, const char *text) {
        union {
                struct abi_start told;
                uint8_t room[sizeof(struct abi_start) + 64];
        } record = { .told = { .tgid = tgid, .time_ns = time_ns, .n_environment = (uint32_t)strlen(text) } };

        memcpy(record.told.bytes, text, strlen(text));
        starts_add(&starts, &record.told);
}

static Start *take_of(uint32_t tgid, uint64_t time_ns) {
        return starts_take(&starts, &(struct abi_sample){ .tgid = tgid, .time_ns = time_ns });
}

Test(starts, belong_to_one_sample) {
        _cleanup_(start_freep) Start *start = NULL;

        add(7, 100, "A=1");
        add(8, 100, "A=22");
        add(7, 101, "A=333");
        cr_assert_null(take_of(7, 99));
        start = take_of(8, 100);
        cr_assert_eq(start->told.n_environment, 4);
        cr_assert_eq(memcmp(start->told.bytes, "A=22", 4), 0);
        cr_assert_null(take_of(8, 100), "it was taken");
        start = start_free(start);
        start = take_of(7, 101);
        cr_assert_eq(start->told.n_environment, 5);
        add(9, 102, "");
        cr_assert_eq(starts.last->told.tgid, 9);
        starts_deinit(&starts);
        cr_assert_eq(starts.n_bytes, 0);
}

Test(starts, come_with_a_later_sample_too) {
        add(7, 100, "A=1");
        add(7, 200, "A=22");
        cr_assert_eq(starts_find(&starts, 7, 50, 0)->told.time_ns, 100);
        cr_assert_eq(starts_find(&starts, 7, 100, 0)->told.time_ns, 200);
        cr_assert_null(starts_find(&starts, 7, 100, 200), "of the next program");
        cr_assert_null(starts_find(&starts, 8, 0, 0));
        starts_deinit(&starts);
}

Test(starts, whose_sample_is_lost_are_counted) {
        const uint64_t n_lost = stat_get(COUNTER_STARTS_LOST);

        add(7, 100, "A=1");
        add(8, 200, "A=1");
        starts_expire(&starts, 150);
        cr_assert_null(take_of(7, 100));
        cr_assert_eq(stat_get(COUNTER_STARTS_LOST), n_lost + 1);
        starts_expire(&starts, 201);
        cr_assert_null(starts.first);
        cr_assert_eq(starts.n_bytes, 0);
}

Test(starts, hold_their_cap) {
        const uint64_t n_lost = stat_get(COUNTER_STARTS_LOST);
        unsigned n = 0;

        while (stat_get(COUNTER_STARTS_LOST) == n_lost && n < 1000000)
                add(n++, 100, "A=1");
        cr_assert_lt(starts.n_bytes, 3 << 20);
        cr_assert_gt(n, 1000);
        starts_deinit(&starts);
}
