/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <time.h>

#include "host/service/limits/clock-watch.h"

static void count(void *userdata) {
        ++*(int *)userdata;
}

/* Sets the clock to what it shows: a discontinuous change to the kernel, none to anybody else. */
Test(clock_watch, tells_each_time_that_the_clock_is_set) {
        ClockWatch *watch;
        struct timespec now;
        sd_event *event;
        int n = 0;

        cr_assert_geq(sd_event_new(&event), 0);
        cr_assert_eq(clock_watch_new(&watch, event, count, &n), 0);
        cr_assert_eq(sd_event_run(event, 0), 0);
        cr_assert_eq(n, 0, "a clock that runs is not a clock that was set");
        for (int i = 1; i <= 2; i++) {
                clock_gettime(CLOCK_REALTIME, &now);
                if (clock_settime(CLOCK_REALTIME, &now) < 0)
                        cr_skip_test("root: may not set the clock");
                cr_assert_gt(sd_event_run(event, 1000000), 0);
                cr_assert_eq(n, i);
        }
        clock_watch_free(watch);
        sd_event_unref(event);
}
