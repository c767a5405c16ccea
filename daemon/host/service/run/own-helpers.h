/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Own Helpers
 *
 * The daemon's own processes beside it, none of which is ever a target: parsers, readers of files that may
 * hang and their copiers, who opens events, who sweeps. Command and shell of a user are its children, too.
 */

#include <stdbool.h>
#include <stdint.h>

/* Names of helpers in /proc; ends with NULL. */
extern const char *const own_helper_comms[];

/*
 * Whether a process is one of them: by its name, and that of its parent up to us. @comm: its name; NULL = not
 * known.
 */
bool own_helper_is(uint32_t pid, const char *comm);
