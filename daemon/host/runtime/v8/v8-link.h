/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * V8 Links
 *
 * What the daemon has of each process with V8 instead of its memory and its file: a link to a worker that
 * reads them (host/runtime/reader/reader-link.h). What a file says is asked once for all processes that have
 * it mapped.
 */

#include "host/runtime/reader/reader-link.h"
#include "host/runtime/v8/v8-wire.h"

/* Links to all processes with V8. Not for several threads at once. */
typedef struct V8Links V8Links;

/* @readers: borrowed. Return: 0, -ENOMEM. */
int v8_links_new(V8Links **linksp, ReaderLinks *readers);
V8Links *v8_links_free(V8Links *links);         /* when none of its links is left */
DEFINE_CLEANUP(V8Links, v8_links_free)

void v8_links_tend(V8Links *links, uint64_t now_ns);

/* Link to a process. */
typedef struct V8Link V8Link;

/*
 * @subject: with V8's file, whose Object.id is @object, and whose descriptor is the link's on success.
 * Return: 0, -ENOMEM.
 */
int v8_link_new(V8Link **linkp, V8Links *links, const ReaderSubject *subject, uint64_t object);
V8Link *v8_link_free(V8Link *link);

enum {
        _V8_LINK_E_SUCCESS,
        V8_LINK_E_LATER,                /* there is no worker now, or it had no answer */
        V8_LINK_E_NOT,                  /* there is none; open: (*openedp)->reason says why */
        V8_LINK_E_SHORT,                /* *answer is right, and inlined functions may be missing */
};

/* Opens what the file says. *openedp lives until the next call for any link. Return: 0, V8_LINK_E_*. */
int v8_link_open(V8Link *link, const V8Opened **openedp);

/* @words: of a frame. Return: 0 with *answer, V8_LINK_E_*. */
int v8_link_name(V8Link *link, const uint64_t *words, V8Answer *answer);

/* CPU time of all its workers so far, ns. */
uint64_t v8_link_cpu_ns(const V8Link *link);
