/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "desk/convert/convert.h"

/* Adds a whole file. Return: as convert_add_source(), SOURCE_E_*. */
static inline int convert_file(Convert *convert, const char *path, Text *problem) {
        _cleanup_(source_deinit) Source source = { .fd = -1 };
        int r = source_open(&source, path, problem);

        return r ? r : convert_add_source(convert, &source, problem);
}
