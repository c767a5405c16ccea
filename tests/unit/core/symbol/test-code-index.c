/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/symbol/jit/code-index.h"

static CodeIndex *code_index;

static void init(void) {
        cr_assert_eq(code_index_new(&code_index, NULL), 0);
}

static void fini(void) {
        code_index_free(code_index);
}
TestSuite(code_index, .init = init, .fini = fini);

static int add_at(uint64_t start, uint64_t size, uint64_t time_ns, const char *name) {
        return code_index_add(code_index, &(CodeRange){ start, size, time_ns, name, strlen(name) });
}

static void add(uint64_t start, uint64_t size, const char *name) {
        cr_assert_eq(add_at(start, size, 0, name), 0);
}

static void assert_name(uint64_t address, uint64_t time_ns, const char *expected, uint64_t expected_start) {
        size_t size = 0;
        uint64_t start = UINT64_MAX;
        bool is_past;
        const char *name = code_index_find(code_index, address, time_ns, &size, &start, &is_past);

        if (!expected) {
                cr_assert_null(name, "%#lx is %.*s", address, (int)size, name);
                cr_assert_eq(start, UINT64_MAX);
                return;
        }
        cr_assert_not_null(name, "%#lx has no name, expected %s", address, expected);
        cr_assert_eq(size, strlen(expected));
        cr_assert_eq(memcmp(name, expected, size), 0, "%#lx is %.*s, not %s", address, (int)size, name,
                     expected);
        cr_assert_eq(start, expected_start);
}

Test(code_index, finds_what_holds_an_address) {
        assert_name(0x1000, 0, NULL, 0);
        add(0x2000, 0x10, "b");
        add(0x1000, 0x10, "a");
        assert_name(0xfff, 0, NULL, 0);
        assert_name(0x1000, 0, "a", 0x1000);
        assert_name(0x100f, 0, "a", 0x1000);
        assert_name(0x1010, 0, NULL, 0);
        assert_name(0x2005, 0, "b", 0x2000);
}

Test(code_index, believes_the_one_that_came_last) {
        add(0x1000, 0x100, "old");
        add(0x1040, 0x20, "new");
        assert_name(0x103f, 0, "old", 0x1000);
        assert_name(0x1040, 0, "new", 0x1040);
        assert_name(0x1060, 0, "old", 0x1060);
        add(0x0, 0x8000, "all");
        assert_name(0x1040, 0, "all", 0);
        assert_name(0x103f, 0, "all", 0);
        assert_name(0x1060, 0, "all", 0);
        assert_name(0x7fff, 0, "all", 0);
}

Test(code_index, knows_what_was_there_before) {
        cr_assert_eq(add_at(0x1000, 0x100, 1000, "first"), 0);
        cr_assert_eq(add_at(0x1080, 0x100, 2000, "second"), 0);
        assert_name(0x10a0, 1500, "first", 0x1000);
        assert_name(0x10a0, 1999, "first", 0x1000);
        assert_name(0x10a0, 2000, "second", 0x1080);
        assert_name(0x1000, 3000, "first", 0x1000);
        /* before all that is known: the one that is there now is the best guess */
        assert_name(0x1170, 1500, "second", 0x1080);
}

Test(code_index, takes_a_file_that_is_read_again_without_growing) {
        size_t n_bytes = 0;

        for (int pass = 0; pass < 2; pass++) {
                n_bytes = code_index_memory(code_index);
                for (uint64_t i = 0; i < 5000; i++)
                        add(0x10000 + i * 0x20, 0x20, i % 2 ? "odd" : "even");
        }
        cr_assert_eq(code_index_memory(code_index), n_bytes, "of the first time");
        assert_name(0x10020, 0, "odd", 0x10020);
}

/* Beside an array that knows of each byte who has it. */
Test(code_index, agrees_with_a_slow_one) {
        enum { SIZE = 1 << 14, STEPS = 20000 };
        static unsigned owner[SIZE];
        unsigned state = 1;

        for (unsigned i = 1; i <= STEPS; i++) {
                unsigned start, size;
                char name[16];

                state = state * 1103515245 + 12345;
                start = state >> 8 & (SIZE - 1);
                state = state * 1103515245 + 12345;
                size = 1 + (state >> 8) % (i % 50 ? 12 : 2000);
                if (start + size > SIZE)
                        continue;
                snprintf(name, sizeof(name), "f%u", i);
                add(start, size, name);
                for (unsigned at = start; at < start + size; at++)
                        owner[at] = i;
                if (i % 1000)
                        continue;
                for (unsigned at = 0; at < SIZE; at++) {
                        uint64_t first;
                        size_t n;
                        bool is_past;
                        const char *found = code_index_find(code_index, at, 0, &n, &first, &is_past);

                        cr_assert_eq(found != NULL, owner[at] != 0, "step %u, %u", i, at);
                        if (!found)
                                continue;
                        snprintf(name, sizeof(name), "f%u", owner[at]);
                        cr_assert(n == strlen(name) && !memcmp(name, found, n), "step %u, %u: %.*s, not %s",
                                  i, at, (int)n, found, name);
                        cr_assert(first <= at && owner[first] == owner[at]);
                }
        }
}

static void limit(const CodeIndexLimits *limits) {
        code_index_free(code_index);
        cr_assert_eq(code_index_new(&code_index, limits), 0);
}

