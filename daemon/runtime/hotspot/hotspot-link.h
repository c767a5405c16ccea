/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HotSpot Links
 *
 * What the daemon has of each JVM instead of its memory: a worker without rights that reads it, or the right
 * to have one made. The loop waits for answers, so all time here is bounded (hotspot-link.c).
 */

#include "base/sandbox/zygotes.h"
#include "base/util/macro.h"
#include "runtime/hotspot/hotspot-wire.h"

enum { HOTSPOT_MAX_LINKED = 64 };       /* workers at the same time; the one that waits longest has to go */

/* All JVMs' workers. Not for several threads at once. */
typedef struct HotspotLinks HotspotLinks;

/* @zygotes: borrowed. Return: 0, -ENOMEM. */
int hotspot_links_new(HotspotLinks **linksp, Zygotes *zygotes);
HotspotLinks *hotspot_links_free(HotspotLinks *links);  /* when none of its links is left */
DEFINE_CLEANUP(HotspotLinks, hotspot_links_free)

/* Some times a second: ends workers that nobody asks any more, and takes note of those that have ended. */
void hotspot_links_tend(HotspotLinks *links, uint64_t now_ns);

/* One JVM. */
typedef struct HotspotLink HotspotLink;

/*
 * @fd: libjvm's file of @size bytes, owned by the link on success; @bias: as for hotspot_new(). Return: 0,
 * -ENOMEM.
 */
int hotspot_link_new(HotspotLink **linkp, HotspotLinks *links, pid_t pid, uint64_t start_time_ns, int fd,
                     uint64_t size, uint64_t bias);
HotspotLink *hotspot_link_free(HotspotLink *link);

/*
 * Reads the JVM anew. *openedp lives until the next call for any link. Return: 0, HOTSPOT_E_* with
 * (*openedp)->reason; HOTSPOT_E_GONE: its workers end without an answer.
 */
int hotspot_link_open(HotspotLink *link, const HotspotOpened **openedp);

/*
 * As hotspot_frames(), for a link that was opened once: a worker that is not there (any more) is made again.
 * *framesp lives until the next call for any link. Return: 0, HOTSPOT_E_NAMELESS; HOTSPOT_E_LATER: there is
 * no worker now.
 */
int hotspot_link_frames(HotspotLink *link, const uint64_t words[HOTSPOT_WORDS],
                        const HotspotFrames **framesp);

/* CPU time of all its workers so far, ns. */
uint64_t hotspot_link_cpu_ns(const HotspotLink *link);
