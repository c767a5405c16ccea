/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chance
 *
 * What bounds of chance need of a mathematical library, which is loaded for nothing else.
 */

#include <stdint.h>

/* Newton's, from above. */
static inline double square_root(double value) {
        double root = value > 1 ? value : 1;

        for (int i = 0; i < 64; i++)
                root = (root + value / root) / 2;
        return root;
}

/* Not below the natural logarithm. */
static inline double log_bound(uint32_t value) {
        double bits = 1;

        for (; value > 1; value /= 2)
                bits++;
        return bits * 0.6931472;
}

/* e to the power of @value, which is between 0 and 30; less than a thousandth too small. */
static inline double exponential(double value) {
        double power = 1 + value / (1 << 20);

        for (int i = 0; i < 20; i++)
                power *= power;
        return power;
}
