/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Recordings
 *
 * What JVMs among the targets record of themselves (JFR), read while they write it: allocations, locks,
 * exceptions, old objects. Workers without rights read the files, one at a time; nothing here waits for one,
 * but for recordings_finish().
 */

#include "core/base/sandbox/zygotes.h"
#include "core/profile/window.h"
#include "host/sampling/aggregate/context-attributes.h"
#include "host/sampling/discover/targets.h"

typedef struct Recordings Recordings;

enum { RECORDINGS_MAX_OPEN = 256 };     /* processes whose recording is read at one time */

typedef struct RecordingsConfig {
        Zygotes *zygotes;               /* borrowed, as all */
        Targets *targets;
        const AttributeFilter *filter;
        uint64_t start_ns;              /* REALTIME: events from before are left out */
} RecordingsConfig;

/* Return: 0, -errno. */
int recordings_new(Recordings **recordingsp, const RecordingsConfig *config);
Recordings *recordings_free(Recordings *recordings);
DEFINE_CLEANUP(Recordings, recordings_free)

/* Readable when recordings_step() has something to do. */
int recordings_fd(const Recordings *recordings);

/* Looks for processes that record, and asks for what is due. Call it each second. Return: 0, -errno. */
int recordings_second(Recordings *recordings);

/* Takes what has come. Return: 0, -errno. */
int recordings_step(Recordings *recordings);

/* At the end: asks once more for all, for @timeout_ns at most. Return: 0, -errno. */
int recordings_finish(Recordings *recordings, uint64_t timeout_ns);

/*
 * All events since the last call, in a closed window with times of REALTIME, which is the caller's; NULL =
 * there are none. Return: 0, -ENOMEM.
 */
int recordings_take(Recordings *recordings, Window **windowp);
