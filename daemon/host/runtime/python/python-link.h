/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Python Links
 *
 * What the worker of an interpreter is asked over its link (host/runtime/reader/file-link.h).
 */

#include "host/runtime/python/python-wire.h"
#include "host/runtime/reader/file-link.h"

/* What a file says: a PythonOpened. */
extern const FileLinkOps python_link_ops;

/* @words: of a frame. Return: 0 with *function, FILE_LINK_E_*. */
int python_link_name(FileLink *link, const uint64_t *words, PythonFunction *function);

/* @fd: another file of the process. Return: 0 with *more, FILE_LINK_E_*. */
int python_link_more(FileLink *link, PythonMoreKind kind, int fd, uint64_t size, PythonMore *more);

/* Learns where the process has its spans. Return: 0 with *spans and what was *said, FILE_LINK_E_LATER. */
int python_link_spans(FileLink *link, struct python_spans *spans, int *said);

/* Return: 0 with what its threads may wait for, FILE_LINK_E_*. */
int python_link_locks(FileLink *link, RuntimeLocks *locks);
