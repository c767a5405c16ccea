/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How long samples wait for tables, and for which: tests/integration/desk/test-record.py has what comes of
 * it.
 */

#include <criterion/criterion.h>

#include "core/base/util/clock.h"
#include "host/sampling/discover/targets.h"
#include "host/sampling/walks/deferred.h"

/* The files of 400 programs took 18 s at a load of 75. */
Test(deferred_patience_ns, of_a_session_is_longer_than_a_busy_machine_takes_for_its_files) {
        cr_assert_gt(deferred_patience_ns(true, false), 18 * NS_PER_SEC);
}

/* Its windows leave for a receiver meanwhile. */
Test(deferred_patience_ns, of_a_daemon_is_shorter_than_its_programs_stay_known) {
        cr_assert_lt(deferred_patience_ns(false, false), TARGETS_KEEP_NS);
        cr_assert_lt(deferred_patience_ns(false, true), TARGETS_KEEP_NS);
}

/* A sample without its callers is better than none. */
Test(deferred_patience_ns, is_no_longer_where_programs_that_are_gone_make_room_for_others) {
        cr_assert_eq(deferred_patience_ns(true, true), deferred_patience_ns(false, false));
}

/* ---- what is missing ---- */

enum { INNER = 0x401000, CUT = 0x7f0000001000, OBJECT = 0x7f0000200000 };

static uint64_t tagged(enum runtime_kind kind) {
        return (uint64_t)kind << RUNTIME_KIND_SHIFT | OBJECT;
}

static uint64_t missing(enum abi_stack_end end, const uint64_t *user, uint16_t n) {
        return deferred_missing_pc(&(struct abi_sample){ .stack_end = (uint8_t)end, .n_user = n }, user);
}

Test(deferred_missing_pc, is_that_of_the_last_frame) {
        const uint64_t user[] = { INNER, CUT };

        cr_assert_eq(missing(ABI_STACK_PENDING, user, 2), CUT);
        cr_assert_eq(missing(ABI_STACK_PENDING, user, 1), INNER);
}

/* The second word of a frame is no address, and looks like one here. */
Test(deferred_missing_pc, stands_before_functions_that_called_it) {
        const uint64_t user[] = { INNER,
                                  tagged(RUNTIME_PYTHON), OBJECT,
                                  CUT,
                                  tagged(RUNTIME_PYTHON), OBJECT,
                                  tagged(RUNTIME_PHP), OBJECT };

        cr_assert_eq(missing(ABI_STACK_PENDING, user, 8), CUT);
        cr_assert_eq(missing(ABI_STACK_PENDING, user, 3), INNER);
}

Test(deferred_missing_pc, is_none_of_walks_that_ended_otherwise) {
        const uint64_t user[] = { INNER, CUT }, code[] = { tagged(RUNTIME_HOTSPOT_BLOB), OBJECT, OBJECT };

        cr_assert_eq(missing(ABI_STACK_COMPLETE, user, 2), 0);
        cr_assert_eq(missing(ABI_STACK_PENDING, user, 0), 0);
        cr_assert_eq(missing(ABI_STACK_PENDING, code, 3), 0);
}
