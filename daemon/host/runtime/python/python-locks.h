/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Locks of CPython
 *
 * What threads of an interpreter may wait for: locks that their innermost functions have at hand, with the
 * word of memory on which a thread waits that waits for them. A Lock knows no owner, an RLock does.
 */

#include "host/runtime/python/python-span.h"
#include "host/sampling/runtime/runtime-lock.h"

/*
 * Pure but for @reader. One look at memory that changes meanwhile. Names of threads that `threading` has given
 * are among the locks (RUNTIME_LOCK_NONE). @locks->text says if the release is not known, or if threads were
 * left out.
 */
void python_locks_read(RuntimeLocks *locks, const PythonReader *reader, const PythonSubject *subject);
