/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `contexts --check`
 *
 * Holds what a process publishes against the rules of writers, and prints one line a rule.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/sampling/process/object.h"
#include "host/sampling/process/process.h"

/*
 * @duration_ns: 0 = a few seconds. *is_seenp: whether something was seen; *is_heldp: … and no rule is
 * violated. Return: 0, PROCESS_E_*, -errno.
 */
int contexts_check(Process *process, ObjectCache *objects, uint64_t duration_ns, bool *is_seenp,
                   bool *is_heldp);
