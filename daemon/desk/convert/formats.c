/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Has the table of readers, in the order in which they are asked, and that of writers.
 */

#include <string.h>

#include "desk/convert/convert.h"

/* In the order in which they are asked. OTLP as protobuf begins with nothing special, so it is the last. */
const ConvertReader *const convert_readers[] = {
        &convert_read_jfr,
        &convert_read_spool,
        &convert_read_framed,
        &convert_read_coro,
        &convert_read_pprof,
        &convert_read_speedscope,
        &convert_read_page,
        &convert_read_perf_script,
        &convert_read_folded,
        &convert_read_otlp,
        NULL,
};

const ConvertWriter *const convert_writers[] = {
        &convert_write_otlp,
        &convert_write_json,
        &convert_write_folded,
        &convert_write_pprof,
        &convert_write_pgo,
        &convert_write_html,
        &convert_write_svg,
        &convert_write_speedscope,
        &convert_write_firefox,
        NULL,
};

static bool has_suffix(const char *path, const char *suffix, size_t size) {
        size_t length = strlen(path);

        return length > size && !strncmp(path + length - size, suffix, size);
}

static size_t matching_suffix(const char *path, const char *suffixes) {
        for (size_t n; *suffixes; suffixes += n + (suffixes[n] == ' ')) {
                n = strcspn(suffixes, " ");
                if (has_suffix(path, suffixes, n))
                        return n;
        }
        return 0;
}

/* The longest suffix decides: `.pb.gz` is not `.gz`. */
const ConvertWriter *convert_find_writer(const char *name, const char *path) {
        const ConvertWriter *best = NULL;
        size_t best_size = 0;

        for (const ConvertWriter *const *writer = convert_writers; *writer; writer++) {
                size_t size = name && *name ? !strcmp((*writer)->name, name)
                                            : matching_suffix(path, (*writer)->suffixes);

                if (size > best_size) {
                        best = *writer;
                        best_size = size;
                }
        }
        return best;
}
