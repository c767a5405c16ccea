/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Traces an error where it is made. A named condition that its caller should have handled becomes an
 * internal error where it is passed on.
 */

#include "core/base/util/error.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/log.h"

int error_trace(int r, const char *file, int line, const char *function) {
        if (r < 0)
                log_debug("%s (%s:%d): %s", function, file, line, strerror(-r));
        return r;
}

int error_pass(int r, const char *file, int line, const char *function) {
        if (r > 0) {
                log_error("internal error: unhandled condition %d in %s (%s:%d)", r, function, file, line);
                return -ENOTRECOVERABLE;
        }
        return r;
}
