/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Session
 *
 * The daemon's own stages for a user at this host's terminal: sampling as in `run`, but the windows of
 * profiles go to a function instead of a receiver, and what is sampled may be a command that the session
 * starts.
 *
 *     session_init(&session, &options)         the command waits
 *     session_run(&session)                    … is let go once samples are taken; until it, a signal or the
 *                                              duration ends it
 *     session_watch_signals(&session)          while the result is made: an impatient one ends the program
 *     session_unwatch_signals(&session)
 *     command_wait(&session.command, …)        when the result has been written
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/stop-signals.h"
#include "desk/live/command.h"
#include "desk/live/stop-watch.h"
#include "host/service/config/config.h"
#include "host/service/run/daemon.h"

typedef struct SessionOptions {
        Config *config;                 /* borrowed; what a desk has no use for is overwritten */
        char *const *command;           /* NULL = none */
        uint64_t interval_ns;           /* between two windows */
        bool has_one_window;            /* as DaemonSink.has_one_window */
        uint64_t progress_ns;           /* between two calls of progress(); 0 = none */
        /* As DaemonSink.window. */
        int (*window)(void *userdata, const Window *window, uint64_t *n_lostp);
        int (*started)(void *userdata, Daemon *daemon);         /* may be NULL. Return: 0, -errno */
        void (*ending)(void *userdata);         /* as DaemonSink.ending */
        void (*progress)(void *userdata, Daemon *daemon);       /* may be NULL */
        void (*give_up)(void *userdata);        /* of session_watch_signals(); may be NULL */
        void *userdata;
} SessionOptions;

typedef struct Session {
        const SessionOptions *options;
        Command command;
        Daemon *daemon;
        DaemonTotals totals;
        DaemonSink sink;
        uint32_t root;                  /* of the tree of processes */
        sd_event_source *ended, *timer;
        int signal;                     /* that has ended it, 0 = none */
        StopSignals signals;            /* also those that came later */
        StopWatch *watch;
} Session;

int session_init(Session *session, const SessionOptions *options);
void session_deinit(Session *session);

/* Return: 0, DAEMON_E_* (the reason was logged), -errno. */
int session_run(Session *session);

/*
 * For a caller that makes the result after session_run(), and cannot look: until session_unwatch_signals(),
 * the first signal is passed on to the command. An impatient one (stop-signals.h) ends the program, with the
 * status of that signal, right after options->give_up(). That is called in a thread of its own: it says what
 * is given up, and leaves no part of it behind. Without a thread, signals wait for command_wait().
 */
void session_watch_signals(Session *session);
void session_unwatch_signals(Session *session);

/*
 * Ends it as the duration would, soon: a function that the daemon calls, such as options->window, may not
 * stop it itself. Return: 0, -errno.
 */
int session_end(Session *session);

/*
 * Why sampling cannot work here, in a line for people who have just typed the command; NULL = nothing is
 * known to be missing.
 */
const char *session_obstacle(void);
