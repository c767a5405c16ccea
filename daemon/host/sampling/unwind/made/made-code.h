/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Frames of Made Code
 *
 * Call frame information of a function that is known by its place alone, from its code (scan.h). Pure: code
 * in, an .eh_frame out.
 */

#include <stdint.h>

typedef struct MadeCode {
        uint8_t *frames;                /* owned: an .eh_frame with absolute addresses, without an end */
        uint32_t size, room;
} MadeCode;

void made_code_deinit(MadeCode *made);

/*
 * Adds what is understood of @code, which lies at @start and is all of a function. Where nothing is, nothing
 * is added. Return: 0, -ENOMEM.
 */
int made_code_add(MadeCode *made, const uint8_t *code, uint32_t size, uint64_t start);
