/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reasons of Goroutines That Wait
 *
 * The words of Go's own stack traces, by its version.
 */

#include <stdint.h>

/* Pure. @number: g.waitreason of Go 1.@minor. Return: a constant; "" = none, or one that is not known. */
const char *go_wait_reason(uint32_t minor, uint8_t number);
