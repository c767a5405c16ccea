/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares the time of each signal with that of the first: within a second it is a duplicate, later it is
 * impatience.
 */

#include "core/base/util/stop-signals.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "core/base/util/clock.h"

#define DUPLICATES_NS NS_PER_SEC

StopWish stop_signals_take(StopSignals *signals, int number, int code, uint64_t now_ns) {
        if (signals->number)
                return now_ns - signals->first_ns < DUPLICATES_NS ? STOP_WISH_DUPLICATE : STOP_WISH_IMPATIENT;
        *signals = (StopSignals){ .first_ns = now_ns, .number = number, .by_terminal = code == SI_KERNEL };
        return STOP_WISH_FIRST;
}

void stop_signals_fill(sigset_t *set) {
        sigemptyset(set);
        sigaddset(set, SIGTERM);
        sigaddset(set, SIGINT);
        sigaddset(set, SIGHUP);
}

bool stop_signals_take_pending(StopSignals *signals) {
        const struct timespec none = { 0 };
        bool is_wish = false;
        siginfo_t info;
        sigset_t set;
        int number;

        stop_signals_fill(&set);
        while ((number = sigtimedwait(&set, &info, &none)) > 0 || errno == EINTR)
                is_wish |= number > 0 &&
                        stop_signals_take(signals, number, info.si_code, clock_monotonic_ns()) !=
                                STOP_WISH_DUPLICATE;
        return is_wish;
}

void stop_signals_drop_pending(void) {
        const struct timespec none = { 0 };
        sigset_t set;
        int number;

        stop_signals_fill(&set);
        do
                number = sigtimedwait(&set, NULL, &none);
        while (number > 0 || errno == EINTR);
}
