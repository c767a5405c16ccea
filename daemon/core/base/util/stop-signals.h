/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stop Signals
 *
 * What a signal that asks for the end means to a program that has something to finish first. It often comes
 * twice at once: timeout(1) tells its child and then the whole group, sudo passes on what a group was sent,
 * and of a terminal that hangs up both the kernel and the shell tell. So a second signal is impatience only
 * when it comes a second or more after the first:
 *
 *     0 s                1 s
 *     first  duplicates ──┤  impatient: the program ends without its result, and says what it gives up
 *
 * Whichever of the signals it is: at a shutdown they are mixed.
 */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum StopWish {
        STOP_WISH_FIRST,                /* finish, and end */
        STOP_WISH_DUPLICATE,            /* nothing new */
        STOP_WISH_IMPATIENT,            /* end now */
} StopWish;

/* Starts as zeros. */
typedef struct StopSignals {
        uint64_t first_ns;              /* when the first was taken, MONOTONIC */
        int number;                     /* number of the first signal, 0 = none came */
        bool by_terminal;               /* a terminal sent it, to its whole foreground group */
} StopSignals;

/* @code: si_code of the signal. */
StopWish stop_signals_take(StopSignals *signals, int number, int code, uint64_t now_ns);

/* SIGTERM, SIGINT, SIGHUP. */
void stop_signals_fill(sigset_t *set);

/*
 * Takes those that wait, blocked, as a loop would that could look. Return: whether one wishes for more
 * than what goes on already: the first of all, or an impatient one.
 */
bool stop_signals_take_pending(StopSignals *signals);

/*
 * Takes those that wait, blocked, for a caller that could not look for a while: when they came is unknown
 * then, and most of them came with the first.
 */
void stop_signals_drop_pending(void);
