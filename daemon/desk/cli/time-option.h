/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parses --start and --end: 2026-01-31T12:00:00Z, seconds since 1970, or +10s from where a recording begins.
 */

#include <stdbool.h>
#include <stdint.h>

/* @text: "" leaves *nsp alone. @option: for the message. Return: 0, STATUS_USAGE after a message. */
int time_option_parse(const char *option, const char *text, uint64_t *nsp, bool *relativep);
