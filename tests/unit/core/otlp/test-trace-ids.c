/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/otlp/trace-ids.h"

/* Two spans of a trace, and one whose id is too short, as protoc packs them. */
#define ID "\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"
#define SPAN "\x12\x12\x0a\x10" ID
#define REQUEST "\x0a\x2f\x12\x2d" SPAN SPAN "\x12\x03\x0a\x01\x10"

static void count(void *userdata, const uint8_t id[static 16]) {
        cr_assert_eq(memcmp(id, ID, 16), 0);
        ++*(int *)userdata;
}

static int read_ids(const char *data, size_t size, int *np) {
        *np = 0;
        return otlp_trace_ids((const uint8_t *)data, size, count, np);
}

Test(trace_ids, are_those_of_all_spans) {
        int n;

        cr_assert_eq(read_ids(REQUEST, sizeof(REQUEST) - 1, &n), 0);
        cr_assert_eq(n, 2);
        cr_assert_eq(read_ids("", 0, &n), 0);
        cr_assert_eq(n, 0);
}

Test(trace_ids, of_a_request_that_is_cut_off_are_none) {
        int n;

        for (size_t size = 1; size < sizeof(REQUEST) - 1; size++) {
                cr_assert_eq(read_ids(REQUEST, size, &n), OTLP_TRACE_IDS_E_MALFORMED, "%zu", size);
                cr_assert_eq(n, 0);
        }
        cr_assert_eq(read_ids("{\"resourceSpans\":[]}", 20, &n), OTLP_TRACE_IDS_E_MALFORMED);
}
