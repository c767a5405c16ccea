/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Spans of requests as samples meet them, in orders that leave some of them out.
 */

#include <criterion/criterion.h>
#include <stdio.h>

#include "host/sampling/aggregate/entry-names.h"

enum { PROGRAM = 7, TRACE = 0xaa, ENTRY = 1, MIDDLE = 2, INNER = 3 };

static EntryNames names;

static void setup(void) {
        entry_names_init(&names);
}

static void teardown(void) {
        entry_names_deinit(&names);
}

TestSuite(entry_names, .init = setup, .fini = teardown);

static const char *meet_of(uint64_t program, uint64_t trace, uint64_t span, uint32_t place, uint64_t parent,
                           const char *name) {
        const struct abi_span ids = { .trace_high = 1, .trace_low = trace, .span = span };
        const char *entry = NULL;

        cr_assert_eq(entry_names_meet(&names, program, &ids, place, parent, name, &entry), 0);
        return entry;
}

static const char *meet(uint64_t span, uint32_t place, uint64_t parent, const char *name) {
        return meet_of(PROGRAM, TRACE, span, place, parent, name);
}

Test(entry_names, a_span_has_the_name_of_its_entry_span_once_all_between_were_met) {
        cr_assert_null(meet(INNER, PYTHON_PLACE_CHILD, MIDDLE, "charge"));
        cr_assert_str_eq(meet(ENTRY, PYTHON_PLACE_ENTRY, 0, "POST /order"), "POST /order");
        cr_assert_null(meet(INNER, PYTHON_PLACE_CHILD, MIDDLE, "charge"), "the one between was not met");
        cr_assert_str_eq(meet(MIDDLE, PYTHON_PLACE_CHILD, ENTRY, "checkout"), "POST /order");
        cr_assert_str_eq(meet(INNER, PYTHON_PLACE_CHILD, MIDDLE, "charge"), "POST /order");
}

Test(entry_names, the_last_name_counts_and_one_that_was_not_read_is_none) {
        cr_assert_str_eq(meet(ENTRY, PYTHON_PLACE_ENTRY, 0, "GET"), "GET");
        cr_assert_str_eq(meet(ENTRY, PYTHON_PLACE_ENTRY, 0, "GET /cart"), "GET /cart");
        cr_assert_str_eq(meet(ENTRY, PYTHON_PLACE_UNKNOWN, 0, NULL), "GET /cart");
        cr_assert_str_eq(meet(MIDDLE, PYTHON_PLACE_CHILD, ENTRY, NULL), "GET /cart");
        cr_assert_null(meet(INNER, PYTHON_PLACE_UNKNOWN, 0, "query"), "nothing says whose child it is");
}

Test(entry_names, a_span_of_whom_nothing_else_is_told_is_found_and_not_kept) {
        const struct abi_span inner = { .trace_high = 1, .trace_low = TRACE, .span = INNER };

        cr_assert_null(entry_names_find(&names, PROGRAM, &inner));
        meet(INNER, PYTHON_PLACE_CHILD, ENTRY, "charge");
        cr_assert_null(entry_names_find(&names, PROGRAM, &inner), "its entry span was not met");
        meet(ENTRY, PYTHON_PLACE_ENTRY, 0, "POST /order");
        cr_assert_str_eq(entry_names_find(&names, PROGRAM, &inner), "POST /order");
        cr_assert_null(entry_names_find(&names, PROGRAM + 1, &inner));
        cr_assert_eq(names.spans.n_items, 2);
}

Test(entry_names, another_program_or_trace_is_not_asked) {
        meet(ENTRY, PYTHON_PLACE_ENTRY, 0, "GET /cart");
        cr_assert_null(meet_of(PROGRAM + 1, TRACE, MIDDLE, PYTHON_PLACE_CHILD, ENTRY, "query"));
        cr_assert_null(meet_of(PROGRAM, TRACE + 1, MIDDLE, PYTHON_PLACE_CHILD, ENTRY, "query"));
}

Test(entry_names, parents_that_lead_in_a_circle_end) {
        meet(MIDDLE, PYTHON_PLACE_CHILD, INNER, "a");
        cr_assert_null(meet(INNER, PYTHON_PLACE_CHILD, MIDDLE, "b"));
}

Test(entry_names, more_spans_than_are_kept_are_forgotten_and_never_mixed) {
        char name[32];

        for (unsigned i = 1; i < 200000; i++) {
                snprintf(name, sizeof(name), "name %u", i % 5000);
                cr_assert_str_eq(meet(i, PYTHON_PLACE_ENTRY, 0, name), name);
        }
        cr_assert_null(meet(INNER + 1000000, PYTHON_PLACE_CHILD, 1, "x"), "it is long gone");
}