/* What a program compiles now is what it runs. */
Test(code_index, drops_what_came_first_when_it_is_full) {
        limit(&(CodeIndexLimits){ .max_ranges = 10 });
        /* downwards, so that age and address differ */
        for (uint64_t i = 9; i > 0; i--)
                add(0x1000 * i, 0x10, "x");
        cr_assert_eq(code_index_n_dropped(code_index), 0);
        add(0x100000, 0x10, "newest");
        assert_name(0x100000, 0, "newest", 0x100000);
        assert_name(0x9000, 0, NULL, 0);
        assert_name(0x8000, 0, NULL, 0);
        assert_name(0x7000, 0, "x", 0x7000);
        assert_name(0x1000, 0, "x", 0x1000);
        cr_assert_eq(code_index_n_dropped(code_index), 2);
}

/* A file that is read again says the same, so its code is in use. */
Test(code_index, counts_a_range_as_new_that_is_told_again) {
        limit(&(CodeIndexLimits){ .max_ranges = 10 });
        for (uint64_t i = 1; i < 10; i++)
                add(0x1000 * i, 0x10, "x");
        add(0x1000, 0x10, "x");
        add(0x100000, 0x10, "newest");
        assert_name(0x1000, 0, "x", 0x1000);
        assert_name(0x2000, 0, NULL, 0);
        assert_name(0x3000, 0, NULL, 0);
        assert_name(0x4000, 0, "x", 0x4000);
}

/* The numbers of a large service: 400,000 functions, and what runs is at the end of the list. */
Test(code_index, names_the_newest_code_of_a_large_service) {
        enum { N = 400000, MAX = 256 << 10 };
        uint64_t n_named = 0;
        char name[80], last[80];

        for (uint64_t i = 0; i < N; i++) {
                snprintf(name, sizeof(name), "LazyCompile:~pad%lu /srv/app/lib/file%lu.js:%lu:3", i, i % 900,
                         i % 4000);
                /* an odd factor modulo a power of two: all places differ, in no order */
                add(0x200000000000 + (i * 0x9e3779b1 & 0xffffffff) * 64, 0x40, name);
        }
        snprintf(last, sizeof(last), "LazyCompile:~pad%d /srv/app/lib/file%d.js:%d:3", N - 1, (N - 1) % 900,
                 (N - 1) % 4000);
        for (uint64_t i = 0; i < N; i++) {
                uint64_t at = 0x200000000000 + (i * 0x9e3779b1 & 0xffffffff) * 64, start;
                bool is_past;
                size_t size;

                if (code_index_find(code_index, at, 0, &size, &start, &is_past)) {
                        cr_assert_geq(i, N - MAX, "an old one is kept, and newer ones are not");
                        n_named++;
                } else {
                        cr_assert_lt(i, N - MAX / 2, "number %lu has gone", i);
                }
        }
        cr_assert_eq(n_named + code_index_n_dropped(code_index), N);
        assert_name(0x200000000000 + ((N - 1ULL) * 0x9e3779b1 & 0xffffffff) * 64, 0, last,
                    0x200000000000 + ((N - 1ULL) * 0x9e3779b1 & 0xffffffff) * 64);
        cr_assert_leq(code_index_memory(code_index), 64 << 20);
}

/* A compiler that runs for weeks gives names of functions that are long gone. */
Test(code_index, forgets_names_that_no_range_has) {
        CodeIndexLimits limits = { .max_name_bytes = 64 << 10 };
        char name[64];

        code_index_free(code_index);
        cr_assert_eq(code_index_new(&code_index, &limits), 0);
        for (uint64_t i = 0; i < 100000; i++) {
                snprintf(name, sizeof(name), "function number %06lu of a very long run", i);
                cr_assert_eq(add_at(0x1000 + i % 100 * 0x10, 0x10, i, name), 0, "%lu", i);
        }
        assert_name(0x1000, UINT64_MAX, "function number 099900 of a very long run", 0x1000);
        cr_assert_leq(code_index_memory(code_index), 2 << 20);
}

Test(code_index, drops_what_came_first_when_names_have_no_room) {
        CodeIndexLimits limits = { .max_name_bytes = 64 << 10 };
        unsigned n = 0;
        char name[64];

        limit(&limits);
        for (uint64_t i = 0; i < 100000; i++) {
                snprintf(name, sizeof(name), "function number %06lu of a very long run", i);
                add(0x1000 + i * 0x10, 0x10, name);
        }
        assert_name(0x1000, 0, NULL, 0);
        assert_name(0x1000 + 99999 * 0x10, 0, "function number 099999 of a very long run",
                    0x1000 + 99999 * 0x10);
        for (uint64_t i = 0; i < 100000; i++) {
                uint64_t start;
                bool is_past, found;
                size_t size;

                found = code_index_find(code_index, 0x1000 + i * 0x10, 0, &size, &start, &is_past);
                cr_assert(found || !n, "number %lu has gone, an older one is kept", i);
                n += found;
        }
        /* names have 41 bytes, and blocks of names are as large as all before them */
        cr_assert_leq(n, 2 * (64 << 10) / 41);
        cr_assert_geq(n, (64 << 10) / 41 / 2);
        cr_assert_eq(n + code_index_n_dropped(code_index), 100000);
}

Test(code_index, leaves_out_a_name_longer_than_all_may_be) {
        limit(&(CodeIndexLimits){ .max_name_bytes = 16 });
        add(0x1000, 0x10, "short");
        cr_assert_eq(add_at(0x2000, 0x10, 0, "longer than sixteen bytes"), CODE_INDEX_E_FULL);
        assert_name(0x2000, 0, NULL, 0);
        assert_name(0x1000, 0, "short", 0x1000);
        cr_assert_eq(code_index_n_dropped(code_index), 0);
}
