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

void stop_signals_drop_pending(void) {
        const struct timespec none = { 0 };
        sigset_t set;
        int number;

        stop_signals_fill(&set);
        do
                number = sigtimedwait(&set, NULL, &none);
        while (number > 0 || errno == EINTR);
}
