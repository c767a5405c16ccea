/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Decoded requests as one closed window, as `convert` makes it of its inputs. */

#include "core/base/util/macro.h"
#include "core/otlp/import.h"
#include "desk/convert/format.h"

/* @limits: NULL = those of files. Return: as otlp_import_add(). */
static inline int import_window(Window **windowp, const OtlpRequest *const *requests, size_t n_requests,
                                const WindowLimits *limits, char *where, size_t where_size) {
        _cleanup_(window_freep) Window *window = NULL;
        uint64_t start_ns = UINT64_MAX, end_ns = 0;
        int r = window_new(&window, 0, 0, limits ? limits : &format_limits);

        for (size_t i = 0; !r && i < n_requests; i++) {
                uint64_t from_ns, to_ns;

                r = otlp_import_add(window, requests[i], &from_ns, &to_ns, where, where_size);
                start_ns = MIN(start_ns, from_ns);
                end_ns = MAX(end_ns, to_ns);
        }
        if (r)
                return r;
        window_move_start(window, MIN(start_ns, end_ns));
        r = window_close(window, end_ns);
        if (!r)
                *windowp = take(window);
        return r;
}
