/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Start of Recordings
 *
 * `record --jfr -p PID` has JVMs that record nothing begin a recording of their allocations, and end it when
 * the session ends, or when this program does. It changes the state of the JVM, so it is asked for by its id.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"

typedef struct JfrStart JfrStart;

enum {
        _JFR_START_E_SUCCESS,
        JFR_START_E_REFUSED,            /* a JVM cannot be asked, or refuses; a line was logged */
        JFR_START_E_NONE,               /* none of them is a JVM; lines were logged */
};

/*
 * Starts a recording in each of the processes, but in those that have one, and of several those that are no
 * JVM. For a program with one thread.
 * Return: 0, JFR_START_E_* (those that were started have been stopped), -errno.
 */
int jfr_start_new(JfrStart **startp, const uint32_t *pids, size_t n_pids);

/* Stops all that were started; all is in their files then. For some seconds at most. */
void jfr_start_stop(JfrStart *start);

JfrStart *jfr_start_free(JfrStart *start);
DEFINE_CLEANUP(JfrStart, jfr_start_free)

/* Pure. Text of an answer to @data, @size bytes of it: `0\nStarted recording 1.`; NULL = it says that it failed. */
const char *jfr_start_answer(const char *data, size_t size);

/*
 * Pure. Whether arguments or an environment switch the attach socket off: texts one behind the other, of
 * @size bytes, with a NUL behind. Of an environment the variables count that a JVM reads.
 */
int jfr_start_is_disabled(const char *texts, size_t size);
