/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-tree [MS]: a program without frame pointers whose callers are known by name
 *
 * Burns MS (default 20) milliseconds of CPU in a binary tree of functions, six levels deep, and ends. Each
 * function is called from one place alone:
 *
 *     main ─▶ tree_1 ─▶ tree_2, tree_3      tree_2 ─▶ tree_4, tree_5      …      tree_63
 *
 * so the caller of tree_N is tree_(N/2). Those of the last level sort a little: libc calls tree_compare back.
 * Every function keeps a number in rbp, a pointer into the stack as often as not: a walk that takes it for a
 * frame pointer finds callers that never called. Prints nothing.
 */
#include "victim.h"

#include <stdbool.h>
#include <stdlib.h>

static uint64_t end_ns;

#define LURE(_value) __asm__ volatile("" : "+r"(_value) : : "memory")

static __attribute__((noinline)) int tree_compare(const void *a, const void *b) {
        const uint64_t *x = a, *y = b;

        for (int i = 0; i < 20; i++)
                victim_sink = victim_sink * 31 + *x;
        return (*x > *y) - (*x < *y);
}

static bool is_over(void) {
        return victim_cpu_ns() >= end_ns;
}

#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
#define DECLARE(_n) static NOINLINE uint64_t tree_##_n(uint64_t *room, uint64_t seed)

/* rbp, rbx and r12 are saved by the callee; each holds a place in some stack frame, or a number. */
#define BODY(_n, _below) \
        DECLARE(_n) { \
                uint64_t mine[6] = { seed, _n, seed ^ _n, 3, 2, 1 }; \
                register uint64_t lure __asm__("rbp") = (uint64_t)(uintptr_t)(_n & 1 ? room : mine); \
                LURE(lure); \
                for (int i = 0; i < 40 + _n; i++) \
                        seed = seed * 6364136223846793005ULL + mine[i % 6]; \
                victim_sink += seed; \
                _below \
                LURE(lure); \
                return seed + lure + mine[1]; \
        }

#define LEAF(_n) \
        BODY(_n, { \
                qsort(mine, 6, sizeof(mine[0]), tree_compare); \
                seed += victim_spin(seed, 300); \
        })
#define INNER(_n, _left, _right) \
        DECLARE(_left); \
        DECLARE(_right); \
        BODY(_n, { \
                seed += tree_##_left(mine, seed); \
                seed += tree_##_right(mine, seed + 1); \
        })

INNER(1, 2, 3)
INNER(2, 4, 5) INNER(3, 6, 7)
INNER(4, 8, 9) INNER(5, 10, 11) INNER(6, 12, 13) INNER(7, 14, 15)
INNER(8, 16, 17) INNER(9, 18, 19) INNER(10, 20, 21) INNER(11, 22, 23)
INNER(12, 24, 25) INNER(13, 26, 27) INNER(14, 28, 29) INNER(15, 30, 31)
INNER(16, 32, 33) INNER(17, 34, 35) INNER(18, 36, 37) INNER(19, 38, 39)
INNER(20, 40, 41) INNER(21, 42, 43) INNER(22, 44, 45) INNER(23, 46, 47)
INNER(24, 48, 49) INNER(25, 50, 51) INNER(26, 52, 53) INNER(27, 54, 55)
INNER(28, 56, 57) INNER(29, 58, 59) INNER(30, 60, 61) INNER(31, 62, 63)
LEAF(32) LEAF(33) LEAF(34) LEAF(35) LEAF(36) LEAF(37) LEAF(38) LEAF(39)
LEAF(40) LEAF(41) LEAF(42) LEAF(43) LEAF(44) LEAF(45) LEAF(46) LEAF(47)
LEAF(48) LEAF(49) LEAF(50) LEAF(51) LEAF(52) LEAF(53) LEAF(54) LEAF(55)
LEAF(56) LEAF(57) LEAF(58) LEAF(59) LEAF(60) LEAF(61) LEAF(62) LEAF(63)

int main(int argc, char **argv) {
        uint64_t room[8] = { 1 }, sum = 0;

        end_ns = (uint64_t)(victim_argument(argc, argv, 1, 20, 0, 1e6, "victim-tree [MS]") * 1e6);
        while (!is_over())
                sum += tree_1(room, sum);
        return sum == 42;
}
