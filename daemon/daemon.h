/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Daemon
 *
 * Wires the stages together and turns the event loop:
 *
 *     targets ──rows──▶ sampler ──records──▶ decode ─▶ aggregate ─window─▶ encode ─▶ exporter
 *        ▲                 │
 *        └────notices──────┘
 *
 * Time, counters and errors flow one way. This is the only file that knows every stage.
 */

#include <stdint.h>

#include "config.h"
#include "util/macro.h"

typedef struct Daemon Daemon;

enum {
        _DAEMON_E_SUCCESS,
        DAEMON_E_UNUSABLE,              /* the kernel or the configuration cannot be used; the reason was logged */
        DAEMON_E_SUMMARY,               /* it ran, but the summary could not be written; logged */
        DAEMON_E_NO_TARGET,             /* a process that was asked for does not exist; logged */
};

/* Makes everything, samples nothing yet. @config is borrowed. Return: 0, DAEMON_E_UNUSABLE, -errno. */
int daemon_new(Daemon **daemonp, const Config *config);
Daemon *daemon_free(Daemon *daemon);
DEFINE_CLEANUP(Daemon, daemon_free)

/* Runs until a signal or the configured duration ends it, and flushes. Return: 0, DAEMON_E_*, -errno. */
int daemon_run(Daemon *daemon);
