/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For tests of what is known of a process: test-process*.c and test-object-cache.c. */

#include <criterion/criterion.h>

#include "host/sampling/process/process.h"

static inline ObjectCache *cache(void) {
        ObjectCache *objects;

        cr_assert_eq(object_cache_new(&objects, 64), 0);
        return objects;
}
