/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Secrets of a Recording
 *
 * A recording that is handed on as it is holds more than was asked for: environment variables, system
 * properties, command lines of all processes of the machine. Here their texts are overwritten by asterisks,
 * in place: all else stays where it is, and every reader of recordings reads it as before.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        _JFR_MASK_E_SUCCESS,
        /* damaged, or too much of it: there may be secrets that were not found */
        JFR_MASK_E_UNSURE,
};

/* @arguments: the recorded process' own command line stays. Return: 0, JFR_MASK_E_UNSURE, -ENOMEM. */
int jfr_mask(uint8_t *data, size_t size, bool arguments);
