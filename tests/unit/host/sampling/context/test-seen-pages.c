/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "host/sampling/context/seen-pages.h"

Test(seen_pages, reads_a_page_with_other_bytes_once) {
        SeenPages seen = { 0 };

        cr_assert_eq(seen_pages_next(&seen, 1000, 2000), 1000);
        cr_assert_eq(seen_pages_add(&seen, 1000, false), 0);
        cr_assert_eq(seen_pages_next(&seen, 1000, 2000), 1001);
        cr_assert_eq(seen_pages_next(&seen, 999, 2000), 999);
        cr_assert_eq(seen_pages_next(&seen, 1000, 1001), 1001, "none");
        for (uint64_t page = 1001; page < 1600; page++)
                cr_assert_eq(seen_pages_add(&seen, page, false), 0);
        cr_assert_eq(seen_pages_next(&seen, 1000, 2000), 1600, "over blocks and words");
        cr_assert_eq(seen_pages_next(&seen, 1000, 1500), 1500);
        seen_pages_deinit(&seen);
}

Test(seen_pages, reads_an_empty_page_twice) {
        SeenPages seen = { 0 };

        cr_assert_eq(seen_pages_add(&seen, 7, true), 0);
        cr_assert_eq(seen_pages_next(&seen, 7, 8), 7);
        cr_assert_eq(seen_pages_add(&seen, 7, true), 0);
        cr_assert_eq(seen_pages_next(&seen, 7, 8), 8);
        cr_assert_eq(seen_pages_add(&seen, 9, true), 0);
        seen_pages_forget(&seen, 9, 10);
        cr_assert_eq(seen_pages_add(&seen, 9, true), 0);
        cr_assert_eq(seen_pages_next(&seen, 9, 10), 9, "it went meanwhile: this is another one");
        seen_pages_deinit(&seen);
}

/* Beside an array of what should be known. */
Test(seen_pages, agrees_with_an_array) {
        enum { N = 4096 };
        static unsigned char known[N];
        SeenPages seen = { 0 };

        srand(4711);
        for (unsigned round = 0; round < 20000; round++) {
                uint64_t page = (uint64_t)rand() % N, end = page + 1 + (uint64_t)rand() % 700, next = page;

                end = end < N ? end : N;
                if (round % 3 == 0) {
                        cr_assert_eq(seen_pages_forget(&seen, page, end), known[page]);
                        for (uint64_t i = page; i < end; i++)
                                known[i] = 0;
                } else if (round % 3 == 1) {
                        for (uint64_t i = page; i < end; i += 1 + (uint64_t)rand() % 3) {
                                cr_assert_eq(seen_pages_add(&seen, i, false), 0);
                                known[i] = 1;
                        }
                }
                while (next < end && known[next])
                        next++;
                cr_assert_eq(seen_pages_next(&seen, page, end), next, "round %u", round);
        }
        cr_assert(seen_pages_forget(&seen, 0, UINT64_MAX / 4096) == known[0]);
        cr_assert_eq(seen.n, 0);
        seen_pages_deinit(&seen);
}

Test(seen_pages, of_all_processes_are_bounded) {
        SeenPages one = { 0 }, other = { 0 };

        for (uint64_t i = 0; i < 40000; i++)
                cr_assert_eq(seen_pages_add(&one, i * 512, false), 0);
        cr_assert_eq(one.n, 32768);
        cr_assert_eq(seen_pages_add(&other, 1, false), 0);
        cr_assert_eq(seen_pages_next(&other, 1, 2), 1, "it is read each time");
        seen_pages_deinit(&one);
        cr_assert_eq(seen_pages_add(&other, 1, false), 0);
        cr_assert_eq(seen_pages_next(&other, 1, 2), 2);
        seen_pages_deinit(&other);
}
