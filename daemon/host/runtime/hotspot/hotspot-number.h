/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compressed Numbers
 *
 * HotSpot's UNSIGNED5: line tables and debug information are made of them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct HotspotNumbers {
        const uint8_t *data;
        size_t size, at;
        bool has_zero_free_numbers;     /* HotspotLayout */
        bool has_failed;                /* there were no more bytes, or none that a JVM writes */
} HotspotNumbers;

/* The next byte, or number; 0 once the stream has failed. */
uint8_t hotspot_numbers_byte(HotspotNumbers *numbers);
uint32_t hotspot_numbers_next(HotspotNumbers *numbers);

/* The same with a sign, which is in the lowest bit. */
int32_t hotspot_numbers_next_signed(HotspotNumbers *numbers);
