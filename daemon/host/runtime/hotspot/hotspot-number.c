/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads numbers of one to five bytes, the lowest first. A byte below 192 is the last; those from 192 on say
 * that more follow. The digits are those of base 64:
 *
 *     value = b0 + b1 × 64 + b2 × 64² + b3 × 64³ + b4 × 64⁴           the fifth byte is always the last
 *     77           → 77
 *     200 3        → 200 + 3 × 64 = 392
 *
 * Since JDK 20 each byte is one larger, so that 0 is none of a number, and 191 takes the place of 192.
 */
#include "host/runtime/hotspot/hotspot-number.h"

enum {
        LOG2_DIGIT = 6,
        MAX_BYTES = 5,
        FIRST_HIGH = 192,
};

uint8_t hotspot_numbers_byte(HotspotNumbers *numbers) {
        if (numbers->at >= numbers->size) {
                numbers->has_failed = true;
                return 0;
        }
        return numbers->data[numbers->at++];
}

uint32_t hotspot_numbers_next(HotspotNumbers *numbers) {
        uint8_t excluded = numbers->has_zero_free_numbers;
        uint32_t sum = 0;

        for (unsigned i = 0; i < MAX_BYTES; i++) {
                uint8_t byte = hotspot_numbers_byte(numbers);

                if (numbers->has_failed || byte < excluded) {
                        numbers->has_failed = true;
                        return 0;
                }
                sum += (uint32_t)(byte - excluded) << (LOG2_DIGIT * i);
                if (byte < FIRST_HIGH)
                        break;
        }
        return sum;
}

int32_t hotspot_numbers_next_signed(HotspotNumbers *numbers) {
        uint32_t value = hotspot_numbers_next(numbers);

        return (int32_t)(value >> 1 ^ (0 - (value & 1)));
}
