/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HotSpot Session
 *
 * The daemon's side of a conversation with a worker that reads one JVM (hotspot-wire.h), in a thread that may
 * wait. It gives the worker what it asks for of the process, and checks what it says.
 */

#include "base/sandbox/worker-session.h"
#include "runtime/hotspot/hotspot-wire.h"

typedef struct HotspotSession {
        WorkerSession worker;           /* end_ns: of the question that is asked next; set by the caller */
        HotspotReader source;           /* of the process: hotspot_process_read(), for example */
        uint32_t n_left;                /* pages that this question may still cost */
        HotspotOpened opened;           /* after hotspot_session_open() */
        HotspotFrames frames;           /* after hotspot_session_frames(), with texts in text */
        char text[HOTSPOT_MAX_INLINED][HOTSPOT_WIRE_MAX_TEXT];
} HotspotSession;

/*
 * @session: worker and source are set, with a socket of -1. @fd: libjvm's file of @size bytes, borrowed.
 * Return: 0 with session->opened, HOTSPOT_E_* with session->opened.reason; the worker had no answer:
 * HOTSPOT_E_LATER.
 */
int hotspot_session_open(HotspotSession *session, int fd, uint64_t size, uint64_t bias);

/*
 * As hotspot_frames(); @is_first: of a batch. Return: 0 with session->frames, HOTSPOT_E_NAMELESS;
 * HOTSPOT_E_LATER: the worker has gone, and the session with it.
 */
int hotspot_session_frames(HotspotSession *session, const uint64_t words[HOTSPOT_WORDS], bool is_first);

void hotspot_session_end(HotspotSession *session);
