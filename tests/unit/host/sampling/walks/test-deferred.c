/* SPDX-License-Identifier: Apache-2.0 */

/* How long samples wait for tables; tests/integration/desk/test-record.py has what comes of it. */

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
