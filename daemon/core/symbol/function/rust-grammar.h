/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Grammar of Rust names
 *
 * Walks a name of Rust's v0 mangling (RFC 2603) without printing anything, to tell whether to print it is
 * safe. A printer also walks parts that are not shown, and `G` with a number stands for so many lifetimes, up
 * to 2^63: libiberty would count to that number.
 */

#include <stdbool.h>

enum {
        RUST_MAX_NAME = 4096,
        RUST_MAX_LIFETIMES = 1000,      /* lifetimes of one `for<…>` */
        RUST_MAX_DEPTH = 300,           /* depth of nested parts; printers recurse */
};

/* Whether @name (after `_R`) follows the grammar within these limits. What follows a dot is not looked at. */
bool rust_name_is_sound(const char *name);
