/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Python Session
 *
 * The daemon's side of a conversation with a worker that reads one interpreter (python-wire.h). It checks
 * what the worker says. Where a worker has ended, its socket is -1, and what is returned does not matter.
 */

#include "core/base/sandbox/worker-session.h"
#include "host/runtime/python/python-wire.h"
#include "host/runtime/reader/reader-handle.h"

/* @fd: the interpreter's file of @size bytes. Return: 0, PYTHON_OPEN_E_*; *opened is written in any case. */
int python_session_open(WorkerSession *worker, const ReaderHandle *handle, int fd, uint64_t size,
                        uint64_t bias, PythonOpened *opened);

/* @words: of a frame. Return: 0 with *function, PYTHON_CODE_E_GONE. */
int python_session_name(WorkerSession *worker, const uint64_t *words, PythonFunction *function);

/* @fd: another file of the process. Return: 0 with *more, 1 = it tells nothing. */
int python_session_more(WorkerSession *worker, PythonMoreKind kind, int fd, uint64_t size, PythonMore *more);
