/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Demotion
 *
 * Root's daemon opens what only root may (sockets, the summary, a spool that it gives away), and then becomes
 * the user of `run-as` with the capabilities of the systemd unit. Later steps that need root fail: a reload
 * goes on with the sockets that are open. A daemon that another user has started keeps its user, and of its
 * capabilities all but CAP_SYS_ADMIN, which the opener of events keeps (host/sampling/sample/event-opener.h).
 */

#include "core/base/sandbox/rights.h"
#include "core/base/sandbox/sweeper.h"
#include "core/base/util/macro.h"
#include "host/service/config/config.h"

typedef struct Demotion {
        RightsUser user;
        bool stays;                     /* the user id does */
        Sweeper *sweeper;               /* NULL = nothing to remove at the end */
} Demotion;

enum {
        _DEMOTION_E_SUCCESS,
        DEMOTION_E_UNUSABLE,            /* the configuration; the reason was logged */
};

/* For a process with one thread. Return: 0, DEMOTION_E_UNUSABLE, -errno. */
int demotion_enter(Demotion *demotion, const Config *config);
void demotion_end(Demotion *demotion);

/*
 * The part that `receive` shares: who to become. *staysp: for want of capabilities, logged, or as was asked
 * for. Return: as above.
 */
int demotion_choose(const Config *config, RightsUser *user, bool *staysp);

/* Becomes that user, or stays user 0, with @capabilities at most; logs what came of it. Return: 0, -errno. */
int demotion_drop(const RightsUser *user, bool stays, uint64_t capabilities);
