/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HotSpot Session
 *
 * The daemon's side of a conversation with a worker that reads one JVM (hotspot-wire.h), which waits until a
 * deadline. It checks what the worker says.
 */

#include "core/base/sandbox/worker-session.h"
#include "host/runtime/hotspot/hotspot-wire.h"
#include "host/runtime/reader/reader-handle.h"

/* What one worker after the other has said; sessions may share it. */
typedef struct HotspotAnswer {
        HotspotOpened opened;           /* after hotspot_session_open() */
        HotspotFrames frames;           /* after hotspot_session_frames(), with texts in text */
        char text[HOTSPOT_MAX_INLINED][HOTSPOT_WIRE_MAX_TEXT];
} HotspotAnswer;

typedef struct HotspotSession {
        WorkerSession *worker;          /* borrowed; its end_ns is of the question that is asked next */
        HotspotAnswer *answer;          /* borrowed */
} HotspotSession;

/*
 * @session: its worker has begun. @fd: libjvm's file of @size bytes; it and @handle
 * are borrowed for the call. Return: 0 with answer->opened, HOTSPOT_E_* with answer->opened.reason; the
 * worker had no answer: HOTSPOT_E_GONE.
 */
int hotspot_session_open(HotspotSession *session, const ReaderHandle *handle, int fd, uint64_t size,
                         uint64_t bias);

/*
 * As hotspot_frames(); @is_first: of a batch. Return: 0 with answer->frames, HOTSPOT_E_UNLOADED,
 * HOTSPOT_E_NAMELESS; HOTSPOT_E_GONE: the worker has gone, and the session with it.
 */
int hotspot_session_frames(HotspotSession *session, const uint64_t words[HOTSPOT_WORDS], bool is_first);
