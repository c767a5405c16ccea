/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tables of baseline code made by hand, and V8's table of sizes as bytes among others. The sizes are those of
 * the first bytecodes of all releases, then of bytecodes with one operand (v8-baseline.c).
 */

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/runtime/v8/v8-baseline.h"

enum { N = 200, OTHER = 20 };           /* OTHER: a bytecode with an operand */

static uint8_t file[4096];
static V8Sizes sizes;

static uint8_t *put_table(size_t at) {
        static const uint8_t begins[V8_N_SCALES][14] = {
                { 1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 6, 2, 1, 2 },
                { 1, 1, 1, 1, 1, 3, 5, 7, 9, 7, 9, 3, 1, 3 },
                { 1, 1, 1, 1, 1, 5, 9, 13, 17, 11, 15, 5, 1, 5 },
        };

        for (size_t scale = 0; scale < V8_N_SCALES; scale++) {
                memset(file + at + scale * N, scale == 2 ? 5 : (int)scale + 2, N);
                memcpy(file + at + scale * N, begins[scale], sizeof(begins[scale]));
        }
        return file + at;
}

static void setup(void) {
        memset(file, 1, sizeof(file));
        put_table(1000);
        cr_assert(v8_sizes_find_in(file, sizeof(file), &sizes));
}

TestSuite(v8_baseline, .init = setup);

Test(v8_baseline, sizes_are_found_by_their_content) {
        cr_assert_eq(sizes.n, N);
        cr_assert_eq(sizes.bytes[0][10], 6);
        cr_assert_eq(sizes.bytes[1][OTHER], 3);
        cr_assert_eq(sizes.bytes[2][OTHER], 5);
}

Test(v8_baseline, what_is_cut_or_could_stand_still_is_no_table) {
        V8Sizes found;
        uint64_t searched = 0;

        cr_assert_not(v8_sizes_find_in(file, 1000 + 3 * N - 1, &found), "cut");
        file[1000 + 2 * N + 100] = 0;
        cr_assert_not(v8_sizes_find_in(file, sizeof(file), &found), "a size of 0");
        memset(file, 1, sizeof(file));
        cr_assert_not(v8_sizes_find_in(file, sizeof(file), &found));
        cr_assert_not(v8_sizes_find(-1, 100, &searched, &found));
}

Test(v8_baseline, a_file_is_searched_part_by_part) {
        enum { MIB = 1 << 20, SIZE = 12 * MIB };
        int fd = memfd_create("v8", MFD_CLOEXEC);
        uint64_t searched = 0;
        V8Sizes found = { 0 };

        cr_assert_eq(ftruncate(fd, SIZE), 0);
        cr_assert_eq(pwrite(fd, file, sizeof(file), MIB), (ssize_t)sizeof(file));
        while (!v8_sizes_find(fd, SIZE, &searched, &found))
                cr_assert_lt(searched, (uint64_t)SIZE, "another one may come until then");
        cr_assert(v8_sizes_find(fd, SIZE, &searched, &found), "it is known");
        cr_assert_eq(found.n, N);
        searched = 0;
        file[1000 + 100] = 9;
        cr_assert_eq(pwrite(fd, file, sizeof(file), 10 * MIB), (ssize_t)sizeof(file));
        while (searched < SIZE)
                cr_assert_not(v8_sizes_find(fd, SIZE, &searched, &found));
        cr_assert_not(v8_sizes_find(fd, SIZE, &searched, &found), "two that differ");
        close(fd);
}

Test(v8_baseline, a_file_that_is_too_large_is_searched_at_once_and_has_none) {
        const uint64_t size = (512ull << 20) + 1;
        int fd = memfd_create("v8", MFD_CLOEXEC);
        uint64_t searched = 0;
        V8Sizes found = { 0 };

        cr_assert_eq(ftruncate(fd, (off_t)size), 0);
        cr_assert_eq(pwrite(fd, file, sizeof(file), 0), (ssize_t)sizeof(file));
        cr_assert_not(v8_sizes_search(fd, size, &searched, &found));
        cr_assert_eq(searched, size, "nothing is left to be searched");
        cr_assert_not(v8_sizes_find(fd, size, &searched, &found));
        close(fd);
}

/* Prologue of 28 bytes; bytecodes at 0 (8 bytes of code), 2 (132), 3 with a prefix (16), 7 (4). */
static const uint8_t steps[] = { 28, 8, 0x84, 0x01, 16, 4 };
static const uint8_t bytecodes[] = { OTHER, 9, 12, 0, OTHER, 1, 2, 12 };

static int32_t index_of(uint32_t pc, bool is_exact) {
        return v8_baseline_index(steps, sizeof(steps), bytecodes, sizeof(bytecodes), &sizes, pc, is_exact);
}

Test(v8_baseline, an_interrupted_pc_is_in_the_code_of_its_bytecode) {
        cr_assert_eq(index_of(27, true), -1, "the prologue");
        cr_assert_eq(index_of(28, true), 0);
        cr_assert_eq(index_of(35, true), 0);
        cr_assert_eq(index_of(36, true), 2);
        cr_assert_eq(index_of(167, true), 2);
        cr_assert_eq(index_of(168, true), 3);
        cr_assert_eq(index_of(184, true), 7);
        cr_assert_eq(index_of(188, true), -1, "behind the code");
}

Test(v8_baseline, a_return_address_is_behind_the_call_of_its_bytecode) {
        cr_assert_eq(index_of(28, false), -1);
        cr_assert_eq(index_of(36, false), 0);
        cr_assert_eq(index_of(37, false), 2);
        cr_assert_eq(index_of(184, false), 3);
}

Test(v8_baseline, bytecode_that_is_not_known_has_no_place) {
        static const uint8_t strange[] = { OTHER, 9, 255 }, cut[] = { OTHER, 9, OTHER },
                             prefix[] = { OTHER, 9, 1 };

        cr_assert_eq(v8_baseline_index(steps, sizeof(steps), strange, 3, &sizes, 28, true), 0);
        cr_assert_eq(v8_baseline_index(steps, sizeof(steps), strange, 3, &sizes, 40, true), -1);
        cr_assert_eq(v8_baseline_index(steps, sizeof(steps), cut, 3, &sizes, 40, true), -1);
        cr_assert_eq(v8_baseline_index(steps, sizeof(steps), prefix, 3, &sizes, 40, true), -1);
        cr_assert_eq(v8_baseline_index(steps, 3, bytecodes, sizeof(bytecodes), &sizes, 40, true), -1);
        cr_assert_eq(v8_baseline_index(steps, 0, bytecodes, sizeof(bytecodes), &sizes, 40, true), -1);
}
