/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "host/service/config/host-share.h"

Test(host_share, reads_a_part_and_a_time) {
        HostShare share;

        cr_assert_eq(host_share_parse("10%/1h", &share), 0);
        cr_assert_eq(share.share, 1000);
        cr_assert_eq(share.turn_ns, 3600 * NS_PER_SEC);
        cr_assert_eq(host_share_parse("0.25%/15min", &share), 0);
        cr_assert_eq(share.share, 25);
        cr_assert_eq(share.turn_ns, 900 * NS_PER_SEC);
        cr_assert_eq(host_share_parse("100%/2s", &share), 0);
        cr_assert_eq(host_share_parse("", &share), 0);
        cr_assert_eq(share.share, 0);
}

Test(host_share, refuses_everything_else) {
        static const char *const bad[] = { "10",     "10%",     "10%/",     "0%/1h",  "101%/1h", "-5%/1h", "nan%/1h",
                                           "10%/0h", "10%/-1h", "10%/1",    "10%/h",  "10%/1y",  "10/1h",  "0.001%/1h",
                                           " 10%/1h", "10%/1h ", "10%/99999999h", "inf%/1h", "0x10%/1h" };
        HostShare share = { .share = 7 };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                cr_assert_eq(host_share_parse(bad[i], &share), 1, "\"%s\"", bad[i]);
        cr_assert_eq(share.share, 7);
}

/* Each host has exactly its part of any 10,000 turns, and at each turn the parts of all places are exact. */
Test(host_share, is_exact_for_each_host_and_at_each_time) {
        static const uint32_t shares[] = { 1, 25, 1000, 2500, 3000, 3333, 9999, 10000 };

        for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
                HostShare share = { shares[i], 60 * NS_PER_SEC };
                unsigned n = 0;

                for (uint64_t turn = 0; turn < 10000; turn++)
                        n += host_share_has_turn(&share, UINT64_MAX - 5,
                                                 1795000000 * NS_PER_SEC + turn * share.turn_ns);
                cr_assert_eq(n, shares[i], "one host, share %u", shares[i]);
                n = 0;
                for (uint64_t host = 0; host < 10000; host++)
                        n += host_share_has_turn(&share, host, 1795000017 * NS_PER_SEC);
                cr_assert_eq(n, shares[i], "one turn, share %u", shares[i]);
        }
}

Test(host_share, is_the_same_for_the_whole_of_a_turn) {
        HostShare share = { 2500, 60 * NS_PER_SEC };

        for (uint64_t host = 0; host < 100; host++) {
                bool first = host_share_has_turn(&share, host * 97, 600 * NS_PER_SEC);

                cr_assert_eq(first, host_share_has_turn(&share, host * 97, 660 * NS_PER_SEC - 1));
        }
        cr_assert(host_share_has_turn(&(HostShare){ 0 }, 5, 5), "without a share it is always the host's turn");
        cr_assert_eq(host_share_number(), host_share_number());
}
