/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HotSpot Links
 *
 * What the daemon has of each JVM instead of its memory: a link to a worker that reads it
 * (host/runtime/reader/reader-link.h).
 */

#include "host/runtime/hotspot/hotspot-wire.h"
#include "host/runtime/reader/reader-link.h"

/* Links to all JVMs. Not for several threads at once. */
typedef struct HotspotLinks HotspotLinks;

/* @readers: borrowed. Return: 0, -ENOMEM. */
int hotspot_links_new(HotspotLinks **linksp, ReaderLinks *readers);
HotspotLinks *hotspot_links_free(HotspotLinks *links);  /* when none of its links is left */
DEFINE_CLEANUP(HotspotLinks, hotspot_links_free)

void hotspot_links_tend(HotspotLinks *links, uint64_t now_ns);

/* Link to a JVM. */
typedef struct HotspotLink HotspotLink;

/* @subject: with libjvm's file, whose descriptor is the link's on success. Return: 0, -ENOMEM. */
int hotspot_link_new(HotspotLink **linkp, HotspotLinks *links, const ReaderSubject *subject);
HotspotLink *hotspot_link_free(HotspotLink *link);

/*
 * Reads the JVM anew. *openedp lives until the next call for any link. Return: 0, HOTSPOT_E_* with
 * (*openedp)->reason; HOTSPOT_E_GONE: its workers end without an answer.
 */
int hotspot_link_open(HotspotLink *link, const HotspotOpened **openedp);

/*
 * As hotspot_frames(), for a link that was opened once: a worker that is not there (any more) is made again.
 * *framesp lives until the next call for any link. Return: 0, HOTSPOT_E_UNLOADED,
 * HOTSPOT_E_NAMELESS; HOTSPOT_E_LATER: there is no worker now.
 */
int hotspot_link_frames(HotspotLink *link, const uint64_t words[HOTSPOT_WORDS],
                        const HotspotFrames **framesp);

/* Return: 0 with what its threads wait for, HOTSPOT_E_LATER. */
int hotspot_link_locks(HotspotLink *link, RuntimeLocks *locks);

/* CPU time of all its workers so far, ns. */
uint64_t hotspot_link_cpu_ns(const HotspotLink *link);
