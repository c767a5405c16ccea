/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "core/base/util/stat.h"

/* Sets every counter to zero. */
static inline void stat_reset(void) {
        memset(stat_values, 0, sizeof(stat_values));
}
