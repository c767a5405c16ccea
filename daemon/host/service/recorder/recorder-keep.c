/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the request back, as `report` would:
 *
 *     gzip ─▶ OTLP ─▶ a window of all of it ─▶ types and reason ─▶ filter ─▶ the window that goes out
 *
 * The bytes are ours, but names in them are a target's: whatever cannot be read is nothing.
 */

#include "host/service/recorder/recorder-keep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file/gzip.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "core/otlp/decode.h"
#include "core/otlp/import.h"
#include "core/profile/copy.h"

enum { WHERE_MAX = 128, TYPE_MAX = 64 };

static int read_request(const RecorderRequest *request, Window *window, uint64_t *endp) {
        _cleanup_(otlp_request_freep) OtlpRequest *decoded = NULL;
        _cleanup_(freep) uint8_t *data = NULL;
        uint64_t start_ns;
        char where[WHERE_MAX];
        size_t size;
        int r = gzip_expand(request->data, request->size, RECORDER_REQUEST_BYTES, &data, &size);

        if (!r)
                r = otlp_decode_request(data, size, &decoded, where, sizeof(where));
        if (!r)
                r = otlp_import_add(window, decoded, &start_ns, endp, where, sizeof(where));
        if (!r)
                window_move_start(window, start_ns);
        return r;
}

/*
 * Profiles of another type are others, and so are those of a second ask: a reader drops a profile whose id it
 * has seen. Return: 0, WINDOW_E_FULL, -ENOMEM.
 */
static int rename_types(Window *window) {
        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                WindowProfileNames names = window_get_profile(window, i)->names;
                const char *known = window_get_string(window, names.type, NULL);
                char type[TYPE_MAX];
                int r, size = snprintf(type, sizeof(type), PROFILE_KEPT "%s", known);

                r = window_string(window, type, (size_t)MIN(size, TYPE_MAX - 1), &names.type);
                if (r)
                        return r;
                window_rename_profile(window, i, &names);
                window_renew_profile_id(window, i);
        }
        return 0;
}

static int say_why(Window *window, const char *reason) {
        uint32_t attribute, attributes[WINDOW_MAX_SET];
        int r = window_attribute_string(window, RECORDER_KEEP_REASON, reason, strlen(reason), &attribute);

        for (uint32_t i = 1; i < window_n_resources(window) && !r; i++) {
                size_t n;
                const uint32_t *known = window_get_resource(window, i, &n);

                if (n == WINDOW_MAX_SET)
                        continue;
                memcpy(attributes, known, n * sizeof(*known));
                attributes[n] = attribute;
                r = window_resource_attributes(window, i, attributes, n + 1);
        }
        return r;
}

static int copy_meant(const Window *window, const RecorderAsk *ask, Window **windowp) {
        char trace[2 * 16 + 1], span[2 * 8 + 1], *traces[] = { trace }, *spans[] = { span };
        const FilterOptions filter = {
                .pids = &ask->pid,
                .n_pids = ask->pid > 0,
                .traces = { traces, ask->query.has_trace },
                .spans = { spans, ask->has_span },
                .start_ns = ask->query.start_ns,
                .end_ns = ask->query.end_ns,
        };
        const CopyOptions options = { .filter = &filter };
        CopyCounts counts;

        text_to_hex(trace, ask->query.trace_id, 16);
        text_to_hex(span, ask->span_id, 8);
        return window_copy(windowp, window, &options, &counts);
}

int recorder_keep(const RecorderRequest *request, const RecorderAsk *ask, Window **windowp) {
        _cleanup_(window_freep) Window *all = NULL, *meant = NULL;
        uint64_t end_ns;
        int r = window_new(&all, 0, 0, NULL);

        if (!r)
                r = read_request(request, all, &end_ns);
        if (!r)
                r = rename_types(all);
        if (!r)
                r = say_why(all, ask->reason);
        if (!r)
                r = window_close(all, end_ns);
        if (!r)
                r = copy_meant(all, ask, &meant);
        if (r < 0)
                return error_fold(r);
        if (r || !window_n_events(meant))
                return RECORDER_KEEP_E_NOTHING;
        *windowp = take(meant);
        return 0;
}
