/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <signal.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/stop-signals.h"

#define BEGIN_NS (7 * NS_PER_SEC)

Test(stop_signals_take, tells_duplicates_from_impatience_by_the_second_since_the_first) {
        static const struct {
                uint64_t after_ns;
                StopWish wish;
        } later[] = {
                { 0, STOP_WISH_DUPLICATE },
                { NS_PER_US, STOP_WISH_DUPLICATE },     /* as timeout(1) has it */
                { 600 * NS_PER_MS, STOP_WISH_DUPLICATE },
                { NS_PER_SEC - 1, STOP_WISH_DUPLICATE },
                { NS_PER_SEC, STOP_WISH_IMPATIENT },    /* since the first, not since the last */
                { NS_PER_SEC + 1, STOP_WISH_IMPATIENT },
                { 3600 * NS_PER_SEC, STOP_WISH_IMPATIENT },
        };
        StopSignals signals = { 0 };

        cr_assert_eq(stop_signals_take(&signals, SIGTERM, SI_USER, BEGIN_NS), STOP_WISH_FIRST);
        for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
                cr_assert_eq(stop_signals_take(&signals, SIGTERM, SI_USER, BEGIN_NS + later[i].after_ns),
                             later[i].wish, "%zu", i);
}

Test(stop_signals_take, takes_the_first_at_the_very_start_of_the_clock_for_one) {
        StopSignals signals = { 0 };

        cr_assert_eq(stop_signals_take(&signals, SIGINT, SI_USER, 0), STOP_WISH_FIRST);
        cr_assert_eq(stop_signals_take(&signals, SIGINT, SI_USER, 0), STOP_WISH_DUPLICATE);
}

Test(stop_signals_take, remembers_the_first_whatever_its_duplicates_are) {
        StopSignals signals = { 0 };

        stop_signals_take(&signals, SIGINT, SI_KERNEL, BEGIN_NS);
        cr_assert_eq(stop_signals_take(&signals, SIGTERM, SI_USER, BEGIN_NS + 5), STOP_WISH_DUPLICATE);
        cr_assert_eq(signals.number, SIGINT);
        cr_assert(signals.by_terminal, "that sudo passed it on, too, does not count");
        cr_assert_eq(signals.first_ns, BEGIN_NS);
}

static bool is_pending(int number) {
        sigset_t pending;

        sigpending(&pending);
        return sigismember(&pending, number) == 1;
}

static void block(void) {
        sigset_t blocked;

        stop_signals_fill(&blocked);
        sigprocmask(SIG_BLOCK, &blocked, NULL);
}

Test(stop_signals_take_pending, tells_of_a_first_signal_and_takes_it) {
        StopSignals signals = { 0 };

        block();
        cr_assert(!stop_signals_take_pending(&signals));
        kill(getpid(), SIGTERM);
        cr_assert(stop_signals_take_pending(&signals));
        cr_assert_eq(signals.number, SIGTERM);
        cr_assert(!is_pending(SIGTERM));
}

Test(stop_signals_take_pending, passes_over_a_duplicate_and_tells_of_impatience) {
        StopSignals signals = { 0 };

        block();
        stop_signals_take(&signals, SIGINT, SI_KERNEL, clock_monotonic_ns());
        kill(getpid(), SIGTERM);
        cr_assert(!stop_signals_take_pending(&signals));
        cr_assert(!is_pending(SIGTERM));
        signals.first_ns = clock_monotonic_ns() - 2 * NS_PER_SEC;
        kill(getpid(), SIGTERM);
        cr_assert(stop_signals_take_pending(&signals));
        cr_assert_eq(signals.number, SIGINT);
}

Test(stop_signals_drop_pending, takes_those_that_wait_and_no_others) {
        sigset_t blocked;

        stop_signals_fill(&blocked);
        sigaddset(&blocked, SIGUSR1);
        sigprocmask(SIG_BLOCK, &blocked, NULL);
        kill(getpid(), SIGTERM);
        kill(getpid(), SIGINT);
        kill(getpid(), SIGHUP);
        kill(getpid(), SIGUSR1);
        cr_assert(is_pending(SIGTERM) && is_pending(SIGINT) && is_pending(SIGHUP));
        stop_signals_drop_pending();
        cr_assert(!is_pending(SIGTERM) && !is_pending(SIGINT) && !is_pending(SIGHUP));
        cr_assert(is_pending(SIGUSR1));
}
