/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Go Layout
 *
 * Where runtime.g and runtime.m keep what we read, by the version of Go; linux/amd64.
 */

#include <stdbool.h>
#include <stdint.h>

#include "runtime_abi.h"

enum {
        GO_FIRST_MINOR = 18,
        GO_LAST_MINOR = 27,
};

/* Pure. Fills offsets and form of @entry. Return: whether the version is known. */
bool go_layout(uint32_t minor, struct go_process *entry);
