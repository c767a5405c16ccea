/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Python Links
 *
 * What the daemon has of each interpreter instead of its memory and its file: a link to a worker that reads
 * them (host/runtime/reader/reader-link.h). What a file says is asked once for all processes that have it
 * mapped.
 */

#include "host/runtime/python/python-wire.h"
#include "host/runtime/reader/reader-link.h"

/* Links to all interpreters. Not for several threads at once. */
typedef struct PythonLinks PythonLinks;

/* @readers: borrowed. Return: 0, -ENOMEM. */
int python_links_new(PythonLinks **linksp, ReaderLinks *readers);
PythonLinks *python_links_free(PythonLinks *links);     /* when none of its links is left */
DEFINE_CLEANUP(PythonLinks, python_links_free)

void python_links_tend(PythonLinks *links, uint64_t now_ns);

/* Link to a process. */
typedef struct PythonLink PythonLink;

/*
 * @subject: with the interpreter's file, whose Object.id is @object, and whose descriptor is the link's on
 * success. Return: 0, -ENOMEM.
 */
int python_link_new(PythonLink **linkp, PythonLinks *links, const ReaderSubject *subject, uint64_t object);
PythonLink *python_link_free(PythonLink *link);

enum {
        _PYTHON_LINK_E_SUCCESS,
        PYTHON_LINK_E_LATER,            /* there is no worker now, or it had no answer */
        PYTHON_LINK_E_NOT,              /* there is none; open: (*openedp)->reason says why */
};

/* Opens what the file says. *openedp lives until the next call for any link. Return: 0, PYTHON_LINK_E_*. */
int python_link_open(PythonLink *link, const PythonOpened **openedp);

/* @words: of a frame. Return: 0 with *function, PYTHON_LINK_E_*. */
int python_link_name(PythonLink *link, const uint64_t *words, PythonFunction *function);

/* @fd: another file of the process. Return: 0 with *more, PYTHON_LINK_E_*. */
int python_link_more(PythonLink *link, PythonMoreKind kind, int fd, uint64_t size, PythonMore *more);

/* Learns where the process has its spans. Return: 0 with *spans and what was *said, PYTHON_LINK_E_LATER. */
int python_link_spans(PythonLink *link, struct python_spans *spans, int *said);

/* CPU time of all its workers so far, ns. */
uint64_t python_link_cpu_ns(const PythonLink *link);
